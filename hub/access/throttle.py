"""How guessing is slowed down, by address and by account; pure.

An address that was wrong too often is told to wait. An account that is guessed at from everywhere answers addresses it
does not know only after a delay, and one at a time each; an address from which its owner logged in lately waits for
nobody. So whoever guesses is slow, and nobody is locked out: at worst a login takes some seconds, and a one-time link,
made at the hub's machine, always works.
"""

from collections import OrderedDict
from math import log2

from msgspec import Struct

ADDRESSES_MAX = 4096
ACCOUNTS_MAX = 4096
KNOWN_MAX = 4096
COUNT_MAX = 100.0
"""What was guessed at a million times is forgotten as soon as what was guessed at so often."""
FAILURES_FREE = 10
"""Wrong tries an address has at once; after that one in `REFILL_S`."""
REFILL_S = 20.0
ACCOUNT_FREE = 10
"""Wrong tries at an account, from everywhere, before it slows down."""
ACCOUNT_FORGET_S = 60.0
"""One of them is forgotten in this time."""
DELAY_S_MAX = 8.0
KNOWN_S = 30 * 86_400.0


class Tried(Struct):
    """Wrong tries that still count at a time."""

    count: float
    at_s: float

    def now(self, now_s: float, forget_s: float) -> float:
        """How many count now."""
        return max(0.0, self.count - (now_s - self.at_s) / forget_s)


class Verdict(Struct, frozen=True):
    """What becomes of a try."""

    refuse_s: float = 0.0
    """Refused: come again after so long."""
    delay_s: float = 0.0
    """Looked at only after so long."""


class Throttle:
    """Remembers wrong tries, a bounded number of them; what was longest quiet is forgotten first."""

    def __init__(self) -> None:
        self._addresses: OrderedDict[str, Tried] = OrderedDict()
        self._accounts: OrderedDict[str, Tried] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], float] = OrderedDict()

    def judge(self, address: str, account: str, now_s: float) -> Verdict:
        """Before a password is looked at."""
        tried = self._addresses.get(address)
        excess = 0.0 if tried is None else tried.now(now_s, REFILL_S) - FAILURES_FREE + 1
        if excess > 0:
            return Verdict(refuse_s=excess * REFILL_S)
        known_s = self._known.get((account, address))
        if known_s is not None and now_s - known_s < KNOWN_S:
            return Verdict()
        guessed = self._accounts.get(account)
        over = 0.0 if guessed is None else guessed.now(now_s, ACCOUNT_FORGET_S) - ACCOUNT_FREE
        return Verdict(delay_s=min(DELAY_S_MAX, 1.0 + log2(1.0 + over)) if over > 0 else 0.0)

    def wrong(self, address: str, account: str, now_s: float) -> None:
        """The password was not the one."""
        _count(self._addresses, address, now_s, REFILL_S, ADDRESSES_MAX)
        _count(self._accounts, account, now_s, ACCOUNT_FORGET_S, ACCOUNTS_MAX)

    def right(self, address: str, account: str, now_s: float) -> None:
        """It was: this address is the owner's."""
        self._known[account, address] = now_s
        self._known.move_to_end((account, address))
        while len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)


def _count(table: OrderedDict[str, Tried], key: str, now_s: float, forget_s: float, entries_max: int) -> None:
    tried = table.pop(key, None) or Tried(0.0, now_s)
    table[key] = Tried(min(COUNT_MAX, tried.now(now_s, forget_s) + 1), now_s)
    while len(table) > entries_max:
        table.popitem(last=False)
