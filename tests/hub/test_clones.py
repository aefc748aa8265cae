"""Two processes with one key and one boot id are found by how they replace each other; one that restarts is not."""

import itertools

from hub.clones import TAKEOVERS_MAX, WINDOW_S, Clones, Flapping, Identity

A, B, C = Identity("epoch-a", "10.0.0.1"), Identity("epoch-b", "10.0.0.2"), Identity("epoch-c", "10.0.0.1")
NODE = "node"


def flap(
    clones: Clones, times: int, *, every_s: float, one: Identity = A, other: Identity = B
) -> list[Flapping | None]:
    """``one`` is there since second 0; then they replace each other."""
    verdicts = []
    for turn in range(times):
        old, new = (one, other) if turn % 2 == 0 else (other, one)
        now_s = 1000.0 + turn * every_s
        verdicts.append(clones.takes_over(NODE, old=old, old_since_s=now_s - every_s, new=new, now_s=now_s))
    return verdicts


def test_two_that_change_places_are_found_and_the_first_stays() -> None:
    clones = Clones()
    verdicts = flap(clones, TAKEOVERS_MAX + 1, every_s=10.0)
    assert verdicts[:-1] == [None] * TAKEOVERS_MAX
    assert verdicts[-1] == Flapping(stays=A, goes=B)
    assert clones.banned(NODE, B)
    assert not clones.banned(NODE, A)


def test_the_one_that_goes_is_known_by_its_address_too_when_it_starts_anew() -> None:
    clones = Clones()
    flap(clones, TAKEOVERS_MAX + 1, every_s=10.0)
    assert clones.banned(NODE, Identity("another-epoch", B.remote))
    assert not clones.banned(NODE, C), "the one that stays may start anew"
    clones.forget(NODE)
    assert not clones.banned(NODE, B)


def test_behind_one_proxy_only_the_epoch_tells_them_apart() -> None:
    clones = Clones()
    twin = Identity("epoch-b", A.remote)
    flap(clones, TAKEOVERS_MAX + 1, every_s=10.0, other=twin)
    assert clones.banned(NODE, twin)
    assert not clones.banned(NODE, Identity("the first, started anew", A.remote))


def test_one_running_copy_is_told_apart_by_its_address() -> None:
    clones = Clones()
    copy = Identity(A.epoch, "10.0.0.9")
    assert flap(clones, TAKEOVERS_MAX + 1, every_s=10.0, other=copy)[-1] == Flapping(stays=A, goes=copy)
    assert clones.banned(NODE, copy)
    assert not clones.banned(NODE, A)


def test_an_agent_that_restarts_or_reconnects_again_and_again_is_no_clone() -> None:
    clones = Clones()
    epochs = [Identity(f"epoch-{number}", "10.0.0.1") for number in range(100)]
    for number, (old, new) in enumerate(itertools.pairwise(epochs)):
        now_s = float(number)
        assert clones.takes_over(NODE, old=old, old_since_s=now_s - 1.0, new=new, now_s=now_s) is None
        assert clones.takes_over(NODE, old=new, old_since_s=now_s, new=new, now_s=now_s + 0.5) is None


def test_rare_changes_of_place_are_no_flapping_and_are_forgotten() -> None:
    clones = Clones()
    assert flap(clones, 50, every_s=WINDOW_S / TAKEOVERS_MAX + 1.0) == [None] * 50
    clones.forget_old(1e9)
    assert not clones._records
