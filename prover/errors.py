"""What can go wrong between a file and a proof, and the exit code each failure ends a command with.

ProverError                  carries the exit code and the one sentence an operator reads
├── MalformedFile       2    a file cannot be read, or is not what it claims to be
├── Mismatch            3    well-formed files that do not belong together, or to this prover
├── ProofRejected       4    the proof does not verify: bad witness, damaged key or a forged proof
├── DeviceError         5    the device is absent, or failed
└── InternalError       6    a bug of ours
Cancelled                    somebody asked for the end; not a failure, so it has no exit code
"""

from os import PathLike, fspath
from typing import ClassVar


def printable(text: str | PathLike[str]) -> str:
    """Return ``text`` with every character that a terminal or a log could misread written as an escape."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape", "surrogatepass").decode("ascii")
        for character in fspath(text)
    )


class ProverError(Exception):
    """Base of every failure of the prover.

    Attributes:
        exit_code: what a command ends with.
        sentence: one sentence for the operator: what is wrong, where, and what to do.
    """

    exit_code: int
    sentence: str

    def __init__(self, exit_code: int, sentence: str) -> None:
        self.exit_code = exit_code
        self.sentence = sentence
        super().__init__(exit_code, sentence)

    def __str__(self) -> str:
        return self.sentence


class MalformedFile(ProverError):
    """A file cannot be read, or one of its fields is wrong.

    Attributes:
        path: the file as it was named.
        field: the field, section or key inside the file; empty where the whole file is meant.
        problem: what is wrong with it.
    """

    code: ClassVar[int] = 2

    def __init__(self, path: str | PathLike[str], field: str, problem: str) -> None:
        self.path = printable(path)
        self.field = field
        self.problem = problem
        place = f"{self.path}: {field}" if field else self.path
        super().__init__(self.code, f"{place}: {problem}")

    def __reduce__(self) -> tuple[type["MalformedFile"], tuple[str, str, str]]:
        """Rebuild from the three arguments, not from the base's two."""
        return type(self), (self.path, self.field, self.problem)


class _Sentence(ProverError):
    """A failure that is its sentence."""

    code: ClassVar[int] = 6

    def __init__(self, sentence: str) -> None:
        super().__init__(self.code, sentence)

    def __reduce__(self) -> tuple[type["_Sentence"], tuple[str]]:
        """Rebuild from the one argument, not from the base's two."""
        return type(self), (self.sentence,)


class Mismatch(_Sentence):
    """Files that are well-formed and do not belong together: another circuit, curve or proof system."""

    code: ClassVar[int] = 3


class ProofRejected(_Sentence):
    """A proof does not verify; it has not been handed out."""

    code: ClassVar[int] = 4


class DeviceError(_Sentence):
    """A device is absent, cannot be used, or failed."""

    code: ClassVar[int] = 5


class InternalError(_Sentence):
    """A bug of ours."""

    code: ClassVar[int] = 6


class Cancelled(Exception):
    """A proof was stopped because somebody asked for it."""
