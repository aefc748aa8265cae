"""The CUDA text, its parameters and its executable specification.

This package imports nothing of ours and compiles nothing: ``ROOT`` says where the sources lie, the
backends of ``prover`` turn them into something that runs.
"""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent
"""The folder of the kernel sources, as the compilers' include path."""
