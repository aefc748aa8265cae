"""Keys that stay on a device between proofs: the least recently used one goes when memory is wanted.

A key that is used for the second time gets multiples of its points, where there is memory to spare. They go before any
key does, and do not come again: to compute them takes as long as a dozen proofs.
"""

from collections import OrderedDict
from collections.abc import MutableMapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary, ref

from prover.backends.base import Backend, Reserve, Traits
from prover.device_plan import KeyShape, ProofPlan, plan_multiples, plan_proof
from prover.errors import DeviceError
from prover.formats.strategy import ProvingKey
from prover.hostcopy import HostCopy, name_of
from prover.keys import LoadedKey, Survey
from prover.multiples import Multiples


@dataclass(slots=True)
class _Resident:
    """A key on a device, with its memory, and multiples of its points once they have been computed."""

    zkey: "ref[ProvingKey]"
    shape: KeyShape
    resident: bool
    key: LoadedKey
    stack: ExitStack
    multiples: Multiples | None = None
    has_been_asked: bool = False

    def close(self) -> None:
        """Give the memory back, and the host's."""
        self.drop_multiples()
        self.stack.close()

    def drop_multiples(self) -> bool:
        """Give the multiples' memory back; false where there are none."""
        multiples, self.multiples = self.multiples, None
        if multiples is not None:
            multiples.close()
        return multiples is not None


@dataclass(frozen=True, slots=True)
class Taken:
    """What a proof works with.

    Attributes:
        key: the key.
        plan: the plan.
        workspace: memory for the proof.
        tables: where the multiples of its points are, by the role of the set, for the sets that have them.
    """

    key: LoadedKey
    plan: ProofPlan
    workspace: Reserve
    tables: dict[str, int] = field(default_factory=dict)


class _Residents:
    """The keys of one device, and the workspace of its last proof."""

    def __init__(self) -> None:
        self._kept: OrderedDict[int, _Resident] = OrderedDict()
        self._workspace: Reserve | None = None

    def find(self, zkey: ProvingKey) -> _Resident | None:
        """Return a key that is there, as the most recently used one; forget those whose files were closed."""
        for number, resident in [*self._kept.items()]:
            if resident.zkey() is None:
                self._kept.pop(number).close()
        found = self._kept.get(id(zkey))
        if found is not None:
            self._kept.move_to_end(id(zkey))
        return found

    def keep(self, zkey: ProvingKey, resident: _Resident) -> None:
        """Keep a key."""
        self._kept[id(zkey)] = resident

    def give_way(self, but: ProvingKey) -> bool:
        """Give memory back; false where there is none.

        The workspace goes first, then multiples, those of the least recently used key before others, then that key.
        """
        if self._workspace is not None:
            workspace, self._workspace = self._workspace, None
            workspace.close()
            return True
        if any(resident.drop_multiples() for resident in self._kept.values()):
            return True
        oldest = next((number for number in self._kept if number != id(but)), None)
        if oldest is None:
            return False
        self._kept.pop(oldest).close()
        return True

    @property
    def workspace_bytes(self) -> int:
        """What the workspace has, which the next proof can use."""
        return self._workspace.nbytes if self._workspace is not None else 0

    def workspace(self, backend: Backend, nbytes: int) -> Reserve:
        """Return memory for a proof: what the last one left, wiped, where it is enough."""
        if self._workspace is not None and self._workspace.nbytes < nbytes:
            workspace, self._workspace = self._workspace, None
            workspace.close()
        if self._workspace is None:
            self._workspace = backend.reserve(nbytes, "a proof")
        self._workspace.reset_peak()
        return self._workspace

    def close(self) -> None:
        """Give everything back."""
        while self._kept:
            self._kept.popitem()[1].close()
        if self._workspace is not None:
            self._workspace.close()
            self._workspace = None


_OF_DEVICE: MutableMapping[Backend, _Residents] = WeakKeyDictionary()


