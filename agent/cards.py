"""How many cards this node has, without loading anything of CUDA: that is the workers' and the NVML child's."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

DEVICE_FILES: Final = Path("/dev")
CARDS_MAX: Final = 64
_NODE: Final = re.compile(r"nvidia[0-9]{1,3}")
_VISIBLE: Final = re.compile(r"[0-9]{1,3}|(?:GPU|MIG)-[0-9A-Za-z/-]{1,100}")


def count_cards(environ: Mapping[str, str], folder: Path = DEVICE_FILES) -> int:
    """Return how many cards a CUDA program that is started here would see.

    Args:
        environ: of the program; CUDA_VISIBLE_DEVICES may leave cards out.
        folder: where device files lie.
    """
    try:
        present = sum(1 for path in folder.iterdir() if _NODE.fullmatch(path.name))
    except OSError:
        present = 0
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        listed = 0
        # The driver, too, stops at the first name that is none.
        for name in visible.split(","):
            if not _VISIBLE.fullmatch(name.strip()):
                break
            listed += 1
        present = min(present, listed)
    return min(present, CARDS_MAX)
