"""The engines a worker can prove with, by name."""

from collections import OrderedDict
from collections.abc import Mapping
from functools import partial
from hashlib import sha256
from pathlib import Path

from prover.backends import open_backend
from prover.backends.base import Backend
from prover.errors import DeviceError, InternalError, MalformedFile, Mismatch
from prover.formats.snarkjson import proof_to_json, public_to_json
from prover.formats.wtns import Witness
from prover.formats.zkey import ZKey
from prover.groth16 import prove
from prover.worker.engine import EngineMaker, Proved, Work
from wire.jobs import Output
from wire.limits import OUTPUT_INLINE_BYTES_MAX

KEYS_KEPT = 2
"""Proving keys kept open between jobs, checked once; the least recently used is closed first."""


class Groth16:
    """Our own prover. Inputs ``zkey`` and ``wtns``; outputs ``proof`` and ``public``, as snarkjs writes them.

    Attributes:
        on_host: why it took the host, where it was to look for a card.
    """

    def __init__(self, device: str, *, max_vram_bytes: int | None = None) -> None:
        self._device = device
        self._max_vram_bytes = max_vram_bytes
        self.on_host = ""
        self._backend: Backend | None = None
        self._keys: OrderedDict[tuple[int, ...], ZKey] = OrderedDict()

    @property
    def is_open(self) -> bool:
        """Whether it has its device: one that breaks in a job is let go."""
        return self._backend is not None

    def open(self) -> None:
        """Take the device.

        Raises:
            DeviceError: it is absent or cannot be used.
        """
        if self._backend is None:
            self.on_host = ""
            backend = open_backend(self._device, max_vram_bytes=self._max_vram_bytes, on_host=self._took_host)
            backend.__enter__()
            self._backend = backend

    def _took_host(self, why: str) -> None:
        self.on_host = why

    def prove(self, work: Work) -> Proved:
        """Prove, and verify the proof before it is returned.

        Raises:
            ProverError: the files, the witness or the device; the sentence says which.
            Cancelled: ``work.cancelled`` said so.
        """
        for role in ("zkey", "wtns"):
            if role not in work.inputs:
                raise Mismatch(f"a groth16 job needs an input '{role}'; this one has {sorted(work.inputs)}")
        if self._backend is None:
            raise InternalError("the groth16 engine was asked to prove before its device was opened")
        work.report("load", 0, 0)
        zkey = self._key(work.inputs["zkey"])
        with Witness.open(work.inputs["wtns"]) as witness:
            try:
                result = prove(zkey, witness, self._backend, progress=work.report, cancelled=work.cancelled)
            except DeviceError:
                if self._backend.broken:
                    self._close_device()  # `open` takes it anew
                raise
        outputs = [_output("proof", proof_to_json(result.proof)), _output("public", public_to_json(result.public))]
        return Proved(outputs=outputs, timings_ms=dict(result.timings_ms))

    def _key(self, path: Path) -> ZKey:
        try:
            stat = path.stat()
        except OSError as error:
            raise MalformedFile(path, "", f"cannot be read: {error.strerror or error}") from None
        ident = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
        zkey = self._keys.pop(ident, None)
        if zkey is None:
            while len(self._keys) >= KEYS_KEPT:
                self._keys.popitem(last=False)[1].close()
            zkey = ZKey.open(path)
        self._keys[ident] = zkey
        return zkey

    def close(self) -> None:
        """Close the keys and the device."""
        while self._keys:
            self._keys.popitem()[1].close()
        self._close_device()

    def _close_device(self) -> None:
        if self._backend is not None:
            backend, self._backend = self._backend, None
            backend.__exit__(None, None, None)


def engines(max_vram_bytes: int | None = None) -> Mapping[str, EngineMaker]:
    """Return the engines' makers by their names, as jobs say them.

    Args:
        max_vram_bytes: the most memory of a card to use.
    """
    return {"groth16": partial(Groth16, max_vram_bytes=max_vram_bytes)}


def _output(role: str, text: str) -> Output:
    data = text.encode("ascii")
    # A public.json too large to travel is named by its digest only: the hub writes its own from the witness.
    inline = data if len(data) <= OUTPUT_INLINE_BYTES_MAX else b""
    return Output(role=role, sha256=sha256(data).hexdigest(), bytes_=len(data), data=inline)
