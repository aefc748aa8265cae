"""What systemd is told: ready, the age of the last acknowledgement, and that the loop still runs."""

from collections.abc import Callable

import sdnotify

from agent.clock import Clock

STATUS_EVERY_S = 2.0


class Notifier:
    """Messages to the service manager; without one (``supervised`` False), nothing happens."""

    def __init__(self, *, supervised: bool) -> None:
        # The library leaves a socket open where there is no service manager, so it is made only where there is.
        self._systemd = sdnotify.SystemdNotifier() if supervised else None

    def _say(self, message: str) -> None:
        if self._systemd is not None:
            self._systemd.notify(message)

    def ready(self) -> None:
        """The local view is up."""
        self._say("READY=1")

    def status(self, text: str) -> None:
        """One line for ``systemctl status``; sent with the sign of life."""
        self._say(f"STATUS={text.replace(chr(10), ' ')}\nWATCHDOG=1")

    def stopping(self) -> None:
        """The end has begun."""
        self._say("STOPPING=1")

    def close(self) -> None:
        """Give the socket back."""
        if self._systemd is not None and self._systemd.socket is not None:
            self._systemd.socket.close()


async def keep_told(notifier: Notifier, text: Callable[[], str], *, clock: Clock, watchdog_s: float) -> None:
    """Say the status again and again; for ever. It stops when the loop does, and so does the watchdog's patience."""
    every_s = min(STATUS_EVERY_S, watchdog_s) if watchdog_s > 0 else STATUS_EVERY_S
    while True:
        notifier.status(text())
        await clock.sleep(every_s)
