"""``python -m hub.api`` prints the OpenAPI document: what the page's types are made from."""

import json
import sys

from hub.api import ROUTES
from hub.api.openapi import document

json.dump(document(ROUTES), sys.stdout, indent=1)
