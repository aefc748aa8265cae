"""What a failed run left, put where it can be looked at; without keys, tokens and artifacts."""

import shutil
from pathlib import Path

from tests.chaos.report import FOLDER
from tests.e2e.rig import Rig

SECRET = ("*.sock", "artifacts", "*.key", "admin-token", "hub.secret", "token-*", "*-disk")


def keep_what_is_left(rig: Rig, seed: int) -> Path:
    """Copy a stopped rig's folder to build/chaos/SEED."""
    rig.stop()
    kept = FOLDER / str(seed)
    shutil.rmtree(kept, ignore_errors=True)
    shutil.copytree(rig.folder, kept, ignore=shutil.ignore_patterns(*SECRET))
    return kept
