"""Pure: how much of each node is taken in, decided before the store.

An acknowledgement says that everything up to a number is in the store, so nothing can be dropped in silence:

- What must not be lost (``jobs``, ``events``) is only slowed down: it is stored, and the node's next batch waits. Its
  own window of unacknowledged events then holds it back, and what it holds stays in its outbox.
- ``logs`` and ``readings`` beyond the bytes of a day are left out, and the store keeps in their place, in the same
  transaction that moves the head, how many were left out and why. What of them is kept is slowed down beyond its rate.

The bytes of a day are a bucket that fills at a steady rate: a node that was away for a day brings the whole day.
"""

from typing import NamedTuple

from msgspec import Struct

from hub.clock import Clock
from hub.rates import TokenBucket
from wire.events import Stream

DAY_S = 86_400.0
WAIT_MAX_S = 10.0
"""A batch waits no longer, so that the node's heartbeats come through between two of them. What it owes stays owed."""
WAIT_TOLD_S = 1.0
"""A shorter wait is not worth telling."""
TELL_EVERY_S = 3600.0
EPOCHS_PER_DAY = 1000.0
"""New epochs a node may open: each leaves rows behind for good. An agent that crashes every two minutes stays below."""
EPOCHS_BURST = 200
EPOCHS_REMEMBERED_MAX = 64


class QuotaLimits(Struct, frozen=True, kw_only=True):
    """What one node may send."""

    events_per_s: float
    """Of each stream."""
    events_burst: int
    event_bytes_per_day: int
    """Of ``jobs`` and ``events`` together."""
    log_bytes_per_day: int
    reading_bytes_per_day: int


class Verdict(NamedTuple):
    """What is done with a batch."""

    wait_s: float = 0.0
    """Wait so long before it is stored."""
    left_out: str = ""
    """Why its content is not stored; empty if it is."""
    news: str = ""
    """That the node is slowed down, for its operator; once in a while."""


class _Account:
    """What one node has used."""

    __slots__ = ("bytes", "epochs", "epochs_rate", "rates", "told_again_s")

    def __init__(self, epochs_rate: TokenBucket) -> None:
        self.rates: dict[Stream, TokenBucket] = {}
        self.bytes: dict[str, TokenBucket] = {}
        self.epochs: dict[str, None] = {}
        self.epochs_rate = epochs_rate
        self.told_again_s = 0.0


class Quotas:
    """The accounts of all nodes, in memory: a restarted hub begins with full buckets."""

    def __init__(self, clock: Clock, limits: QuotaLimits) -> None:
        self._clock = clock
        self._accounts: dict[str, _Account] = {}
        self._rate = limits.events_per_s, limits.events_burst
        self._bytes_per_day = {
            "jobs and events": limits.event_bytes_per_day,
            "logs": limits.log_bytes_per_day,
            "readings": limits.reading_bytes_per_day,
        }
        self.waited_s_total = 0.0
        """For the metrics: seconds batches were told to wait, ..."""
        self.left_out_total: dict[Stream, int] = {Stream.LOGS: 0, Stream.READINGS: 0}
        """... and events left out, by stream."""

    def admits(self, agent_id: str, epoch: str, stream: Stream, count: int, size_bytes: int) -> bool:
        """Whether a batch may be stored at once and whole, as nearly all are; then it is paid for.

        Else nothing was paid, and ``judge`` says what to do.
        """
        account = self._accounts.get(agent_id)
        if account is None or epoch not in account.epochs:
            return False
        rate = account.rates.get(stream)
        day = account.bytes.get(stream.value if stream in self.left_out_total else "jobs and events")
        now_s = self._clock.monotonic()
        if rate is None or day is None or rate.pay(0.0, now_s) > 0.0 or day.pay(0.0, now_s) > 0.0:
            return False
        rate.pay(count, now_s)
        day.pay(size_bytes, now_s)
        return True

    def give_back(self, agent_id: str, stream: Stream, count: int, size_bytes: int) -> None:
        """What ``admits`` took for a batch that could not be stored at once after all."""
        account = self._account(agent_id)
        self._stream_rate(account, stream).pay(-count)
        self._day(account, stream.value if stream in self.left_out_total else "jobs and events").pay(-size_bytes)

    def judge(self, agent_id: str, epoch: str, stream: Stream, count: int, size_bytes: int) -> Verdict:
        """What to do with a batch of ``count`` events."""
        account = self._account(agent_id)
        wait_s = _pay(self._stream_rate(account, stream), count)
        left_out = ""
        if stream in self.left_out_total:
            bucket = self._day(account, stream.value)
            if bucket.pay(0.0) > 0.0:
                limit_bytes = self._bytes_per_day[stream.value]
                wait_s = 0.0  # what is left out costs next to nothing, and the node's jobs come by the same way
                left_out = f"the node sent more {stream.value} than {limit_bytes} bytes a day"
                self.left_out_total[stream] += count
            else:
                bucket.pay(size_bytes)
        else:
            wait_s = max(wait_s, _pay(self._day(account, "jobs and events"), size_bytes))
        wait_s = min(max(wait_s, self._epoch_wait_s(account, epoch)), WAIT_MAX_S)
        self.waited_s_total += wait_s
        return Verdict(wait_s, left_out, self._news(account, stream, wait_s))

    def _news(self, account: _Account, stream: Stream, wait_s: float) -> str:
        now_s = self._clock.monotonic()
        if wait_s < WAIT_TOLD_S or now_s < account.told_again_s:
            return ""
        account.told_again_s = now_s + TELL_EVERY_S
        return f"the node sends {stream} faster than its quota, or in too many epochs: the hub takes them more slowly"

    def forget(self, agent_id: str) -> None:
        """The node is gone."""
        self._accounts.pop(agent_id, None)

    def _account(self, agent_id: str) -> _Account:
        account = self._accounts.get(agent_id)
        if account is None:
            bucket = TokenBucket(self._clock, EPOCHS_PER_DAY / DAY_S, EPOCHS_BURST)
            account = self._accounts[agent_id] = _Account(bucket)
        return account

    def _stream_rate(self, account: _Account, stream: Stream) -> TokenBucket:
        bucket = account.rates.get(stream)
        if bucket is None:
            bucket = account.rates[stream] = TokenBucket(self._clock, *self._rate)
        return bucket

    def _day(self, account: _Account, what: str) -> TokenBucket:
        bucket = account.bytes.get(what)
        if bucket is None:
            limit_bytes = self._bytes_per_day[what]
            bucket = account.bytes[what] = TokenBucket(self._clock, limit_bytes / DAY_S, limit_bytes)
        return bucket

    @staticmethod
    def _epoch_wait_s(account: _Account, epoch: str) -> float:
        if epoch in account.epochs:
            return 0.0
        while len(account.epochs) >= EPOCHS_REMEMBERED_MAX:
            del account.epochs[next(iter(account.epochs))]
        account.epochs[epoch] = None
        return _pay(account.epochs_rate, 1.0)


def _pay(bucket: TokenBucket, tokens: float) -> float:
    """Take tokens; how long those who took before are still in debt. So a batch waits for what came before it."""
    wait_s = bucket.pay(0.0)
    bucket.pay(tokens)
    return wait_s
