"""The host device: building it, its memory, its launches."""

import os
import pwd
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.entries import entries
from prover.backends import build as building
from prover.backends import cache as caching
from prover.backends import card_count, open_backend, parse_bytes
from prover.backends import host as hosting
from prover.backends.base import Launch, Scope
from prover.backends.build import build
from prover.backends.host import HostBackend
from prover.errors import DeviceError

SMALL = ("counters",)
"""An entry file that compiles in no time."""

Compiler = Callable[[str], Path]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder of our own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "provewire" / "host"


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """Makes a compiler of a shell script and names it in CXX."""

    def make(script: str) -> Path:
        path = tmp_path / "my-compiler"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="ascii")
        path.chmod(0o755)
        monkeypatch.setenv("CXX", str(path))
        return path

    return make


def test_host_and_auto_are_devices() -> None:
    for device in ("host", "auto"):
        with open_backend(device) as backend:
            assert backend.name == "host"
            assert re.fullmatch(r"\S+ CPU, [0-9]+ threads", backend.description)
            traits = backend.traits()
            assert traits.kind == "cpu"
            assert traits.parallel >= 1
            assert traits.memory_bytes > 1 << 20


@pytest.mark.skipif(card_count() > 0, reason="this machine has a card")
@pytest.mark.parametrize("device", ["cuda:0", "cuda:17"])
def test_a_card_where_there_is_no_driver_is_one_sentence(device: str) -> None:
    backend = open_backend(device)
    with pytest.raises(DeviceError, match=r"no NVIDIA driver on this machine .*use --device host") as caught:
        backend.__enter__()
    assert caught.value.exit_code == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1", 1), ("20G", 20 << 30), ("20 gib", 0), ("512M", 512 << 20), ("3kB", 3072), ("7TiB", 7 << 40)],
)
def test_amounts_of_memory(text: str, expected: int) -> None:
    if expected:
        assert parse_bytes(text) == expected
    else:
        with pytest.raises(DeviceError, match="is no amount of memory; write it like 20G"):
            parse_bytes(text)


@pytest.mark.parametrize("device", ["", "gpu", "cuda", "cuda:", "cuda:-1", "cuda:0 ", "host\n", "HOST"])
def test_other_names_are_no_devices(device: str) -> None:
    with pytest.raises(DeviceError, match="is no device; use auto, host or cuda:N"):
        open_backend(device)


def test_memory_is_zeroed_aligned_and_bounded() -> None:
    with HostBackend(files=SMALL) as backend:
        buffer = backend.allocate(100)
        assert buffer.address % 64 == 0
        assert backend.download(buffer, 0, 100) == bytes(100)
        backend.upload(buffer, b"abc", 97)
        assert backend.download(buffer, 96, 4) == b"\0abc"
        for offset, nbytes in ((0, 101), (100, 1), (-1, 1), (98, 3)):
            with pytest.raises(ValueError, match="do not lie in a buffer of 100"):
                backend.download(buffer, offset, nbytes)
            with pytest.raises(ValueError, match="do not lie in a buffer of 100"):
                backend.upload(buffer, bytes(nbytes), offset)
        backend.zero(buffer)
        assert backend.download(buffer, 0, 100) == bytes(100)
        assert backend.download(buffer, 100, 0) == b""


def test_released_memory_cannot_be_used() -> None:
    with HostBackend(files=SMALL) as backend:
        buffer = backend.allocate(8)
        backend.release(buffer)
        backend.release(buffer)
        with pytest.raises(ValueError, match="released"):
            backend.upload(buffer, b"x")
        with pytest.raises(ValueError, match="released"):
            backend.download(buffer, 0, 1)


def test_too_much_memory_is_a_device_error() -> None:
    with HostBackend(files=SMALL) as backend, pytest.raises(DeviceError, match=r"has no [0-9]+ bytes of memory left"):
        backend.allocate((1 << 64) - 1)


@pytest.mark.parametrize(
    ("meminfo", "limit", "usage", "expected"),
    [
        ("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n", "max\n", "1000\n", 5000 * 1024),
        ("MemAvailable: 5000 kB\n", "3000000\n", "1000000\n", 2_000_000),
        ("MemAvailable: 5000 kB\n", "1000\n", "2000\n", 0),
        ("nothing of use\n", "", "", 1 << 62),
    ],
    ids=["no limit", "a limit", "over the limit", "not said"],
)
def test_available_memory_knows_the_containers_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, meminfo: str, limit: str, usage: str, expected: int
) -> None:
    files = [tmp_path / name for name in ("meminfo", "limit", "usage")]
    for path, text in zip(files, (meminfo, limit, usage), strict=True):
        path.write_text(text, encoding="ascii")
    monkeypatch.setattr(hosting, "MEMINFO", files[0])
    monkeypatch.setattr(hosting, "CGROUP_FILES", ((files[1], files[2]), (tmp_path / "no", tmp_path / "no")))
    with HostBackend(files=SMALL) as backend:
        assert backend.traits().memory_bytes == expected


