"""Where notices may go."""

import pytest

from hub.alerts.targets import Allowed, refusal

NONE = Allowed()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.9.10",
        "0.0.0.0",  # noqa: S104 - an address, and not bound
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "2002:7f00:1::",
        "64:ff9b::7f00:1",
        "64:ff9b::a9fe:a9fe",
        "2001:0:7f00:1:0:0:80ff:fffe",
        "localhost",
        "",
        "127.1",
    ],
)
def test_what_is_not_public_is_refused(address: str) -> None:
    assert refusal(address, NONE)


@pytest.mark.parametrize("address", ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"])
def test_what_is_public_is_not(address: str) -> None:
    assert refusal(address, NONE) == ""


def test_what_the_setting_names_may_be_reached_and_nothing_beside_it() -> None:
    allowed = Allowed.parse("ntfy.lan, 10.0.0.0/8,127.0.0.1, fd00::/8")
    assert allowed.host("NTFY.lan.")
    assert not allowed.host("other.lan")
    assert [refusal(address, allowed) for address in ("10.9.9.9", "127.0.0.1", "::ffff:10.0.0.1", "fd00::5")] == [
        ""
    ] * 4
    assert all(refusal(address, allowed) for address in ("127.0.0.2", "192.168.0.1", "::1", "fe80::1"))
    assert Allowed.parse("") == NONE


@pytest.mark.parametrize("text", ["10.0.0.0/33", "a b", "http://x", "1.2.3", "*", "x/y"])
def test_what_is_no_host_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="neither"):
        Allowed.parse(text)
