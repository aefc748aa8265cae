"""What a failed run left, put where it can be looked at; without keys, tokens and artifacts."""

import shutil
from pathlib import Path

from tests.chaos.report import FOLDER
from tests.e2e.rig import Rig

SECRET = ("*.sock", "artifacts", "*.key", "admin-token", "hub.secret", "token-*", "*-disk")


def keep_what_is_left(rig: Rig, name: str) -> Path:
    """Stop a rig and copy its folder to build/chaos/NAME."""
    rig.stop()
    kept = FOLDER / name
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(rig.folder, kept, ignore=shutil.ignore_patterns(*SECRET))
    return kept
