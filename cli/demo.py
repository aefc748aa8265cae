"""``provewire demo``: a hub, two agents and one real proof, all on this machine and on loopback only.

Everything goes the way it goes in production: real processes, a real enrolment token, the job through REST, its
progress from the live stream. What the processes write lies in a temporary folder and is removed at the end.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

from cli.errors import EXIT_OK, CommandError, Unreachable, UsageError

if TYPE_CHECKING:
    import aiohttp
    from rich.console import Console

HELP = "run a hub, two agents and one proof on this machine, to look at"

START_DEADLINE_S = 60.0
PROOF_DEADLINE_S = 300.0
STOP_DEADLINE_S = 10.0
AGENTS = ("node-a", "node-b")
LOG_TAIL_LINES = 20
TOLD_AFTER_S = 1.0
"""Compiling is told if it took longer; else it was done before."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--once", action="store_true", help="end after the proof instead of staying up until Ctrl-C")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("build/demo"),
        metavar="DIR",
        help="where proof.json, public.json and verification_key.json go (default: %(default)s)",
    )


def run(args: argparse.Namespace) -> int:
    """Run the demonstration; 0 once the proof is verified."""
    try:
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {args.out}: the folder cannot be made: {error.strerror}") from error
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupt_once)
    with tempfile.TemporaryDirectory(prefix="pw-demo-") as folder, Fleet(Path(folder)) as fleet:
        try:
            return asyncio.run(demonstrate(fleet, out=args.out, once=args.once))
        except KeyboardInterrupt:
            if fleet.shown:
                return EXIT_OK
            raise