def test_a_scope_zeroes_what_is_secret_and_releases_all() -> None:
    seen: list[bytes] = []

    class Watching(HostBackend):
        def release(self, buffer: object) -> None:
            if buffer.address:  # type: ignore[attr-defined]
                seen.append(self.download(buffer, 0, 4))  # type: ignore[arg-type]
            super().release(buffer)  # type: ignore[arg-type]

    def use(backend: HostBackend) -> None:
        with Scope(backend) as scope:
            scope.uploaded(b"open")
            scope.uploaded(b"dark", secret=True)
            raise KeyError

    with Watching(files=SMALL) as backend, pytest.raises(KeyError):
        use(backend)
    assert seen == [bytes(4), b"open"]


def test_launches_are_checked() -> None:
    with HostBackend(files=SMALL) as backend:
        with pytest.raises(DeviceError, match="built without the kernel bn254_powers"):
            backend.launch("bn254_powers", Launch(1), [0] * 4)
        with pytest.raises(ValueError, match="scan_add takes 5 arguments, not 2"):
            backend.launch("scan_add", Launch(1), [0, 0])


def test_a_compiler_is_needed(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError, match=r"needs a C\+\+ compiler, and none of g\+\+, clang\+\+ and c\+\+ is on"):
        open_backend("host")
    assert not cache.exists()


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        ("no-such-compiler -O2", "CXX names 'no-such-compiler', which is not on this machine"),
        ("g++ 'unclosed", "is no command: No closing quotation"),
    ],
)
def test_cxx_is_honoured_or_refused(cache: Path, monkeypatch: pytest.MonkeyPatch, named: str, sentence: str) -> None:
    monkeypatch.setenv("CXX", named)
    with pytest.raises(DeviceError, match=re.escape(sentence)):
        build(SMALL)
    assert not cache.exists()


def test_the_compilers_first_error_is_told(cache: Path, compiler: Compiler) -> None:
    compiler('case "$*" in *-E*) exit 0;; esac; echo "note: x" >&2; echo "k.cu:3:1: error: broken" >&2; exit 3')
    with pytest.raises(DeviceError, match=r"could not compile the kernels \(exit code 3\): k.cu:3:1: error: broken$"):
        build(SMALL)
    assert [path.suffix for path in cache.iterdir()] == [".lock"], "nothing half made is left"


def test_a_silent_compiler_and_one_that_cannot_run(cache: Path, compiler: Compiler) -> None:
    compiler('case "$*" in *-E*) exit 0;; esac; exit 1')
    with pytest.raises(DeviceError, match=r"\(exit code 1\): it said nothing"):
        build(SMALL)
    compiler("").write_bytes(b"\x7fELF not really")
    with pytest.raises(DeviceError, match="my-compiler cannot be run: Exec format error"):
        build(SMALL)
    assert cache.exists()


def test_a_compiler_that_hangs_is_stopped(cache: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "BUILD_DEADLINE_S", 0.2)
    compiler("exec sleep 60")
    with pytest.raises(DeviceError, match=r"did not end within 0.2 s"):
        build(SMALL)
    assert not list(cache.glob("*.so"))


def test_another_compiler_or_flag_is_another_object(cache: Path, compiler: Compiler) -> None:
    plain = build(SMALL)
    assert plain.parent == cache
    assert build(SMALL) == plain
    assert build(SMALL, ("-DSOMETHING",)) != plain
    compiler('exec g++ "$@"')
    assert build(SMALL) != plain


def test_what_is_built_is_not_built_again(cache: Path, compiler: Compiler, tmp_path: Path) -> None:
    count = tmp_path / "count"
    compiler(f'case "$*" in *-E*) ;; *) echo x >> {count};; esac; exec g++ "$@"')
    build(SMALL)
    once = count.read_text()
    build(SMALL)
    assert count.read_text() == once
    assert len(list(cache.glob("*.so"))) == 1


