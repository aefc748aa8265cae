"""The one writer: a thread that takes many operations into one transaction and answers only after its commit.

An fsync costs milliseconds, so whatever queued up during one commit shares the next. Each operation runs in a
savepoint of its own: one that fails takes nothing else with it, and its caller gets its exception. When the database
itself fails (a full disk), every operation of the batch has failed.

Operations of one kind that stand side by side can share statements and a savepoint as well (`Together`). When that
fails they are tried again, each by itself, so that again only the one that cannot be done fails.
"""

import asyncio
import functools
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

import structlog
from msgspec import Struct
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError, SQLAlchemyError

from hub.faults import FAULTS
from hub.store.base import StoreClosed, StoreError, StoreUnavailable

log = structlog.get_logger(__name__)

QUEUE_MAX = 4096
"""Operations that may wait, ..."""
POSTED_MAX = 3072
"""... and of these such as nobody waits for. Further ones are refused, as further callers wait for room."""
LINGER_S = 0.05
"""How long patient operations wait for company when nothing else does: a commit costs the same for one as for many."""
BATCH_MAX = 256
"""Operations of one transaction: what a crash can undo, and how long a reader of the result waits."""

Result = TypeVar("Result")
Operation = Callable[[Connection], Result]
Together = Callable[[Connection, Sequence[Any]], Sequence[Any]]
"""Does many operations of one kind at once, from what each was given to what each gives; an exception stands for one
that cannot be done and has changed nothing."""


Settled = Callable[[Any], None]
"""Told, on the event loop, what came of an operation: its result once it is committed, or its exception."""


class _Pending(Struct, eq=False):
    together: Together | None
    """None: it is done by itself."""
    given: Any
    """What ``together`` takes, else the operation."""
    settled: Settled
    posted: bool = False
    """Whether nobody waits for it."""
    patient: bool = False
    """Nobody waits for it but an acknowledgement."""
    result: Any = None
    error: BaseException | None = None

    def settle(self, result: Any) -> None:
        """What came of it, done together with others."""
        if isinstance(result, BaseException):
            self.error = result
        else:
            self.result = result


