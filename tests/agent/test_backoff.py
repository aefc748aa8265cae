import random
import socket
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake, InvalidMessage, InvalidStatus, InvalidURI, WebSocketException
from websockets.http11 import Response

from agent.backoff import (
    LOUD,
    STABLE_SESSION_S,
    TOLD_WAIT_S_MAX,
    Backoff,
    Fault,
    Kind,
    of_exception,
    of_reason,
)
from wire.limits import RECONNECT_CAP_S, REFUSED_CAP_S
from wire.reasons import Reason

UNREACHABLE = Fault(Kind.UNREACHABLE, "network", "nobody there")
REFUSED = Fault(Kind.REFUSED, "OVERLOADED", "busy", code=Reason.OVERLOADED)
LOUD_FAULT = Fault(Kind.REFUSED, "REVOKED", "go away", code=Reason.REVOKED)


@given(seed=st.integers(), failures=st.integers(0, 10_000))
def test_no_wait_is_longer_than_its_cap(seed: int, failures: int) -> None:
    for fault, cap_s in ((UNREACHABLE, RECONNECT_CAP_S), (REFUSED, REFUSED_CAP_S), (LOUD_FAULT, REFUSED_CAP_S)):
        backoff = Backoff(random.Random(seed))
        backoff.failures = failures
        assert 0.0 <= backoff.after(fault, session_s=None) <= cap_s


@given(seed=st.integers(), told_s=st.floats(0.1, 86_400.0), session_s=st.floats(0.0, 1000.0))
def test_a_told_wait_is_honoured_within_reason(seed: int, told_s: float, session_s: float) -> None:
    fault = Fault(Kind.REFUSED, "OVERLOADED", "busy", code=Reason.OVERLOADED, wait_s=told_s)
    wait_s = Backoff(random.Random(seed)).after(fault, session_s=session_s)
    expected_s = min(told_s, TOLD_WAIT_S_MAX)
    assert expected_s <= wait_s <= 1.1 * expected_s


def test_waits_grow_up_to_the_cap_and_use_the_whole_range() -> None:
    means = []
    for failures in range(8):
        waits = []
        for seed in range(400):
            backoff = Backoff(random.Random(seed))
            backoff.failures = failures
            waits.append(backoff.after(UNREACHABLE, session_s=None))
        means.append(sum(waits) / len(waits))
        assert min(waits) < 0.2 * max(waits)  # full jitter: from nothing on
    assert means == sorted(means[:6]) + means[6:]
    assert means[-1] == pytest.approx(RECONNECT_CAP_S / 2, rel=0.15)


def test_a_stable_session_begins_the_count_anew_and_a_short_one_does_not() -> None:
    backoff = Backoff(random.Random(1))
    for _ in range(5):
        backoff.after(UNREACHABLE, session_s=None)
    backoff.after(UNREACHABLE, session_s=STABLE_SESSION_S - 1)
    assert backoff.failures == 6
    backoff.after(UNREACHABLE, session_s=STABLE_SESSION_S)
    assert backoff.failures == 1


def test_after_a_session_the_fleet_comes_back_over_the_spread() -> None:
    waits = [Backoff(random.Random(seed)).after(UNREACHABLE, session_s=100.0, spread_s=40.0) for seed in range(300)]
    assert max(waits) > 30.0
    assert min(waits) < 5.0


def test_a_wait_told_to_a_whole_fleet_is_spread_too() -> None:
    stopping = Fault(Kind.UNREACHABLE, "HUB_STOPPING", "restart", code=Reason.HUB_STOPPING, wait_s=3.0)
    waits = [Backoff(random.Random(seed)).after(stopping, session_s=100.0, spread_s=40.0) for seed in range(300)]
    assert min(waits) >= 3.0
    assert (min(waits) < 8.0, max(waits) > 33.0) == (True, True)


def test_what_needs_a_person_is_retried_slowly_from_the_first_time_on() -> None:
    waits = [Backoff(random.Random(seed)).after(LOUD_FAULT, session_s=None) for seed in range(100)]
    assert min(waits) >= 10.0


def status(code: int, **headers: str) -> InvalidStatus:
    return InvalidStatus(Response(code, "", Headers({k.replace("_", "-"): v for k, v in headers.items()}), b""))


@pytest.mark.parametrize(
    ("error", "kind", "name", "wait_s"),
    [
        (ConnectionRefusedError("no"), Kind.UNREACHABLE, "network", 0.0),
        (TimeoutError(), Kind.UNREACHABLE, "timeout", 0.0),
        (socket.gaierror(-2, "Name or service not known"), Kind.UNREACHABLE, "network", 0.0),
        (ssl.SSLCertVerificationError("self-signed"), Kind.REFUSED, "tls", 0.0),
        (InvalidURI("x", "bad"), Kind.REFUSED, "address", 0.0),
        (InvalidHandshake("no subprotocol"), Kind.REFUSED, "handshake", 0.0),
        (WebSocketException("odd"), Kind.UNREACHABLE, "websocket", 0.0),
        (ValueError("a bug"), Kind.UNREACHABLE, "internal", 0.0),
        (status(503, Retry_After="17"), Kind.REFUSED, "busy", 17.0),
        (status(503, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT"), Kind.UNREACHABLE, "busy", 0.0),
        (status(429), Kind.UNREACHABLE, "busy", 0.0),
        (status(502), Kind.UNREACHABLE, "http_502", 0.0),
        (status(401), Kind.REFUSED, "http_401", 0.0),
        (status(403), Kind.REFUSED, "http_403", 0.0),
        (status(404), Kind.REFUSED, "http_404", 0.0),
    ],
)
def test_every_failure_of_the_connection_is_named_and_retried(
    error: Exception, kind: Kind, name: str, wait_s: float
) -> None:
    fault = of_exception(error)
    assert (fault.kind, fault.name, fault.wait_s) == (kind, name, wait_s)
    assert fault.detail
    assert fault.loud == (kind is Kind.REFUSED and name != "busy")


def test_a_connection_cut_in_the_handshake_is_a_network_error() -> None:
    error = InvalidMessage("did not receive a valid HTTP response")
    error.__cause__ = EOFError("connection closed")
    assert of_exception(error).kind is Kind.UNREACHABLE


def test_reasons_keep_their_number_and_sentence() -> None:
    fault = of_reason(Reason.WRONG_HUB_KEY, "fingerprint differs", 0.0, refused=False)
    assert (fault.code, fault.name, fault.kind, fault.loud) == (11, "WRONG_HUB_KEY", Kind.REFUSED, True)
    assert Reason.WRONG_HUB_KEY.sentence in fault.detail
    assert "fingerprint differs" in fault.detail
    stopping = of_reason(Reason.HUB_STOPPING, "", 3.0, refused=False)
    assert (stopping.kind, stopping.loud, stopping.wait_s) == (Kind.UNREACHABLE, False, 3.0)


def test_a_reason_of_a_newer_hub_keeps_its_number() -> None:
    fault = of_reason(321, "new thing", 0.0, refused=True)
    assert (fault.code, fault.name, fault.kind, fault.loud) == (321, "REASON_321", Kind.REFUSED, False)


def test_the_loud_reasons_are_those_that_need_a_person() -> None:
    assert Reason.HUB_STOPPING not in LOUD
    assert Reason.OVERLOADED not in LOUD
    assert {Reason.REVOKED, Reason.UNKNOWN_AGENT, Reason.WRONG_HUB_KEY} <= LOUD
