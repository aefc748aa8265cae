"""Benches: each prints its figures and one JSON line last. docs/performance.md says what each of them measures.

A bench that is run as a file (``python bench/ingest.py``) has this folder first on its path, where ``agent`` would be
`bench.agent` and not the package of that name; so the folder leaves the path before anything else is imported.
"""

import sys
from pathlib import Path

_HERE = Path(__file__).parent.resolve()
sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != _HERE]