def take_key(
    backend: Backend,
    zkey: ProvingKey,
    stack: ExitStack,
    *,
    window_bits: int | None = None,
    chunk: int | None = None,
    resident: bool | None = None,
) -> Taken:
    """Return a key on a device, the plan of a proof by it, and the memory for that.

    Args:
        backend: the device.
        zkey: the key.
        stack: takes what has to be given back after the proof.
        window_bits: to force a window.
        chunk: to force how many points are sorted together.
        resident: to force where the key's points are.

    Raises:
        DeviceError: the device failed, or has not enough memory.
    """
    residents = _residents(backend) if backend.keeps_keys else _Residents()
    if not backend.keeps_keys:
        stack.callback(residents.close)
    there = residents.find(zkey)
    survey = None if there else Survey(zkey)
    shape = there.shape if there else (survey or Survey(zkey)).shape
    while True:
        traits = backend.traits()
        room = traits._replace(memory_bytes=traits.memory_bytes + residents.workspace_bytes)
        try:
            if there is not None and there.resident and window_bits is chunk is resident is None:
                plan = _plan_multiples(backend, residents, there, room)
                if plan is not None and there.multiples is not None:
                    workspace = residents.workspace(backend, plan.workspace_bytes)
                    return Taken(there.key, plan, workspace, there.multiples.tables)
            plan = plan_proof(
                shape,
                room,
                key_is_there=there is not None,
                window_bits=window_bits,
                chunk=chunk,
                resident=there.resident if there is not None else resident,
                name=backend.name,
            )
            break
        except DeviceError:
            if backend.broken or not residents.give_way(zkey):
                raise
    if there is None:
        # A larger workspace than this proof needs may stay only beside the key.
        if residents.workspace_bytes + plan.key_bytes > room.memory_bytes:
            residents.give_way(zkey)
        there = _load(backend, zkey, plan, survey or Survey(zkey))
        residents.keep(zkey, there)
    return Taken(there.key, plan, residents.workspace(backend, plan.workspace_bytes))


def _plan_multiples(backend: Backend, residents: _Residents, there: _Resident, room: Traits) -> ProofPlan | None:
    """Plan with multiples of a key's points; the first time they are computed. None where memory is short."""
    if there.multiples is not None:
        return plan_multiples(there.shape, room, there.multiples.layout)
    if there.has_been_asked:
        return None
    there.has_been_asked = True
    plan = plan_multiples(there.shape, room)
    if plan is not None:
        workspace = residents.workspace(backend, plan.workspace_bytes)
        there.multiples = Multiples(backend, there.key, plan, workspace)
    return plan


def _load(backend: Backend, zkey: ProvingKey, plan: ProofPlan, survey: Survey) -> _Resident:
    """Load a key into memory of its own, or all of it but its points, which then are shared memory of the host."""
    with ExitStack() as stack:
        host: memoryview | int | None = None
        if not plan.resident:
            name = name_of(zkey.path, zkey.curve.ident, plan.shape)
            copy = HostCopy.open(name, survey.points_bytes, survey.fill)
            stack.callback(copy.close)
            host = copy.view
            if backend.register(copy.address, copy.nbytes):
                stack.callback(backend.unregister, copy.address)
                host = copy.address
        memory = backend.reserve(plan.key_bytes, "a proving key")
        stack.callback(memory.close)
        with backend.within(memory):
            loaded = LoadedKey(zkey, backend, survey, host)
        stack.callback(loaded.close)
        return _Resident(ref(zkey), plan.shape, plan.resident, loaded, stack.pop_all())


def _residents(backend: Backend) -> _Residents:
    """Return the keys of a device; they are closed before it is."""
    found = _OF_DEVICE.get(backend)
    if found is None:
        found = _OF_DEVICE[backend] = _Residents()
        backend.closes_first(lambda: _OF_DEVICE.pop(backend).close())
    return found
