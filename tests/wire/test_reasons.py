"""Numbered reasons: a promise to every log and every other version."""

from wire.errors import FrameTooLarge, MalformedFrame, RemoteProtocolError, UnexpectedFrame
from wire.reasons import SENTENCES, WEBSOCKET_CLOSE_BASE, Reason

NUMBERS = {
    "GOODBYE": 0,
    "HUB_STOPPING": 1,
    "HANDSHAKE_TIMEOUT": 2,
    "FRAME_TOO_LARGE": 3,
    "MALFORMED_FRAME": 4,
    "UNEXPECTED_FRAME": 5,
    "BAD_SIGNATURE": 6,
    "UNKNOWN_AGENT": 7,
    "REVOKED": 8,
    "UNSUPPORTED_VERSION": 9,
    "DUPLICATE_IDENTITY": 10,
    "WRONG_HUB_KEY": 11,
    "GENERATION_WENT_BACK": 12,
    "OUT_OF_ORDER": 13,
    "REPLAYED": 14,
    "OVERLOADED": 15,
    "SILENT_PEER": 16,
    "SLOW_PEER": 17,
    "REPLACED": 18,
    "QUOTA": 19,
    "INTERNAL": 20,
    "FOREIGN_REFERENCE": 21,
    "CONNECTION_LOST": 22,
}


def test_numbers_never_change_and_are_never_reused() -> None:
    assert {reason.name: reason.value for reason in Reason} == NUMBERS


def test_every_reason_has_a_close_code_and_a_sentence() -> None:
    assert set(SENTENCES) == set(Reason)
    for reason in Reason:
        assert WEBSOCKET_CLOSE_BASE <= reason.close_code <= 4999
        assert reason.sentence == SENTENCES[reason]
        assert len(reason.sentence.encode()) <= 123, "a close frame holds no more"


def test_errors_of_the_peer_carry_their_reason_and_say_it() -> None:
    problems: list[tuple[RemoteProtocolError, Reason]] = [
        (FrameTooLarge(5, 4), Reason.FRAME_TOO_LARGE),
        (MalformedFrame("x"), Reason.MALFORMED_FRAME),
        (UnexpectedFrame("Hello", "open"), Reason.UNEXPECTED_FRAME),
    ]
    for problem, reason in problems:
        assert problem.reason == reason
        assert reason.name in str(problem)
        assert problem.detail in str(problem)