class Writer:
    """Runs operations in the order of their submission. Made and closed on the event loop."""

    def __init__(self, connection: Connection, after_undoing: Callable[[], None] = lambda: None) -> None:
        self._connection = connection
        self._after_undoing = after_undoing
        """Called on the thread when something was undone, so that nobody goes on remembering it."""
        self._loop = asyncio.get_running_loop()
        self._queue: deque[_Pending] = deque()
        # The thread is woken once for a batch, not for each operation: every waking makes the event loop give way.
        self._something = threading.Event()
        self._hurry = threading.Event()
        """Set by whatever is not patient, and by the end."""
        self._room = asyncio.Semaphore(QUEUE_MAX - POSTED_MAX)
        self._posted = 0
        self._closed = False
        self.commits = 0
        """Transactions committed, for the metrics."""
        self.operations = 0
        """Operations committed, for the metrics."""
        self.commit_s_total = 0.0
        """Seconds spent in transactions, committed or not, for the metrics."""
        self._thread = threading.Thread(target=self._run, name="store-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """Operations that wait for their turn, for the metrics."""
        return len(self._queue)

    async def submit(self, operation: Operation[Result]) -> Result:
        """Run in a transaction; returns once it is committed. Cancelling the caller does not undo the write.

        Raises:
            StoreClosed: the store is shutting down.
            StoreUnavailable: the database could not take it.
        """
        result: Result = await self._submit(None, operation, patient=False)
        return result

    async def submit_together(self, together: Together, given: Any, *, patient: bool = False) -> Any:
        """The same for an operation that may share its statements with its neighbours.

        A patient one may wait `LINGER_S` for them.
        """
        return await self._submit(together, given, patient=patient)

    async def _submit(self, together: Together | None, given: Any, *, patient: bool) -> Any:
        async with self._room:
            if self._closed:
                raise StoreClosed("the store is closed; nothing was written")
            waiter = self._loop.create_future()
            self._put(_Pending(together, given, functools.partial(_answer, waiter), patient=patient))
            return await waiter

    def post(self, together: Together, given: Any, settled: Settled) -> bool:
        """The same, patient, for who does not wait, at a fraction of the cost: ``settled`` is told, and must not raise.

        False: the store is closed, or too many wait; nothing was done.
        """
        if self._closed or self._posted >= POSTED_MAX:
            return False
        self._posted += 1
        self._put(_Pending(together, given, settled, posted=True, patient=True))
        return True

    def _put(self, pending: _Pending) -> None:
        self._queue.append(pending)
        if not pending.patient:
            self._hurry.set()
        if not self._something.is_set():
            self._something.set()

    async def close(self) -> None:
        """Commit what is queued, then stop. The connection stays its owner's to close."""
        if not self._closed:
            self._closed = True
            self._hurry.set()
            self._something.set()
        await asyncio.to_thread(self._thread.join)

    # --- the thread

    def _run(self) -> None:
        while not self._closed or self._queue:
            if batch := self._batch():
                try:
                    self._commit(self._connection, batch)
                except Exception:  # the outermost line of this thread: without it everyone would wait for ever
                    FAULTS.count("store")
                    log.exception("the store's writer failed", operations=len(batch))
                    for pending in batch:
                        pending.error = StoreUnavailable("the store's writer failed; the hub's log says more")
                    self._undone()
                self._loop.call_soon_threadsafe(self._resolve, batch)

    def _batch(self) -> list[_Pending]:
        """Whatever waits, once something does, and after a while for company if nobody is in a hurry."""
        self._something.wait()
        if not self._closed:
            self._hurry.wait(LINGER_S)
        # Cleared before the queue is emptied: what comes in between wakes the thread again, for nothing at worst.
        self._something.clear()
        self._hurry.clear()
        batch = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH_MAX))]
        if self._queue or self._closed:
            self._something.set()
            self._hurry.set()
        return batch

    def _commit(self, connection: Connection, batch: list[_Pending]) -> None:
        began_s = time.monotonic()
        try:
            with connection.begin():
                for alike in _alike(batch):
                    self._attempt_together(connection, alike)
        except SQLAlchemyError as error:
            log.error("the store could not commit", error=complaint(error), operations=len(batch))  # noqa: TRY400 - a trace adds nothing
            for pending in batch:
                pending.error = StoreUnavailable(f"the store could not commit: {complaint(error)}")
            self._undone()
        else:
            self.commits += 1
            self.operations += len(batch)
        finally:
            self.commit_s_total += time.monotonic() - began_s

    def _resolve(self, batch: list[_Pending]) -> None:
        """Tell whoever asked, on the event loop."""
        for pending in batch:
            self._posted -= pending.posted
            try:
                pending.settled(pending.result if pending.error is None else pending.error)
            except Exception:  # one that fails must not leave the others untold
                FAULTS.count("store")
                log.exception("what came of a write could not be told")

    def _undone(self) -> None:
        _begin_anew(self._connection)
        self._after_undoing()

    def _attempt_together(self, connection: Connection, alike: Sequence[_Pending]) -> None:
        """Neighbours of one kind in one savepoint; if they fail, each in its own."""
        together = alike[0].together
        if together is None or len(alike) == 1:
            for pending in alike:
                self._attempt(connection, pending)
            return
        try:
            with connection.begin_nested():
                results = together(connection, [pending.given for pending in alike])
        except OperationalError:
            raise
        except Exception as error:  # noqa: BLE001 - whose fault it is shows when each is tried by itself
            log.info("operations are tried one by one", operations=len(alike), error=complaint(error))
            self._after_undoing()
            for pending in alike:
                self._attempt(connection, pending)
            return
        for pending, result in zip(alike, results, strict=True):
            pending.settle(result)

    def _attempt(self, connection: Connection, pending: _Pending) -> None:
        try:
            with connection.begin_nested():
                if pending.together is None:
                    pending.result = pending.given(connection)
                else:
                    (result,) = pending.together(connection, [pending.given])
                    pending.settle(result)
        except OperationalError:
            raise  # a full disk or a broken file: SQLite may have undone the transaction already, so all of it failed
        except StoreError as error:
            pending.error = error
            self._after_undoing()
        except SQLAlchemyError as error:
            pending.error = StoreUnavailable(f"the store could not write: {complaint(error)}")
            self._after_undoing()
        except Exception as error:  # noqa: BLE001 - the outermost line of someone else's operation: it is their error
            pending.error = error
            self._after_undoing()


def _alike(batch: Sequence[_Pending]) -> Iterator[list[_Pending]]:
    """The batch in runs of operations that can be done together."""
    return (list(run) for _, run in groupby(batch, key=lambda pending: id(pending.together) if pending.together else 0))


def _begin_anew(connection: Connection) -> None:
    """After a failure: a database may refuse a COMMIT and keep the transaction, which SQLAlchemy takes for over."""
    try:
        connection.connection.rollback()
    except Exception:  # whatever is wrong with it, another connection is made for the next batch
        FAULTS.count("store")
        log.exception("the store's connection is given up")
        connection.invalidate()


def complaint(error: BaseException) -> str:
    """What the database said first, without the statement and its values: these are other people's data."""
    first: BaseException | None = error
    said = type(error).__name__
    while first is not None:  # undoing may fail as well; what came first is the reason
        if isinstance(first, DBAPIError) and first.orig is not None:
            said = str(first.orig)
        first = first.__context__
    return said


def _answer(waiter: asyncio.Future[Any], outcome: Any) -> None:
    """Tell the caller, unless it was cancelled; the write stands."""
    if waiter.done():
        return
    if isinstance(outcome, BaseException):
        waiter.set_exception(outcome)
    else:
        waiter.set_result(outcome)
