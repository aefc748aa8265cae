"""A cuzk-daemon beside the agent: its own status is read, mended and pushed as if it were ours.

`sensor` asks over HTTP (`http_status`) and, where that is off, over gRPC (`grpc_status`); `answer` is the shape of what
comes back; `mend` and `fates` are pure and know what the daemon is known to say wrong; `watch` keeps the board fresh.
"""

from agent.sensors.cuzk.sensor import CuzkSensor, EngineReport
from agent.sensors.cuzk.watch import read_engines

__all__ = ["CuzkSensor", "EngineReport", "read_engines"]
