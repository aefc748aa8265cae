"""The kernels on the host: with the host's own limbs, and with the device's limbs and an emulated carry."""

from collections.abc import Iterator

import pytest

from kernels.entries import LAW_FILES
from prover.backends.host import HostBackend
from tests.kernels.operands import GPU

DEVICE_LIMBS = ("-O1", "-DPROVEWIRE_EMULATE_CARRY")
LIMBS = {"host limbs": (), "device limbs": DEVICE_LIMBS}


@pytest.fixture(scope="session", params=LIMBS)
def laws(request: pytest.FixtureRequest) -> Iterator[HostBackend]:
    """The kernels of the laws."""
    with HostBackend(files=LAW_FILES, flags=LIMBS[request.param]) as backend:
        yield backend


@pytest.fixture(scope="session")
def device_limbs() -> Iterator[HostBackend]:
    """The kernels of the laws with the device's limbs."""
    with HostBackend(files=LAW_FILES, flags=DEVICE_LIMBS) as backend:
        yield backend


@pytest.fixture(scope="session", params=["planned for the host", "planned for a GPU"])
def host(request: pytest.FixtureRequest) -> Iterator[HostBackend]:
    """The prover's kernels, launched as for the host and as for a GPU."""
    with HostBackend(planned_as=GPU if request.param == "planned for a GPU" else None) as backend:
        yield backend
