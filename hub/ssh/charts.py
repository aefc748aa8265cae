"""What the doctor last found wrong with each way in: kept in memory, for the node's sentence; pure."""

from msgspec import Struct

from hub.ssh.doctor import Chart

NOTHING = "the doctor found nothing wrong with authorized_keys"


class Finding(Struct, frozen=True, kw_only=True):
    """What keeps the hub out, as far as the doctor could see."""

    at_ms: int
    what: str
    """The first thing that does, with where it is; what else does is in the chart itself."""
    repair: str
    """The exact change by hand; empty where nothing was found."""
    installer: bool = False
    """The installer makes it."""
    sure: bool = True
    """Something was found that alone keeps the hub out."""


def finding(chart: Chart, at_ms: int) -> Finding:
    """The chart in two sentences."""
    blocking = [symptom for symptom in chart.symptoms if symptom.blocks]
    if not blocking:
        return Finding(at_ms=at_ms, what=NOTHING, repair="", sure=False)
    first = blocking[0]
    where = f" ({first.where})" if first.where else ""
    return Finding(at_ms=at_ms, what=f"{first.what}{where}", repair=first.repair, installer=first.installer)


class Charts:
    """By node."""

    def __init__(self) -> None:
        self._found: dict[str, Finding] = {}

    def note(self, node_id: str, chart: Chart, at_ms: int) -> None:
        """The doctor has looked."""
        self._found[node_id] = finding(chart, at_ms)

    def found(self, node_id: str) -> Finding | None:
        """What it found last, however long ago."""
        return self._found.get(node_id)

    def forget(self, node_id: str) -> None:
        """The node is revoked, or let the hub in again."""
        self._found.pop(node_id, None)
