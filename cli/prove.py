"""``provewire prove``: one proof from a proving key and a witness, on this machine."""

import gc
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse

    from prover.formats.wtns import Witness
    from prover.formats.zkey import ZKey

HELP = "prove one witness of one circuit on this machine"

LOGS = False
"""Short and offline: errors are sentences, and logging takes longer to load than a small proof takes."""


ENDS_AT_ONCE = True
"""Both files are on the disk, and device and keys closed, when ``run`` returns."""


def add_arguments(parser: "argparse.ArgumentParser") -> None:
    """Declare the command's options."""
    parser.add_argument("--zkey", required=True, type=Path, metavar="F", help="proving key, as snarkjs writes it")
    parser.add_argument("--wtns", required=True, type=Path, metavar="F", help="witness, as circom's programs write it")
    parser.add_argument("--proof", required=True, type=Path, metavar="F", help="where the proof goes (JSON)")
    parser.add_argument("--public", required=True, type=Path, metavar="F", help="where the public signals go (JSON)")
    parser.add_argument(
        "--check-witness",
        type=Path,
        metavar="R1CS",
        help="first check the witness against the circuit's constraints, and name the one it violates",
    )
    parser.add_argument("--device", default="auto", metavar="D", help="auto, host or cuda:N (default auto)")
    parser.add_argument("--max-vram", metavar="N", help="the most memory of a card to use, such as 20G")
    parser.add_argument("--json", action="store_true", help="print times and names as one JSON line")


def run(args: "argparse.Namespace") -> int:
    """Prove, and write both files; neither is touched unless the proof verifies."""
    begin = time.monotonic()
    # Nothing here makes cycles worth looking for, and looking for them takes a tenth of a small proof.
    collects = gc.isenabled()
    gc.disable()
    try:
        return _run(args, begin)
    finally:
        if collects:
            gc.enable()


def _run(args: "argparse.Namespace", begin: float) -> int:
    """See ``run``."""
    from cli.progress import ProgressLine  # noqa: PLC0415 - see cli.main
    from prover.backends import open_backend, parse_bytes  # noqa: PLC0415
    from prover.formats.snarkjson import proof_to_json, public_to_json  # noqa: PLC0415
    from prover.formats.wtns import Witness, check_pair  # noqa: PLC0415
    from prover.formats.zkey import ZKey  # noqa: PLC0415
    from prover.groth16 import prove  # noqa: PLC0415

    proof_path, public_path = _outputs(args)
    with ZKey.open(args.zkey) as zkey, Witness.open(args.wtns) as witness:
        # Before a device is taken: a wrong pair of files is said at once.
        check_pair(zkey, witness)
        if args.check_witness is not None:
            _check_witness(args.check_witness, zkey, witness)
        room = parse_bytes(args.max_vram) if args.max_vram else None
        with open_backend(args.device, max_vram_bytes=room) as backend, ProgressLine() as progress:
            result = prove(zkey, witness, backend, progress=progress)
    # The proof comes last: where it stands, its public signals do too.
    write_whole([(public_path, public_to_json(result.public)), (proof_path, proof_to_json(result.proof))])
    elapsed_s = time.monotonic() - begin
    if args.json:
        import json  # noqa: PLC0415 - see cli.main

        print(
            json.dumps(
                {
                    "proof": str(args.proof),
                    "public": str(args.public),
                    "device": args.device,
                    "elapsed_ms": round(elapsed_s * 1000, 3),
                    "timings_ms": {phase: round(value, 3) for phase, value in result.timings_ms.items()},
                }
            )
        )
    else:
        print(f"proved and verified in {elapsed_s:.2f} s: {args.proof} {args.public}")
    return 0


def _check_witness(path: Path, zkey: "ZKey", witness: "Witness") -> None:
    """Refuse a witness that violates a constraint, by the constraint's number."""
    from prover.check import check_witness  # noqa: PLC0415 - see cli.main
    from prover.formats.r1cs import R1cs, check_belongs  # noqa: PLC0415

    with R1cs.open(path) as r1cs:
        check_belongs(r1cs, witness=witness, zkey=zkey)
        check_witness(r1cs, witness)


def write_whole(texts: list[tuple[Path, str]]) -> None:
    """Write each text to its path, all of them or, while nothing has been renamed, none.

    Everything is written and fsynced beside its place first, then renamed, in order.

    Raises:
        UsageError: a file cannot be written there.
    """
    from cli.errors import UsageError  # noqa: PLC0415 - see cli.main

    written: list[tuple[Path, Path]] = []
    try:
        for path, text in texts:
            temporary = path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}.tmp")
            # Mode 0666 and the umask decide, as for any output; mkstemp's 0600 would lock readers out.
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
            written.append((temporary, path))
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
                file.flush()
                os.fsync(descriptor)
        for temporary, path in written:
            temporary.replace(path)
        for folder in {path.parent for _, path in written}:
            _sync_folder(folder)
    except OSError as error:
        raise UsageError(f"{error.filename or texts[-1][0]}: cannot be written: {error.strerror}") from error
    finally:
        for temporary, _ in written:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def _outputs(args: "argparse.Namespace") -> tuple[Path, Path]:
    """Return where both outputs really go, after refusing what would fail, or destroy a file, minutes later."""
    from cli.errors import UsageError  # noqa: PLC0415 - see cli.main

    taken = {}
    for name in ("zkey", "wtns"):
        with suppress(OSError):
            taken[getattr(args, name).resolve()] = name
    found = []
    for name in ("proof", "public"):
        given: Path = getattr(args, name)
        try:
            path = given.resolve()
            is_special = path.exists() and not stat.S_ISREG(path.stat().st_mode)
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"--{name} {given}: {error}") from error
        if is_special:
            raise UsageError(f"--{name} {given}: something that is not a regular file stands there")
        if path in taken:
            raise UsageError(f"--{name} {given}: is the file of --{taken[path]} as well")
        if not path.parent.is_dir():
            raise UsageError(f"--{name} {given}: the folder {path.parent} does not exist")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"--{name} {given}: the folder {path.parent} is not writable")
        taken[path] = name
        found.append(path)
    return found[0], found[1]


def _sync_folder(folder: Path) -> None:
    """Make renames in a folder survive a loss of power."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
