"""``provewire enroll`` against a real hub: the token alone on stdout, and one sentence for whatever is wrong."""

import asyncio
import base64
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cli.errors import EXIT_INTERNAL, EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from cli.main import main
from tests.hub.rig import RunningHub, running_hub


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RunningHub]:
    data_dir = tmp_path / "hub"
    data_dir.mkdir()
    async with running_hub(data_dir) as running:
        announce(data_dir, f"http://127.0.0.1:{running.port}")
        yield running


def announce(data_dir: Path, url: str) -> None:
    (data_dir / "hub.json").write_text(json.dumps({"url": url, "local_url": url, "certificate_sha256": ""}))


async def enroll(data_dir: Path, *options: str) -> int:
    return await asyncio.to_thread(main, ["enroll", "--data-dir", str(data_dir), *options])


async def test_the_token_stands_alone_on_stdout_and_carries_hub_and_key(
    hub: RunningHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert await enroll(tmp_path / "hub", "--uses", "3", "--ttl", "60") == EXIT_OK
    out, err = capsys.readouterr()
    token = out.removesuffix("\n")
    assert token.startswith("pw1.")
    assert not set(token) & set(" \n")
    body = token.removeprefix("pw1.")
    carried = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    assert carried["u"] == f"http://127.0.0.1:{hub.port}"
    assert "3 nodes" in err
    assert token not in err
    tokens = await hub.store.enroll_tokens()
    assert tokens[-1].uses_max == 3


async def test_a_hub_that_does_not_run_is_exit_69(
    hub: RunningHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hub.port
    (tmp_path / "hub" / "hub.json").unlink()
    assert await enroll(tmp_path / "hub") == EXIT_UNREACHABLE
    assert "start `provewire hub` first" in capsys.readouterr().err


async def test_a_hub_that_does_not_answer_is_exit_69(
    hub: RunningHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hub.port
    with socket.create_server(("127.0.0.1", 0)) as closed_soon:
        port = closed_soon.getsockname()[1]
    announce(tmp_path / "hub", f"http://127.0.0.1:{port}")
    assert await enroll(tmp_path / "hub") == EXIT_UNREACHABLE
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert f"127.0.0.1:{port} cannot be reached" in captured.err


async def test_a_folder_that_is_no_hubs_is_exit_64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await enroll(tmp_path) == EXIT_USAGE
    assert "no hub's data directory" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
async def test_a_damaged_hub_json_is_exit_64(
    hub: RunningHub, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    assert hub.port
    (tmp_path / "hub" / "hub.json").write_text(content)
    assert await enroll(tmp_path / "hub") == EXIT_USAGE
    assert "hub.json" in capsys.readouterr().err


@pytest.mark.parametrize("options", [["--uses", "0"], ["--ttl", "0"], ["--uses", "1000000"]])
async def test_what_the_hub_refuses_is_said_in_its_words(
    hub: RunningHub, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    assert hub.port
    assert await enroll(tmp_path / "hub", *options) == EXIT_USAGE
    assert "the hub refused: the body does not fit" in capsys.readouterr().err


async def test_something_else_on_the_port_is_said(
    hub: RunningHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def other(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    assert hub.port
    async with await asyncio.start_server(other, "127.0.0.1", 0) as server:
        announce(tmp_path / "hub", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        assert await enroll(tmp_path / "hub") == EXIT_INTERNAL
    assert "no hub of ours" in capsys.readouterr().err
