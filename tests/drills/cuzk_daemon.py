"""A cuzk-daemon that does nothing but say that it proves: a process of its own, to be killed and started again."""

import signal
import sys
import time

from tests.agent.sensors.cuzk.fake_daemon import FakeDaemon
from tests.agent.sensors.cuzk.fake_engine import FakeEngine

JOB = "ps-porep-1000-7-4411"


def main() -> None:
    """Serve on a port until killed."""
    engine = FakeEngine(time.monotonic)
    engine.submit(JOB)
    engine.run_partition(JOB, 0)
    daemon = FakeDaemon(engine.status)
    daemon.port = int(sys.argv[1])
    daemon.start()
    signal.pause()


if __name__ == "__main__":
    main()
