"""The process that hands notices over: held to what it is for, and ended in time."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from hub.alerts.messenger import Errand, Message, masked, shown
from hub.alerts.sending import Sender
from hub.alerts.targets import Allowed

HERE = Allowed.parse("127.0.0.1")
MESSAGE = (Message("title", "body", "warning"),)


@pytest.fixture
async def hanging() -> AsyncIterator[int]:
    """A port that takes connections and never answers."""
    held = []

    async def keep(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)

    server = await asyncio.start_server(keep, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()[1]
    server.close()
    for writer in held:
        writer.close()


async def test_a_service_that_hangs_is_given_up_in_time(hanging: int) -> None:
    sender = Sender(deadline_s=2.5)  # sooner than Apprise itself gives up
    outcome = await sender.run(Errand(f"json://127.0.0.1:{hanging}/x", HERE, MESSAGE))
    assert outcome.delivered == (False,)
    assert "within 2.5 s" in outcome.error
    assert sender.under_way == 0


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("syslog://", "starts no program"),
        ("workflows://host:443/workflow/signature?template=/etc/passwd", "reads no file"),
        ("json://127.0.0.1:9/x", "this machine itself"),
        ("json://2130706433:9/x", "this machine itself"),
        ("xml://localhost:9/x", "this machine itself"),
        ("form://169.254.169.254/latest", "link-local"),
        ("mailto://user:secret@example.org?smtp=127.0.0.1&port=9", "this machine itself"),
        ("nonsense", "no such address"),
    ],
)
async def test_what_a_notice_may_not_do_does_not_happen(url: str, why: str) -> None:
    outcome = await Sender().run(Errand(url, Allowed(), MESSAGE))
    assert outcome.delivered == (False,)
    assert why in outcome.error


async def test_more_than_a_process_reads_is_not_begun() -> None:
    outcome = await Sender().run(Errand("json://x", HERE, (Message("t", "b" * 300_000, "info"),)))
    assert outcome.delivered == (False,)
    assert "too much" in outcome.error


def test_of_an_address_only_what_is_no_secret_is_seen() -> None:
    assert shown("slack://TOKENA/TOKENB/TOKENC/#x") == "slack://..."
    assert shown("jsons://user:pass@hooks.example.org:444/very/secret?a=b") == "jsons://hooks.example.org:444/..."
    assert shown("mailtos://user:pass@gmail.com") == "mailtos://..."


def test_words_about_a_failure_lose_every_part_of_the_address() -> None:
    url = "slack://xoxb-1111/A%2Fsecret/TIiajk?token=query-secret"
    words = f"cannot post to {url}: xoxb-1111 refused, A/secret or A%2Fsecret, TIiajk, query-secret"
    said = masked(words, url)
    for secret in ("xoxb-1111", "secret", "TIiajk"):
        assert secret not in said
