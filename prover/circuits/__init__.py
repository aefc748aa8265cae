"""The bundled circuit: Merkle membership of depth 8 over circomlib's Poseidon, 1,937 constraints, domain 2^11.

Data for the demonstration and the tests, made by ``make.sh`` in this folder. Public signals: ``root``, ``context``.
"""

from importlib.resources import files
from pathlib import Path
from typing import Final

ROOT: Final = Path(str(files(__name__)))

NAME: Final = "merkle8"
ZKEY: Final = ROOT / "merkle8.zkey"
"""The proving key, contributed to once; its toxic waste was known to one machine."""
WITNESS: Final = ROOT / "merkle8.wtns"
"""The witness of ``merkle8_input.json``."""
OTHER_WITNESS: Final = ROOT / "merkle8_other.wtns"
"""A witness of the same circuit with other public signals."""
VERIFICATION_KEY: Final = ROOT / "merkle8_verification_key.json"
"""The verification key, as snarkjs exported it."""
