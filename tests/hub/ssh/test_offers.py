"""Asking a node over its session to let a key in: only the node that was asked can answer, and only in time."""

import asyncio

from hub.ssh.offers import KeyOffers
from wire.frames import InstallKey, KeyInstalled

KEY = "ssh-ed25519 AAAAC3Nza hub"


async def asked(offers: KeyOffers, sent: list[InstallKey], within_s: float = 20.0) -> asyncio.Task[KeyInstalled | None]:
    def send(frame: InstallKey) -> bool:
        sent.append(frame)
        return True

    task = asyncio.create_task(offers.ask("a", send, user="root", public_key=KEY, within_s=within_s))
    await asyncio.sleep(0)
    return task


async def test_only_the_node_that_was_asked_answers_and_only_once() -> None:
    offers, sent = KeyOffers(), list[InstallKey]()
    task = await asked(offers, sent)
    [frame] = sent
    assert (frame.user, frame.public_key) == ("root", KEY)
    answer = KeyInstalled(frame.request, ok=True, detail="appended")
    assert not offers.answered("b", answer)
    assert not offers.answered("a", KeyInstalled("01890a5d-ac96-774b-bcce-b302099a9999", ok=True))
    assert offers.answered("a", answer)
    assert not offers.answered("a", KeyInstalled(frame.request, ok=False))
    assert await task == answer
    assert not offers.answered("a", answer)


async def test_a_node_that_is_away_or_does_not_answer_gives_nothing() -> None:
    offers, sent = KeyOffers(), list[InstallKey]()
    assert await offers.ask("a", lambda _: False, user="root", public_key=KEY, within_s=20.0) is None
    task = await asked(offers, sent, within_s=0.0)
    assert await task is None
    assert not offers.answered("a", KeyInstalled(sent[0].request, ok=True))
