"""The hub as a process: start, lock, signals, TLS, and what it refuses."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.request import urlopen

import pytest

from bench.certificate import certificate
from hub.app import FACTS_FILE, Background, HubError, serve
from hub.config import Config, ConfigError

ROOT = Path(__file__).parents[2]


@contextmanager
def process(
    data_dir: Path, *options: str, environ: Mapping[str, str] | None = None
) -> Iterator[tuple["subprocess.Popen[str]", dict[str, Any]]]:
    """A hub on a free port that listens, and what its hub.json says."""
    argv = [sys.executable, "-m", "cli.main", "hub", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir), *options]
    surroundings = os.environ | {"PROVEWIRE_LOG": "json"} | dict(environ or {})
    with subprocess.Popen(
        argv, cwd=ROOT, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        try:
            assert child.stderr is not None
            until_it_says(child.stderr, "the hub listens")
            yield child, json.loads((data_dir / FACTS_FILE).read_text())
        finally:
            child.kill()


def until_it_says(stream: IO[str], event: str) -> None:
    for line in stream:
        if json.loads(line)["event"] == event:
            return
    raise AssertionError(f"it never said {event!r}")


def refusal(*options: str, **environ: str) -> tuple[int, str]:
    """How a hub that must not start ends."""
    argv = [sys.executable, "-m", "cli.main", "hub", *options]
    ended = subprocess.run(
        argv, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, timeout=30, check=False
    )
    assert "Traceback" not in ended.stderr
    return ended.returncode, ended.stderr


def test_a_hub_listens_on_a_free_port_keeps_its_identity_and_ends_at_sigterm(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with process(tmp_path) as (child, facts):
            assert facts["pid"] == child.pid
            with urlopen(f"{facts['url']}/healthz", timeout=10) as answer:  # noqa: S310 - our own address
                assert answer.status == 200
            child.send_signal(signal.SIGTERM)
            assert child.wait(timeout=5) == 0
        assert not (tmp_path / FACTS_FILE).exists()
        seen.append((facts["hub_id"], facts["fingerprint"]))
    assert seen[0] == seen[1]
    assert (tmp_path / "admin-token").stat().st_mode & 0o777 == 0o600


def test_systemd_hears_when_the_hub_is_ready_that_its_loop_runs_and_that_it_stops(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(10)
        with process(tmp_path / "data", environ={"NOTIFY_SOCKET": str(tmp_path / "notify")}) as (child, _):
            assert listener.recv(4096) == b"READY=1"
            assert listener.recv(4096) == b"WATCHDOG=1\nSTATUS=0 of 0 nodes online, 0 jobs open"
            child.send_signal(signal.SIGTERM)
            assert listener.recv(4096) == b"STOPPING=1"
            assert child.wait(timeout=5) == 0


def test_a_second_hub_on_the_same_data_is_refused_and_the_first_lives_on(tmp_path: Path) -> None:
    with process(tmp_path) as (child, facts):
        code, said = refusal("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
        assert code == 64
        assert f"another hub runs on {tmp_path}" in said
        assert child.poll() is None
        assert json.loads((tmp_path / FACTS_FILE).read_text()) == facts
        port = facts["url"].rsplit(":", 1)[1]
        code, said = refusal("--listen", f"127.0.0.1:{port}", "--data-dir", str(tmp_path / "other"))
        assert code == 64
        assert "cannot listen on 127.0.0.1" in said


def test_a_killed_hub_leaves_nothing_that_stops_the_next(tmp_path: Path) -> None:
    with process(tmp_path) as (child, _):
        child.kill()
    with process(tmp_path) as (child, facts):
        assert facts["pid"] == child.pid


def test_off_loopback_without_tls_is_refused(tmp_path: Path) -> None:
    code, said = refusal("--listen", "0.0.0.0:0", "--data-dir", str(tmp_path))
    assert code == 64
    assert "--insecure" in said


@pytest.mark.parametrize("file", ["hub.key", "admin-token"])
def test_a_damaged_secret_is_refused_in_one_sentence(tmp_path: Path, file: str) -> None:
    (tmp_path / file).write_bytes(b"")
    (tmp_path / file).chmod(0o600)
    code, said = refusal("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    assert code == 64
    assert file in said


def test_a_damaged_store_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "hub.sqlite").write_bytes(b"not a database at all" * 100)
    code, said = refusal("--listen", "127.0.0.1:0", "--data-dir", str(tmp_path))
    assert code == 6
    assert "hub.sqlite: cannot be opened" in said


def test_a_data_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, said = refusal("--data-dir", str(tmp_path / "file" / "sub"))
    assert code == 64
    assert "data_dir" in said


def test_the_hub_ends_tls_itself(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with process(tmp_path / "data", "--tls-cert", str(cert), "--tls-key", str(key)) as (_, facts):
        assert facts["url"].startswith("https://127.0.0.1:")
        url = facts["url"].replace("127.0.0.1", "localhost")
        trusted = ssl.create_default_context(cafile=str(cert))
        with urlopen(f"{url}/healthz", timeout=10, context=trusted) as answer:  # noqa: S310 - our own address
            assert answer.status == 200


def test_a_certificate_that_is_none_is_refused(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    cert.write_text("no certificate")
    options = ("--tls-cert", str(cert), "--tls-key", str(key), "--listen", "127.0.0.1:0")
    code, said = refusal("--data-dir", str(tmp_path / "data"), *options)
    assert code == 64
    assert "c.pem" in said


async def test_a_part_that_fails_stops_the_hub_with_its_error(tmp_path: Path) -> None:
    stop = asyncio.Event()
    background = Background(stop)

    async def fail() -> None:
        raise ZeroDivisionError("a bug")

    background.start("part", fail())
    await asyncio.wait_for(stop.wait(), 10)
    assert isinstance(background.failure, ZeroDivisionError)
    await background.cancel()
    assert await serve(Config(data_dir=tmp_path, listen_port=0), stop=stop) == 0


async def test_a_port_that_is_taken_leaves_nothing_running(tmp_path: Path) -> None:
    server = await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(ConfigError, match=f"127.0.0.1:{port}"):
            await serve(Config(data_dir=tmp_path, listen_port=port), stop=asyncio.Event())
    assert not (tmp_path / FACTS_FILE).exists()


def test_the_errors_carry_their_exit_codes() -> None:
    assert (ConfigError("x").exit_code, HubError("x").exit_code) == (64, 6)
