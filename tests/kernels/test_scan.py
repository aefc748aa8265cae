import struct
from itertools import accumulate
from random import Random

import pytest

from prover.backends.base import Scope
from prover.backends.host import HostBackend
from prover.scan import exclusive_scan


@pytest.mark.parametrize("count", [1, 2, 3, 255, 256, 257, 2047, 2048, 2049, 100_000])
@pytest.mark.parametrize("per_thread", [None, 2, 3])
def test_exclusive_scan(host: HostBackend, count: int, per_thread: int | None) -> None:
    random = Random(count)
    # Up to the largest sum that fits.
    values = [random.randrange((1 << 32) // count) for _ in range(count)]
    with Scope(host) as scope:
        counters = scope.uploaded(struct.pack(f"<{count}I", *values))
        exclusive_scan(host, host.traits(), counters.address, count, per_thread=per_thread)
        found = struct.unpack(f"<{count}I", host.download(counters, 0, 4 * count))
    assert list(found) == list(accumulate(values, initial=0))[:-1]