def test_sources_are_read_again_only_after_a_change(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digest that is noted is found by the files' times, and is the one that their content gives."""
    library = build(SMALL)
    monkeypatch.setattr(caching, "_SETTLED_NS", 0)
    assert build(SMALL) == library
    (note,) = cache.glob("*.digest")
    assert note.read_text().rpartition("\n")[2] == library.stem
    with monkeypatch.context() as unread:
        unread.setattr(building, "digest_of", lambda _parts: pytest.fail("the sources were read"))
        assert build(SMALL) == library
        assert building.find_built((building.HOST_SOURCE, "entry/counters.cu")) == library
    for text in ("", note.read_text().replace(" ", "  ", 1), "\udcff"):
        note.write_bytes(text.encode(errors="surrogateescape"))
        assert build(SMALL) == library
        assert note.read_text().rpartition("\n")[2] == library.stem, "it is noted anew"
    note.unlink()
    monkeypatch.setattr(caching, "_SETTLED_NS", 1 << 62)
    assert build(SMALL) == library
    assert not note.exists(), "sources that changed just now may change again at the same time"


def test_every_change_to_a_source_is_another_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caching, "ROOT", tmp_path)
    (tmp_path / "core").mkdir()
    source = tmp_path / "core" / "a.cuh"
    seen = set()

    def stamp() -> str:
        caching._sources.cache_clear()
        return caching.sources_stamp()

    try:
        source.write_text("one")
        seen.add(stamp())
        (tmp_path / "b.py").write_text("no source")
        assert stamp() in seen
        before = source.stat()
        source.write_text("two")
        os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert source.stat().st_mtime_ns == before.st_mtime_ns
        if source.stat().st_ctime_ns != before.st_ctime_ns:
            seen.add(stamp())
            assert len(seen) == 2
        (tmp_path / "new.cpp").write_text("")
        assert stamp() not in seen
    finally:
        caching._sources.cache_clear()


def test_the_compiler_needs_no_folder_but_the_cache(cache: Path, compiler: Compiler, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    compiler(f'case "$*" in *-E*) ;; *) echo "$TMPDIR" >> {seen};; esac; exec g++ "$@"')
    build(SMALL)
    folders = {Path(line) for line in seen.read_text().splitlines()}
    assert {folder.parent for folder in folders} == {cache}
    assert not any(folder.exists() for folder in folders)


def test_a_user_without_a_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_uid: int) -> None:
        raise KeyError

    for variable in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(DeviceError, match="name one in XDG_CACHE_HOME"):
        build(SMALL)


def test_a_cache_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    with pytest.raises(
        DeviceError, match=r"cannot be kept there: Not a directory; name another folder in .* XDG_CACHE"
    ):
        build(SMALL)


def test_a_damaged_object_is_built_anew(cache: Path) -> None:
    library = build(SMALL)
    library.write_bytes(b"\x7fELF cut short")
    with HostBackend(files=SMALL) as backend:
        assert backend.runs("scan_add") == 0
    assert library.stat().st_size > 1000
    assert cache.exists()


def test_an_object_stays_where_a_process_has_no_memory_left_to_load_it(cache: Path) -> None:
    library = build(SMALL)
    program = f"""
import resource
from prover.backends.build import build, load
path = build({SMALL})
resource.setrlimit(resource.RLIMIT_AS, (0, resource.RLIM_INFINITY))
load(lambda: path)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert f"DeviceError: {library}: the built kernels cannot be loaded: " in done.stderr
    assert library.stat().st_size > 1000
    assert cache.exists()


def test_processes_that_build_at_once_build_once(cache: Path, compiler: Compiler, tmp_path: Path) -> None:
    count = tmp_path / "count"
    compiler(f'case "$*" in *-shared*) echo linked >> {count};; esac; exec g++ "$@"')
    program = "from prover.backends.host import HostBackend; HostBackend(files=('counters',)).runs('scan_add')"
    children = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    assert count.read_text() == "linked\n"
    assert len(list(cache.glob("*.so"))) == 1
    assert not list(cache.glob("build-*"))


def test_entries_of_another_form_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "entry").mkdir()
    monkeypatch.setattr("kernels.entries.ROOT", tmp_path)
    good = 'extern "C" __global__ void one(u64 a,\n const u32* b) {\n}\n'
    (tmp_path / "entry" / "good.cu").write_text(good)
    assert entries(("good",))["one"].parameters == ("u64 a", "const u32* b")
    (tmp_path / "entry" / "twice.cu").write_text(good + good)
    with pytest.raises(ValueError, match="a second entry is called one"):
        entries(("twice",))
    (tmp_path / "entry" / "odd.cu").write_text("template <int n> __global__ void two(u64 a) {\n}\n" + good)
    with pytest.raises(ValueError, match="every entry must be written"):
        entries(("odd",))
