"""Files by digest: whole or not there, whatever a client sends."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub import artifacts
from hub.artifacts import Artifacts

DATA = random.Random(7).randbytes(3 * 1024 * 1024 + 17)
DIGEST = hashlib.sha256(DATA).hexdigest()


def opened(folder: Path, one: int = 16 * 2**20, total: int = 64 * 2**20) -> Artifacts:
    return Artifacts.open(folder / "artifacts", artifact_bytes_max=one, total_bytes_max=total)


async def pieces(data: bytes, size: int = 100_000) -> AsyncIterator[bytes]:
    for position in range(0, len(data), size):
        yield data[position : position + size]


def files(store: Artifacts) -> list[Path]:
    return [path for path in store.directory.rglob("*") if path.is_file()]


async def test_what_was_put_lies_under_its_digest_and_is_counted(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stored = await store.put(DIGEST, pieces(DATA), announced_bytes=len(DATA))
    assert (stored.bytes_, stored.created) == (len(DATA), True)
    assert store.path(DIGEST).read_bytes() == DATA
    assert store.size_bytes(DIGEST) == store.total_bytes == len(DATA)
    assert opened(tmp_path).total_bytes == len(DATA)


async def test_putting_it_again_is_harmless_and_checked(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.put(DIGEST, pieces(DATA))
    again = await store.put(DIGEST, pieces(DATA))
    assert not again.created
    assert store.total_bytes == len(DATA)
    with pytest.raises(artifacts.DigestMismatch):
        await store.put(DIGEST, pieces(b"something else"))
    assert store.path(DIGEST).read_bytes() == DATA


async def test_two_uploads_of_the_same_file_at_once_are_one(tmp_path: Path) -> None:
    store = opened(tmp_path)
    both = await asyncio.gather(store.put(DIGEST, pieces(DATA)), store.put(DIGEST, pieces(DATA, 7777)))
    assert sorted(one.created for one in both) == [False, True]
    assert store.total_bytes == len(DATA)
    assert len(files(store)) == 1


@pytest.mark.parametrize(
    ("one", "total", "announced", "digest", "error"),
    [
        (1000, 2**30, len(DATA), DIGEST, artifacts.ArtifactTooLarge),
        (1000, 2**30, None, DIGEST, artifacts.ArtifactTooLarge),
        (2**30, 1000, len(DATA), DIGEST, artifacts.StoreFull),
        (2**30, 2 * 2**20, None, DIGEST, artifacts.StoreFull),
        (2**30, 2**30, len(DATA) + 1, DIGEST, artifacts.Incomplete),
        (2**30, 2**30, 1, DIGEST, artifacts.Incomplete),
        (2**30, 2**30, None, "0" * 64, artifacts.DigestMismatch),
    ],
)
async def test_a_refused_upload_leaves_nothing(
    tmp_path: Path, one: int, total: int, announced: int | None, digest: str, error: type[Exception]
) -> None:
    store = opened(tmp_path, one, total)
    with pytest.raises(error):
        await store.put(digest, pieces(DATA), announced_bytes=announced)
    assert files(store) == []
    assert store.total_bytes == 0


async def test_an_upload_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield DATA[: 2 * 1024 * 1024]
        raise ConnectionResetError

    store = opened(tmp_path)
    with pytest.raises(ConnectionResetError):
        await store.put(DIGEST, broken(), announced_bytes=len(DATA))
    assert files(store) == []
    assert store.total_bytes == 0


async def test_what_a_killed_hub_left_half_done_is_dropped_at_the_next_start(tmp_path: Path) -> None:
    store = opened(tmp_path)
    await store.put(DIGEST, pieces(DATA))
    (store.directory / artifacts.TEMPORARY / "half").write_bytes(b"half")
    (store.directory / "notes.txt").write_text("an operator's own")
    store = opened(tmp_path)
    assert store.total_bytes == len(DATA)
    assert {path.name for path in files(store)} == {DIGEST, "notes.txt"}


async def test_the_folder_is_the_hubs_alone(tmp_path: Path) -> None:
    store = opened(tmp_path)
    stored = await store.put_bytes(b"made by the hub")
    assert store.path(stored.sha256).read_bytes() == b"made by the hub"
    assert store.directory.stat().st_mode & 0o777 == 0o700


@given(st.text(max_size=80))
def test_a_name_that_is_no_digest_never_becomes_a_path(name: str) -> None:
    store = Artifacts(Path("nowhere"), artifact_bytes_max=1, total_bytes_max=1)
    if artifacts.DIGEST.fullmatch(name) is None:
        with pytest.raises(artifacts.InvalidDigest):
            store.path(name)


@pytest.mark.parametrize("name", ["../" * 21 + "x", DIGEST.upper(), DIGEST + "\n", DIGEST[:-1], "/etc/passwd", ""])
def test_hostile_names(name: str) -> None:
    store = Artifacts(Path("nowhere"), artifact_bytes_max=1, total_bytes_max=1)
    with pytest.raises(artifacts.InvalidDigest):
        store.path(name)
