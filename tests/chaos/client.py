"""A program that hands jobs in and does not know what becomes of the hub: each one again until it is answered."""

import contextlib
import http.client
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any, Self

from tests.e2e.rig import CIRCUITS, ENDED, Hub

OPEN_JOBS = 4
BAD_EVERY = 10
LOOK_S = 0.1
AGAIN_S = 0.05
GIVE_UP_S = 120.0
GOOD = ("merkle8.wtns", "merkle8_other.wtns")


def bad_witness() -> bytes:
    """One that satisfies no constraint system: the prover must refuse it."""
    data = bytearray((CIRCUITS / GOOD[0]).read_bytes())
    data[-32] ^= 1  # the last wire is an internal one
    return bytes(data)


@dataclass
class Client:
    """Keeps `open_jobs` jobs open, in a thread of its own, while it is not paused."""

    hub: Hub
    seed: int
    open_jobs: int = OPEN_JOBS
    witnesses: dict[str, str] = field(default_factory=dict)
    """Kind to the digest of the uploaded witness."""
    kinds: dict[str, str] = field(default_factory=dict)
    """Job to the kind of its witness."""
    ended: dict[str, dict[str, Any]] = field(default_factory=dict)
    failure: BaseException | None = None
    paused: threading.Event = field(default_factory=threading.Event)
    _over: threading.Event = field(default_factory=threading.Event)
    _idle: threading.Event = field(default_factory=threading.Event)
    _number: int = 0

    def __enter__(self) -> Self:
        self.hub.register()
        self.witnesses = {name: self.hub.upload((CIRCUITS / name).read_bytes()) for name in GOOD}
        self.witnesses["bad"] = self.hub.upload(bad_witness())
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def pause(self) -> None:
        """No more jobs for now; those handed in stand, and each has its answer."""
        self._idle.clear()
        self.paused.set()
        assert self._idle.wait(GIVE_UP_S), "the client's last request is not answered"
        self.check()

    def check(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                self.look()
                if self.paused.is_set():
                    self._idle.set()
                elif len(self.kinds) - len(self.ended) < self.open_jobs:
                    self._number += 1
                    self._submit(self._number)
                self._over.wait(LOOK_S)
        except BaseException as error:  # noqa: BLE001 - raised by the test's own thread
            self.failure = error
            self._idle.set()

    def _submit(self, number: int) -> None:
        kind = "bad" if number % BAD_EVERY == 0 else GOOD[number % 2]
        body = json.dumps({"circuit": "merkle8", "witness": self.witnesses[kind]}).encode()
        headers = {**self.hub.admin, "Content-Type": "application/json", "Idempotency-Key": f"{self.seed}-{number}"}
        answer = None
        end_s = time.monotonic() + GIVE_UP_S
        while answer is None or answer.status >= http.client.INTERNAL_SERVER_ERROR:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.hub.request("POST", "/api/v1/jobs", body, headers)
            if self._over.wait(AGAIN_S):
                return
            assert time.monotonic() < end_s or answer is None, f"the hub answers {answer} for {GIVE_UP_S:g} s"
        assert answer.status in {200, 201, 202}, answer
        self.kinds[answer.json()["id"]] = kind

    def look(self) -> bool:
        """See which have ended; whether all have."""
        for job in [job for job in self.kinds if job not in self.ended]:
            with contextlib.suppress(OSError, http.client.HTTPException):
                answer = self.hub.request("GET", f"/api/v1/jobs/{job}", headers=self.hub.admin)
                if answer.status >= http.client.INTERNAL_SERVER_ERROR:
                    continue
                assert answer.status == http.client.OK, (job, answer)
                if (seen := answer.json())["state"] in ENDED:
                    self.ended[job] = seen
        return len(self.ended) == len(self.kinds)
