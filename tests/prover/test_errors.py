import pickle

import pytest

from prover.errors import (
    Cancelled,
    DeviceError,
    InternalError,
    MalformedFile,
    Mismatch,
    ProofRejected,
    ProverError,
    printable,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (MalformedFile("k.zkey", "section 4", "is short"), 2),
        (Mismatch("k.zkey is of another circuit"), 3),
        (ProofRejected("the proof does not verify"), 4),
        (DeviceError("no such card"), 5),
        (InternalError("a bug"), 6),
    ],
)
def test_every_error_has_its_exit_code_and_survives_a_process_boundary(error: ProverError, code: int) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert (type(again), str(again), again.exit_code) == (type(error), error.sentence, code)


def test_a_malformed_file_is_named_with_its_field() -> None:
    assert str(MalformedFile("a/k.zkey", "header", "is cut off")) == "a/k.zkey: header: is cut off"
    assert str(MalformedFile("a/k.zkey", "", "is a folder")) == "a/k.zkey: is a folder"


def test_names_cannot_write_on_the_terminal() -> None:
    assert printable("a\x1b[2Jb\n\udcff") == "a\\x1b[2Jb\\n\\udcff"
    assert "\n" not in str(MalformedFile("two\nlines", "x", "y"))


def test_cancellation_is_no_failure_with_an_exit_code() -> None:
    assert not issubclass(Cancelled, ProverError)
