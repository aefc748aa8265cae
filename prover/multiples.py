"""Multiples of a key's points, computed ahead on the device where there is memory to spare.

With the multiples 2^(c g j) of every point, j below m, the windows of a scalar fall into g groups that each have one
set of buckets: fewer buckets to bring to one point, so that windows can be wider, and a shorter way from one group's
sum to the next. They are worth their time for a key that comes again, and give way to whatever else needs the memory.
"""

from typing import Final

from kernels.curves import Curve
from prover.backends.base import Backend, Reserve, Scope
from prover.device_plan import ProofPlan
from prover.keys import LoadedKey
from prover.msm import GroupName, point_bytes, sum_bytes
from prover.plan import THREADS, MsmPlan, flat

PER_THREAD_MAX: Final = 16
"""Points that share an inversion, where there are enough to keep all of a device busy; it takes as long as some forty
doublings."""


class Multiples:
    """Multiples of a key's points, in memory of their own.

    Attributes:
        layout: the windows that they are for.
        tables: where those of each point set are, by its role: first the points themselves, then their next multiples.
    """

    def __init__(self, backend: Backend, key: LoadedKey, plan: ProofPlan, workspace: Reserve) -> None:
        """Compute them.

        Args:
            backend: the device.
            key: the key, whose points are on the device.
            plan: says which.
            workspace: memory of a proof, which nobody uses meanwhile.

        Raises:
            DeviceError: the device failed, or has not enough memory.
        """
        self.layout = plan.layout
        self.tables: dict[str, int] = {}
        self._memory = backend.reserve(plan.multiples_bytes, "multiples of a proving key's points")
        self._scope = Scope(backend)
        try:
            for name, msm in plan.sums.items():
                for points in key.sums[name] if msm.multiples > 1 else ():
                    size = points.count * point_bytes(key.curve, points.group)
                    with backend.within(self._memory):
                        table = self._scope.allocate(size * msm.multiples).address
                    with backend.within(workspace):
                        multiply(backend, key.curve, points.group, msm, points.address, table, workspace.nbytes)
                    self.tables[points.role] = table
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Give the memory back."""
        self._scope.close()
        self._memory.close()


def multiply(
    backend: Backend, curve: Curve, group: GroupName, plan: MsmPlan, points: int, table: int, scratch_bytes: int
) -> None:
    """Fill a table with the multiples that a plan takes of each of its points.

    Args:
        backend: the device.
        curve: the curve.
        group: the points' group.
        plan: the plan.
        points: address of the points.
        table: address of the table.
        scratch_bytes: how much memory may be allocated for a moment; a few kilobytes at least.
    """
    size = point_bytes(curve, group)
    tile = max(1, min(plan.count, scratch_bytes // sum_bytes(curve, group)))
    per_thread = max(1, min(PER_THREAD_MAX, tile // (THREADS * plan.traits.parallel)))
    with Scope(backend) as scope:
        sums = scope.allocate(tile * sum_bytes(curve, group))
        for number in range(plan.multiples):
            out = table + number * plan.count * size
            source = points if number == 0 else out - plan.count * size
            for first in range(0, plan.count, tile):
                count, at = min(tile, plan.count - first), first * size
                arguments = [source + at, count, plan.doublings if number else 0, per_thread, sums.address, out + at]
                backend.launch(f"{curve.ident}_{group}_doublings", flat(count, per_thread), arguments)
