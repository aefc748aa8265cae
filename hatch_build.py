"""Builds the page into wheels and source archives, so that an installed hub needs no Node.js.

Without npm what ``make page`` left in ``hub/page`` is taken. Without that too the hub works, and says at `/` what is
missing.
"""

import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PageHook(BuildHookInterface[Any]):
    """Runs before the files are gathered."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the page; an editable installation serves the working tree's own."""
        if version == "editable":
            return
        root = Path(self.root)
        npm = shutil.which("npm")
        if npm is not None and (root / "web").is_dir():
            if not (root / "node_modules").is_dir():
                subprocess.run([npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=root, check=True)  # noqa: S603 - our own tool
            subprocess.run([npm, "exec", "--", "vite", "build", "web"], cwd=root, check=True)  # noqa: S603 - same
        elif not (root / "hub" / "page" / "index.html").is_file():
            self.app.display_warning("npm is missing: the hub is built without its page (apt-get install nodejs npm)")
        build_data["artifacts"].append("/hub/page/")
