import hashlib
import os
import struct
from pathlib import Path

import pytest

from prover.errors import MalformedFile
from prover.formats.container import SECTIONS_MAX, Container
from tests.prover.toy import container


def opened(path: Path, data: bytes) -> Container:
    path.write_bytes(data)
    return Container.open(path, magic=b"test", version_max=2)


def test_sections_are_found_by_id_whatever_their_order(tmp_path: Path) -> None:
    data = container(b"test", 2, [(7, b"seven"), (900, b""), (1, b"one")])
    with opened(tmp_path / "f", data) as file:
        assert (bytes(file.section(1, "a")), bytes(file.section(7, "b")), bytes(file.section(900, "c"))) == (
            b"one",
            b"seven",
            b"",
        )
        assert file.sha256() == hashlib.sha256(data).hexdigest()


def test_a_view_outlives_the_context_that_gave_it(tmp_path: Path) -> None:
    with opened(tmp_path / "f", container(b"test", 1, [(1, b"payload")])) as file:
        view = file.section(1, "a")
    assert bytes(view) == b"payload"


def test_missing_repeated_and_missized_sections_are_named(tmp_path: Path) -> None:
    with opened(tmp_path / "f", container(b"test", 1, [(1, b"x"), (1, b"y"), (2, b"abc")])) as file:
        with pytest.raises(MalformedFile, match=r"section 3 \(points\): is missing"):
            file.section(3, "points")
        with pytest.raises(MalformedFile, match=r"section 1 \(header\): is there 2 times"):
            file.section(1, "header")
        with pytest.raises(MalformedFile, match=r"section 2 \(list\): has 3 bytes, but 2 things of 2 bytes make 4"):
            file.section_of_size(2, "list", 4, "2 things of 2 bytes")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "header: the file has 0 bytes"),
        (b"test\x01\0\0\0\0\0\0", "header: the file has 11 bytes"),
        (container(b"tset", 1, []), "magic: "),
        (container(b"test", 0, []), "version: is 0"),
        (container(b"test", 3, []), "version: is 3"),
        (struct.pack("<4sII", b"test", 1, 2**32 - 1), "number of sections: is 4294967295"),
        (struct.pack("<4sII", b"test", 1, SECTIONS_MAX), f"section header 1 of {SECTIONS_MAX}: is cut off"),
        (container(b"test", 1, [(5, b"abc")])[:-1], "section 5 claims 3 bytes"),
        (struct.pack("<4sIIIQ", b"test", 1, 1, 5, 2**64 - 1), "section 5 claims 18446744073709551615 bytes"),
        (struct.pack("<4sIIIQ", b"test", 1, 1, 5, 2**32 + 1) + b"x", "section 5 claims 4294967297 bytes"),
    ],
)
def test_a_damaged_table_is_one_sentence(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(MalformedFile) as caught:
        opened(tmp_path / "f", data)
    assert message in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "f"))


def test_what_is_no_regular_file_is_refused_without_waiting(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (tmp_path, fifo, Path("/dev/zero")):
        with pytest.raises(MalformedFile, match="is not a regular file"):
            Container.open(path, magic=b"test", version_max=1)
    with pytest.raises(MalformedFile, match="cannot be opened: No such file"):
        Container.open(tmp_path / "absent", magic=b"test", version_max=1)
    with pytest.raises(MalformedFile, match="cannot be opened"):
        Container.open("nul\0name", magic=b"test", version_max=1)


def test_more_than_four_gibibytes_are_addressed(tmp_path: Path) -> None:
    """A sparse file: nothing is read that is not asked for."""
    far = 5 << 30
    with (tmp_path / "f").open("wb") as file:
        file.write(struct.pack("<4sIIIQ", b"test", 1, 2, 1, far))
        file.seek(far, os.SEEK_CUR)
        file.write(struct.pack("<IQ", 2, 4) + b"last")
    with Container.open(tmp_path / "f", magic=b"test", version_max=1) as found:
        assert len(found.section(1, "big")) == far
        assert bytes(found.section(2, "small")) == b"last"
