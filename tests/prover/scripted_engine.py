"""An engine that does what a test tells it, step by step, and a worker process with it.

Commands come through a pipe (a FIFO), one byte each, so that a test decides when a proof goes on: ``p`` the next phase,
``d`` done, ``s`` a large set of outputs, ``e`` a prover's error, ``x`` a bug, ``m`` no memory, ``n`` no outputs,
``k`` the process dies.
"""

import os
import signal
import sys
from hashlib import sha256
from pathlib import Path

from prover.errors import Cancelled, DeviceError, ProofRejected
from prover.worker.engine import EngineMaker, Proved, Work
from prover.worker.process import WorkerConfig, run
from wire.jobs import Output


class Scripted:
    """See the module."""

    on_host = ""
    is_open = True

    def __init__(self, device: str, control: Path) -> None:
        self._device = device
        self._control = control

    def open(self) -> None:
        if self._device == "cuda:9":
            raise DeviceError("cuda:9: there is no such card")

    def prove(self, work: Work) -> Proved:
        descriptor = os.open(self._control, os.O_RDWR)  # both ends, so that it never reports the end of the file
        try:
            for number in range(1000):
                work.report(f"phase-{number}", 0, 1)
                command = os.read(descriptor, 1).decode()
                if work.cancelled():
                    raise Cancelled
                if command != "p":
                    return self._end(command)
        finally:
            os.close(descriptor)
        raise AssertionError("a thousand phases")

    def _end(self, command: str) -> Proved:
        match command:
            case "d":
                return Proved(outputs=[output(b'{"proof":1}')], timings_ms={"phase-0": 1.0})
            case "s":
                return Proved(outputs=[output(b"x" * 65_536)] * 8, timings_ms={})
            case "n":
                return Proved(outputs=[], timings_ms={})
            case "e":
                raise ProofRejected("the witness does not satisfy the circuit")
            case "m":
                raise MemoryError
            case "k":
                os.kill(os.getpid(), signal.SIGKILL)
        raise ValueError(f"a bug with a secret path {self._control}")

    def close(self) -> None:
        return


def output(data: bytes) -> Output:
    return Output(role="proof", sha256=sha256(data).hexdigest(), bytes_=len(data), data=data)


def engines(control: Path) -> dict[str, EngineMaker]:
    return {"groth16": lambda device: Scripted(device, control)}


class Control:
    """The test's end of the pipe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        os.mkfifo(path)
        self._descriptor = os.open(path, os.O_RDWR)

    def send(self, commands: str) -> None:
        os.write(self._descriptor, commands.encode())

    def close(self) -> None:
        os.close(self._descriptor)


if __name__ == "__main__":
    directory, device, control = sys.argv[1:4]
    sys.exit(run(WorkerConfig(dir=Path(directory), device=device, engines=engines(Path(control)))))