def interrupt_once(_number: int, _frame: object) -> None:
    """End the demonstration; a second Ctrl-C while it is being stopped must not leave half of it running."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


class Fleet:
    """The demonstration's processes: started here, stopped here, workers included."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shown = False
        """Whether everything there is to see is up: to be interrupted then is the ordinary end."""
        self._children: list[tuple[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        import subprocess  # noqa: PLC0415

        import psutil  # noqa: PLC0415 - only needed to stop

        # The agents first: a living one would start another worker in the place of one that was stopped.
        for _, child in reversed(self._children):
            child.terminate()
        for _, child in self._children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(STOP_DEADLINE_S)
        # What is left are workers: they outlive their agents on purpose, and here nobody would come back for them.
        left = [p for p in psutil.process_iter(["cmdline"]) if str(self.folder) in " ".join(p.info["cmdline"] or [])]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            _gone, left = psutil.wait_procs(left, timeout=STOP_DEADLINE_S)
        for _, child in self._children:
            child.wait()

    def start(self, name: str, *argv: str) -> None:
        """Start ``provewire *argv``; its log goes to ``<name>.log`` in the folder."""
        import subprocess  # noqa: PLC0415

        # A group of its own, so that Ctrl-C reaches us alone and the order of stopping is ours.
        with self.log(name).open("wb") as log:
            child = subprocess.Popen(  # noqa: S603 - our own program
                [sys.executable, "-m", "cli.main", *argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "PROVEWIRE_LOG": "json"},
            )
        self._children.append((name, child))

    def log(self, name: str) -> Path:
        """Where the output of one process goes."""
        return self.folder / f"{name}.log"

    def check(self) -> None:
        """Raise if a process ended that should be running."""
        for name, child in self._children:
            if (code := child.poll()) is not None:
                tail = self.log(name).read_text(errors="replace").splitlines()[-LOG_TAIL_LINES:]
                raise CommandError("\n".join([f"the {name} process ended with {code}; its last words:", *tail]))


@dataclass(frozen=True)
class Hub:
    """The running hub, and how to speak to it."""

    url: str
    http: "aiohttp.ClientSession"

    async def call(self, method: str, path: str, **kwargs: Any) -> Any:
        """One REST call; its JSON answer, or bytes where the answer is none."""
        async with self.http.request(method, f"{self.url}/api/v1/{path}", **kwargs) as response:
            body = await response.read()
            if response.status >= 400:  # noqa: PLR2004 - HTTP's own border of errors
                raise CommandError(f"{method} {path} was answered {response.status}: {body.decode(errors='replace')}")
            return json.loads(body) if response.content_type.endswith("json") else body

    async def live(self) -> AsyncGenerator[tuple[str, dict[str, Any]]]:
        """(event, data) of the live stream."""
        import aiohttp  # noqa: PLC0415

        no_limit = aiohttp.ClientTimeout(total=None, sock_connect=10)
        async with self.http.get(f"{self.url}/api/v1/live", timeout=no_limit) as response:
            response.raise_for_status()
            event = ""
            while line := await response.content.readline():
                if line.startswith(b"event:"):
                    event = line[6:].strip().decode()
                elif line.startswith(b"data:"):
                    yield event, json.loads(line[5:])


async def demonstrate(fleet: Fleet, *, out: Path, once: bool) -> int:
    """The whole story, told on stdout."""
    import aiohttp  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False, soft_wrap=True)
    began_s = time.monotonic()
    await build_kernels(console)
    fleet.start("hub", "hub", "--listen", "127.0.0.1:0", "--data-dir", str(fleet.folder / "hub"))
    facts = await wait_for(fleet, "the hub to listen", lambda: read_json(fleet.folder / "hub" / "hub.json"))
    token = (fleet.folder / "hub" / "admin-token").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as http:
        hub = Hub(facts["local_url"], http)
        console.print(f"hub        {hub.url}")
        await start_agents(fleet, hub)
        console.print(f"agents     {', '.join(AGENTS)}, dialled out and heard")
        job = await submit(hub)
        console.print(f"job        {job}, the bundled circuit")
        ended = await follow(fleet, hub, job, console)
        if ended["state"] != "done":
            raise CommandError(
                f"the job ended {ended['state']}: {(ended.get('error') or {}).get('detail', 'no reason')}"
            )
        await take_files(hub, job, ended["circuit"], out)
        console.print(f"proof      {out / 'proof.json'}, verified by the hub")
        console.print("           beside it: public.json, verification_key.json; any verifier takes them, for example")
        console.print(f"           {program()} verify --vkey {out}/verification_key.json \\")
        console.print(f"             --proof {out}/proof.json --public {out}/public.json")
        console.print(f"time       {job_seconds(ended):.1f} s for the job, {time.monotonic() - began_s:.1f} s in all")
        if not once:
            link = await hub.call("POST", "login-links")
            fleet.shown = True  # before the first word of it: who reads it may press Ctrl-C at once
            console.print(f"page       {link['url']}")
            console.print("           the link logs in once; Ctrl-C ends the demonstration")
            await until_interrupted(fleet)
    return EXIT_OK


async def build_kernels(console: "Console") -> None:
    """Compile the kernels as a worker would on its first start, so that nobody wonders what takes so long.

    Raises:
        DeviceError: there is no compiler, or it failed.
    """
    import logging  # noqa: PLC0415

    from kernels.curves import BN254  # noqa: PLC0415
    from prover.backends.host import build_for  # noqa: PLC0415

    logging.getLogger("prover.backends.build").setLevel(logging.WARNING)  # told here, in other words
    began_s = time.monotonic()
    with console.status("compiling the kernels for this machine, which is needed once"):
        library = await asyncio.to_thread(build_for, BN254)
    took_s = time.monotonic() - began_s
    if took_s > TOLD_AFTER_S:
        console.print(f"kernels    compiled in {took_s:.0f} s, kept in {library.parent}")


def program() -> str:
    """How the user calls this program."""
    installed = shutil.which("provewire")
    if installed is not None and Path(installed).resolve() == Path(sys.argv[0]).resolve():
        return "provewire"
    here = Path(sys.executable).parent / "provewire"
    return str(here.relative_to(Path.cwd()) if here.is_relative_to(Path.cwd()) else here)


async def start_agents(fleet: Fleet, hub: Hub) -> None:
    """Enrol and start the agents; returns once the hub hears them all."""
    made = await hub.call("POST", "enroll-tokens", json={"uses": len(AGENTS), "ttl_s": 600})
    token_file = fleet.folder / "token"
    token_file.touch(mode=0o600)
    token_file.write_text(made["token"])
    for name in AGENTS:
        fleet.start(
            name,
            *("agent", "--hub", hub.url, "--data-dir", str(fleet.folder / name), "--token-file", str(token_file)),
            *("--name", name, "--device", "host", "--local", "127.0.0.1:0"),
        )

    async def heard() -> bool:
        nodes = (await hub.call("GET", "nodes"))["nodes"]
        return [node["state"] for node in nodes] == ["online"] * len(AGENTS)

    deadline_s = time.monotonic() + START_DEADLINE_S
    while not await heard():
        fleet.check()
        if time.monotonic() > deadline_s:
            raise Unreachable(f"the hub did not hear the agents within {START_DEADLINE_S:g} s")
        await asyncio.sleep(0.1)


async def submit(hub: Hub) -> str:
    """Upload the bundled circuit and witness, ask for a proof; the job's id."""
    from prover import circuits  # noqa: PLC0415

    zkey = await upload(hub, circuits.ZKEY)
    witness = await upload(hub, circuits.WITNESS)
    circuit = await hub.call("POST", "circuits", json={"name": circuits.NAME, "zkey": zkey})
    job = await hub.call("POST", "jobs", json={"circuit": circuit["id"], "witness": witness})
    return str(job["id"])


async def upload(hub: Hub, path: Path) -> str:
    """Send one file to the hub; its digest."""
    import hashlib  # noqa: PLC0415

    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        await hub.call("PUT", f"artifacts/{digest}", data=file)
    return digest


async def follow(fleet: Fleet, hub: Hub, job: str, console: "Console") -> dict[str, Any]:
    """Show the job's progress from the live stream until it ends; the job as REST tells it then."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    try:
        async with asyncio.timeout(PROOF_DEADLINE_S):
            with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
                task = bar.add_task("queued", total=None)
                async for seen in jobs_seen(hub, job):
                    fleet.check()
                    # A total of 0 would count as finished: the bar runs to and fro while there is none.
                    total = seen.get("total") or None
                    bar.update(task, description=describe(seen), completed=seen.get("done") or 0, total=total)
                    if seen["state"] in {"done", "failed", "cancelled"}:
                        break
    except TimeoutError:
        raise CommandError(f"the job was not done within {PROOF_DEADLINE_S:g} s") from None
    ended: dict[str, Any] = await hub.call("GET", f"jobs/{job}")
    return ended


async def jobs_seen(hub: Hub, job: str) -> AsyncGenerator[dict[str, Any]]:
    """Every state of one job that the live stream shows, the snapshot's first."""
    async with contextlib.aclosing(hub.live()) as live:
        async for event, data in live:
            if event == "snapshot":
                for seen in data["jobs"]:
                    if seen["id"] == job:
                        yield seen
            elif event == "job" and data["job"]["id"] == job:
                yield data["job"]


def describe(seen: dict[str, Any]) -> str:
    """One line for the progress bar."""
    where = f" on {seen['node_name']}" if seen.get("node_name") else ""
    return f"{seen['state']}{where}{': ' + seen['phase'] if seen.get('phase') else ''}"


async def take_files(hub: Hub, job: str, circuit: str, out: Path) -> None:
    """Write the proof, its public inputs and the verification key to ``out``."""
    for name, path in (
        ("proof.json", f"jobs/{job}/proof"),
        ("public.json", f"jobs/{job}/public"),
        ("verification_key.json", f"circuits/{circuit}/verification-key"),
    ):
        async with hub.http.get(f"{hub.url}/api/v1/{path}") as response:
            response.raise_for_status()
            (out / name).write_bytes(await response.read())


def job_seconds(job: dict[str, Any]) -> float:
    """From the job's acceptance to its end."""
    return float(job["ended_at_ms"] - job["created_at_ms"]) / 1000


async def until_interrupted(fleet: Fleet) -> NoReturn:
    """Watch that everything stays up, until a signal ends it."""
    while True:
        fleet.check()
        await asyncio.sleep(1.0)


async def wait_for(fleet: Fleet, what: str, ready: Callable[[], Any]) -> Any:
    """The first true value of ``ready``, asked ten times a second.

    Raises:
        Unreachable: it did not come within START_DEADLINE_S.
        CommandError: a process ended meanwhile.
    """
    deadline_s = time.monotonic() + START_DEADLINE_S
    while not (value := ready()):
        fleet.check()
        if time.monotonic() > deadline_s:
            raise Unreachable(f"waited {START_DEADLINE_S:g} s for {what}")
        await asyncio.sleep(0.1)
    return value


def read_json(path: Path) -> Any:
    """The JSON in ``path``, or None while there is no such file."""
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None
