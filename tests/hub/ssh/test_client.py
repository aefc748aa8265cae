"""The client against real sshd processes: every cause provoked, nothing lost, nothing left behind."""

import asyncio
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from hub.clock import SystemClock
from hub.ssh.argv import Way
from hub.ssh.cause import Cause
from hub.ssh.client import STDERR_BYTES_MAX, Client, listeners
from hub.ssh.ladder import Rung, State, way_in
from hub.ssh.streams import shown
from hub.ssh.targets import Target
from tests.hub.ssh.sshd import DEADLINE_S, HubSide, Sshd, free_port, make_key, needs_sshd, running

pytestmark = needs_sshd


@pytest.fixture
def hub(tmp_path: Path) -> HubSide:
    # Sockets need a short folder; pytest's own is too deep.
    return HubSide(tmp_path, runtime_dir=_short_folder())


def _short_folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="pw", dir="/tmp"))


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


@pytest.fixture(autouse=True)
async def nothing_left_behind(hub: HubSide) -> AsyncIterator[None]:
    """No process and no descriptor of an attempt stays: checked after every test."""
    before = descriptors()
    yield
    for path in hub.way.runtime_dir.iterdir():
        for pid in listeners(path):
            os.kill(pid, signal.SIGKILL)
    shutil.rmtree(hub.way.runtime_dir)
    children = [child for child in psutil.Process().children() if child.name() == "ssh"]
    assert children == []
    async with asyncio.timeout(DEADLINE_S):
        while len(descriptors() - before) > 2:  # noqa: ASYNC110 - the kernel tells nobody
            await asyncio.sleep(0.02)


@pytest.fixture
async def server(tmp_path: Path, hub: HubSide) -> AsyncIterator[Sshd]:
    """An sshd that knows the hub's key, and whose own key the hub knows."""
    async with running(tmp_path / "sshd") as found:
        found.authorize(hub.identity)
        hub.knows(found)
        yield found


async def test_a_command_runs_and_tells_its_output_and_exit_code(hub: HubSide, server: Sshd) -> None:
    for script, cause, output in (
        ("echo hello; echo there", Cause.OK, b"hello\nthere\n"),
        ("echo partly; exit 3", Cause.REMOTE_FAILED, b"partly\n"),
        ("exit 255", Cause.REMOTE_255, b""),
        ("no-such-command", Cause.REMOTE_NOT_FOUND, b""),
        ("/etc/passwd", Cause.REMOTE_NOT_EXECUTABLE, b""),
        ("sh -c 'kill -9 $$'", Cause.REMOTE_KILLED, b""),
    ):
        found = await hub.run(server, script)
        assert found.diagnosis.cause is cause, (script, found.stderr)
        assert found.output == output


async def test_the_shell_itself_killed_is_told_from_a_lost_connection(hub: HubSide, server: Sshd) -> None:
    for client in (hub.client, hub.with_way(multiplexed=False)):
        (found,) = await client.run(server.target, "echo begun; kill -9 $$", deadline_s=DEADLINE_S)
        assert found.diagnosis.cause is Cause.REMOTE_KILLED
        assert found.output == b"begun\n"


async def test_standard_input_reaches_the_command(hub: HubSide, server: Sshd) -> None:
    (found,) = await hub.client.run(server.target, "wc -c", deadline_s=DEADLINE_S, stdin=b"x" * 300_000)
    assert found.output.strip() == b"300000"


# --- the way there ----------------------------------------------------------------------------------------------------


async def test_refused(hub: HubSide) -> None:
    found = await hub.run(Target("127.0.0.1", free_port()))
    assert found.diagnosis.cause is Cause.REFUSED
    assert b"Connection refused" in found.stderr


async def test_a_name_nobody_knows(hub: HubSide) -> None:
    assert (await hub.run(Target("nobody.invalid"))).diagnosis.cause is Cause.NAME_RESOLUTION


@asynccontextmanager
async def answering(
    *said: bytes, hold: bool = False, reset: bool = False, heard: bool = False
) -> AsyncIterator[Target]:
    """Something that is no sshd: accepts, says this, hears ssh's banner, and closes, resets or holds the connection."""
    held: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for data in said:
            writer.write(data)
            await writer.drain()
        if heard:
            await reader.readline()
        if reset:
            socket_ = writer.get_extra_info("socket")
            socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            writer.transport.abort()
        elif hold:
            held.append(writer)
        else:
            writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield Target("127.0.0.1", listener.sockets[0].getsockname()[1])
    finally:
        for writer in held:
            writer.close()
        listener.close()
        await listener.wait_closed()


async def test_closed_before_the_banner(hub: HubSide) -> None:
    async with answering() as target:
        # Whether the kernel sends an end or a reset depends on what was still unread.
        found = await hub.run(target)
        assert found.diagnosis.cause in {Cause.CLOSED_BEFORE_BANNER, Cause.RESET_BEFORE_BANNER}


async def test_reset_before_the_banner(hub: HubSide) -> None:
    async with answering(reset=True) as target:
        found = await hub.run(target)
        # A reset that meets the banner which ssh writes, and not its reading, is told without a word of the banner.
        early = {Cause.RESET_BEFORE_BANNER, Cause.CLOSED_BEFORE_BANNER, Cause.LOST_BEFORE_SHELL}
        assert found.diagnosis.cause in early


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_a_connection_that_breaks_before_there_is_a_shell(hub: HubSide, *, reset: bool) -> None:
    async with answering(b"SSH-2.0-OpenSSH_9.2\r\n", reset=reset, heard=True) as target:
        found = await hub.run(target)
        assert found.diagnosis.cause is Cause.LOST_BEFORE_SHELL, found.stderr
        steps = {step.rung: step.state for step in way_in(found.diagnosis, reached_shell=False)}
        assert (steps[Rung.TCP], steps[Rung.LOGIN]) == (State.OK, State.UNKNOWN), (
            "it is not known whether the key is taken"
        )


async def test_a_port_that_accepts_and_is_silent(hub: HubSide) -> None:
    async with answering(hold=True) as target:
        assert (await hub.run(target)).diagnosis.cause is Cause.BANNER_TIMED_OUT


async def test_something_that_talks_and_is_no_ssh(hub: HubSide) -> None:
    async with answering(b"220 mail ready\r\n" * 2000) as target:
        assert (await hub.run(target)).diagnosis.cause is Cause.NOT_SSH


async def test_a_server_of_ssh_1(hub: HubSide) -> None:
    async with answering(b"SSH-1.5-OldServer\r\n", hold=True) as target:
        assert (await hub.run(target)).diagnosis.cause is Cause.OLD_PROTOCOL


async def test_garbage_behind_the_banner(hub: HubSide) -> None:
    async with answering(b"SSH-2.0-OpenSSH_9.2\r\n" + b"\xff" * 4096, hold=True) as target:
        assert (await hub.run(target)).diagnosis.cause in {Cause.NOT_SSH, Cause.BROKEN_TRANSPORT}


async def test_a_server_that_hangs_after_its_banner_is_ended(hub: HubSide) -> None:
    """Ssh's own time-outs do not end this without ServerAlive; the deadline does in any case."""
    client = hub.with_way(alive_interval_s=0)
    async with answering(b"SSH-2.0-OpenSSH_9.2\r\n", hold=True) as target:
        (found,) = await client.run(target, "true", deadline_s=1.0)
    assert found.diagnosis.cause in {Cause.DEADLINE, Cause.LOST_BEFORE_SHELL}


NAMESPACES = subprocess.run(
    ["unshare", "-rn", "sh", "-c", "ip link add v0 type veth peer name v1"], capture_output=True, check=False
).returncode
needs_namespaces = pytest.mark.skipif(
    NAMESPACES != 0,
    reason="ip is missing: apt-get install iproute2"
    if shutil.which("ip") is None
    else "network namespaces are not allowed here",
)


def in_namespace(folder: Path, *commands: str) -> str:
    """A program that runs ssh in a network namespace of its own, prepared by these commands."""
    script = folder / "ssh-in-namespace"
    inner = " && ".join(["ip link set lo up", *commands, 'exec ssh "$@"'])
    script.write_text(f"#!/bin/sh\nexec unshare -rn sh -c '{inner}' ssh \"$@\"\n")
    script.chmod(stat.S_IRWXU)
    return str(script)


WIRE = (
    "ip link add v0 type veth peer name v1",
    "ip addr add 198.51.100.1/24 dev v0",
    "ip link set v0 up",
    "ip link set v1 up",
)
"""A link whose other end nobody listens on."""


@needs_namespaces
@pytest.mark.parametrize(
    ("cause", "commands"),
    [
        (Cause.NETWORK_UNREACHABLE, ()),
        (Cause.NO_ROUTE, (*WIRE, "ip route add unreachable 203.0.113.0/24")),
        (Cause.FIREWALL_REJECT, (*WIRE, "ip route add prohibit 203.0.113.0/24")),
        (Cause.FIREWALL_REJECT, (*WIRE, "ip route add blackhole 203.0.113.0/24")),
        (Cause.CONNECT_TIMED_OUT, (*WIRE, "ip neigh add 198.51.100.2 lladdr 02:00:00:00:00:01 dev v0",
                                   "ip route add 203.0.113.0/24 via 198.51.100.2")),
    ],
    ids=["no network", "unreachable", "prohibited", "blackhole", "unanswered"],
)  # fmt: skip
async def test_networks_that_do_not_carry(hub: HubSide, cause: Cause, commands: tuple[str, ...]) -> None:
    client = hub.with_way(ssh=in_namespace(hub.folder, *commands), multiplexed=False)
    (found,) = await client.run(Target("203.0.113.5"), "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is cause, found.stderr


# --- who is there -----------------------------------------------------------------------------------------------------


async def test_an_unknown_a_changed_and_a_revoked_host_key(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    kind, key, *_ = server.host_key.with_suffix(".pub").read_text().split()
    other = make_key(tmp_path / "other").with_suffix(".pub").read_text().split()[1]
    name = server.target.known_host
    for line, cause in (
        ("", Cause.HOST_KEY_UNKNOWN),
        (f"{name} {kind} {other}\n", Cause.HOST_KEY_CHANGED),
        (f"@revoked {name} {kind} {key}\n", Cause.HOST_KEY_REVOKED),
        ("\0garbage\n", Cause.HOST_KEY_UNKNOWN),
    ):
        hub.known_hosts.write_text(line)
        found = await hub.run(server)
        assert found.diagnosis.cause is cause, found.stderr
    hub.known_hosts.unlink()
    assert (await hub.run(server)).diagnosis.cause is Cause.HOST_KEY_UNKNOWN


@pytest.mark.parametrize(
    ("cause", "line"),
    [
        (Cause.NEGOTIATION_KEX, "KexAlgorithms diffie-hellman-group1-sha1"),
        (Cause.NEGOTIATION_CIPHER, "Ciphers aes128-cbc"),
        (Cause.NEGOTIATION_MAC, "MACs hmac-md5"),
        (Cause.NEGOTIATION_HOST_KEY, "HostKeyAlgorithms ssh-rsa"),
    ],
    ids=lambda value: value.value if isinstance(value, Cause) else "",
)
async def test_no_common_algorithm(hub: HubSide, tmp_path: Path, cause: Cause, line: str) -> None:
    extra = [line]
    if cause is Cause.NEGOTIATION_MAC:
        extra.append("Ciphers aes128-ctr")
    if cause is Cause.NEGOTIATION_HOST_KEY:
        key = make_key(tmp_path / "rsa", "-t", "rsa", "-b", "2048")
        extra.append(f"HostKey {key}")
    async with running(tmp_path / "picky", *extra) as server:
        hub.knows(server)
        found = await hub.run(server)
    assert found.diagnosis.cause is cause, found.stderr


# --- our own keys -----------------------------------------------------------------------------------------------------


async def test_the_key_is_not_authorized(hub: HubSide, server: Sshd) -> None:
    server.authorized_keys.write_text("")
    found = await hub.run(server)
    assert found.diagnosis.cause is Cause.IDENTITY_REFUSED
    assert b"Permission denied (publickey)" in found.stderr
    assert found.duration_s > 0
    offered = await hub.client.offered(server.target, deadline_s=DEADLINE_S)
    assert "Offering public key" in offered
    assert str(hub.identity) in offered


async def test_two_keys_fused_on_one_line_look_like_a_missing_key(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    first = make_key(tmp_path / "first").with_suffix(".pub").read_text().strip()
    server.authorized_keys.write_text(first + hub.identity.with_suffix(".pub").read_text())
    assert (await hub.run(server)).diagnosis.cause is Cause.IDENTITY_REFUSED


async def test_what_can_be_wrong_with_a_key_file(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nnonsense\n-----END OPENSSH PRIVATE KEY-----\n")
    damaged.chmod(0o600)
    crlf = tmp_path / "crlf"
    crlf.write_bytes(hub.identity.read_bytes().replace(b"\n", b"\r\n"))
    crlf.chmod(0o600)
    unprotected = tmp_path / "unprotected"
    unprotected.write_bytes(hub.identity.read_bytes())
    unprotected.chmod(0o644)
    for path, causes in (
        (tmp_path / "absent", {Cause.NO_IDENTITY, Cause.KEY_MISSING}),
        (damaged, {Cause.KEY_DAMAGED}),
        (crlf, {Cause.KEY_DAMAGED}),
        (tmp_path, {Cause.KEY_DAMAGED, Cause.KEY_UNPROTECTED}),
        (unprotected, {Cause.KEY_UNPROTECTED}),
    ):
        client = hub.with_way(identities=(path,), multiplexed=False)
        (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
        assert found.diagnosis.cause in causes, (path.name, found.stderr)


async def test_a_missing_identity_never_falls_back_to_the_users_own(
    hub: HubSide, server: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "home" / ".ssh"
    own.mkdir(parents=True, mode=0o700)
    server.authorize(make_key(own / "id_ed25519"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    client = hub.with_way(identities=(tmp_path / "absent",), multiplexed=False)
    (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause in {Cause.NO_IDENTITY, Cause.KEY_MISSING}


async def test_a_key_with_a_passphrase(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    """In batch mode ssh does not say so; the hub looks at the key itself (see `hub.ssh.identity`)."""
    locked = make_key(tmp_path / "locked", passphrase="not told")  # noqa: S106 - the test's own
    server.authorize(locked)
    client = hub.with_way(identities=(locked,), multiplexed=False)
    (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause in {Cause.KEY_PASSPHRASE, Cause.IDENTITY_REFUSED}


async def test_too_many_keys(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    keys = tuple(make_key(tmp_path / f"key{number}") for number in range(7))
    client = hub.with_way(identities=keys, multiplexed=False)
    (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.TOO_MANY_FAILURES


async def test_a_second_factor_is_wanted(hub: HubSide, tmp_path: Path) -> None:
    extra = ("AuthenticationMethods publickey,password", "PasswordAuthentication yes")
    async with running(tmp_path / "two", *extra) as server:
        hub.knows(server)
        server.authorize(hub.identity)
        assert (await hub.run(server)).diagnosis.cause is Cause.SECOND_FACTOR


# --- configuration and sockets ----------------------------------------------------------------------------------------


async def test_a_config_file_that_cannot_be_used(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    bad = tmp_path / "config"
    bad.write_text("Host *\n  NoSuchOption yes\n")
    worse = tmp_path / "worse"
    worse.write_text("Host *\n  ConnectTimeout abc\n")
    for path, cause in (
        (bad, Cause.BAD_CONFIGURATION),
        (worse, Cause.BAD_CONFIGURATION),
        (tmp_path / "absent", Cause.CONFIG_FILE),
    ):
        client = hub.with_way(config_file=path, multiplexed=False, connect_timeout_s=3)
        (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
        assert found.diagnosis.cause is cause, found.stderr


async def test_folders_for_sockets_that_do_not_work(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    for path, cause in (
        (hub.way.runtime_dir / "absent", Cause.CONTROL_PATH_UNUSABLE),
        (deep, Cause.CONTROL_PATH_TOO_LONG),
    ):
        client = hub.with_way(runtime_dir=path)
        found = (await client.run(server.target, "true", deadline_s=DEADLINE_S))[-1]
        assert found.diagnosis.cause is cause, found.stderr


async def test_there_is_no_ssh(hub: HubSide, server: Sshd) -> None:
    client = hub.with_way(ssh="/nowhere/ssh", multiplexed=False)
    (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    assert found.diagnosis.cause is Cause.SSH_MISSING
    assert "No such file" in found.diagnosis.evidence


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv")
async def test_a_user_no_database_knows(hub: HubSide, server: Sshd) -> None:
    folder = _short_folder()
    wrapper = folder / "ssh"
    wrapper.write_text('#!/bin/sh\nexec setpriv --reuid 61184 --regid 61184 --clear-groups ssh "$@"\n')
    wrapper.chmod(0o755)
    try:
        client = hub.with_way(ssh=str(wrapper), multiplexed=False)
        (found,) = await client.run(server.target, "true", deadline_s=DEADLINE_S)
    finally:
        shutil.rmtree(folder)
    assert found.diagnosis.cause is Cause.NO_USER, found.stderr


async def test_a_second_command_goes_through_the_open_master(hub: HubSide, server: Sshd) -> None:
    assert (await hub.run(server)).diagnosis.cause is Cause.OK
    logins = server.log.read_text().count("Accepted publickey")
    again = await hub.run(server)
    assert again.diagnosis.cause is Cause.OK
    assert again.ending.through_master
    assert server.log.read_text().count("Accepted publickey") == logins


async def test_a_stale_socket_costs_one_attempt_and_is_noted(hub: HubSide, server: Sshd) -> None:
    await hub.run(server)
    (path,) = hub.way.runtime_dir.iterdir()
    for pid in listeners(path):
        os.kill(pid, signal.SIGKILL)
    assert path.exists()
    tries = await hub.client.run(server.target, "echo hello", deadline_s=DEADLINE_S)
    assert [found.diagnosis.cause for found in tries] == [Cause.OK]
    assert "stale control socket" in tries[0].note


async def test_a_stopped_master_is_found_ended_and_the_attempt_made_once_more(hub: HubSide, server: Sshd) -> None:
    await hub.run(server)
    (path,) = hub.way.runtime_dir.iterdir()
    (master,) = listeners(path)
    os.kill(master, signal.SIGSTOP)
    tries = await hub.client.run(server.target, "echo hello", deadline_s=2.0)
    assert [found.diagnosis.cause for found in tries] == [Cause.MASTER_HUNG, Cause.OK]
    assert tries[1].output == b"hello\n"
    assert not psutil.pid_exists(master) or psutil.Process(master).status() == psutil.STATUS_ZOMBIE


async def test_a_master_killed_under_its_client_is_told_and_the_attempt_made_once_more(
    hub: HubSide, server: Sshd, tmp_path: Path
) -> None:
    await hub.run(server)
    (path,) = hub.way.runtime_dir.iterdir()
    (master,) = listeners(path)
    begun = tmp_path / "begun"
    script = f"test -e {begun} && echo again && exit 0; touch {begun}; sleep 30"
    running_ = asyncio.create_task(hub.client.run(server.target, script, deadline_s=DEADLINE_S))
    async with asyncio.timeout(DEADLINE_S):
        while not begun.exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(0.02)
    os.kill(master, signal.SIGKILL)
    tries = await running_
    assert [found.diagnosis.cause for found in tries] == [Cause.MASTER_DIED, Cause.OK]
    assert tries[0].stderr == b""
    assert tries[1].output == b"again\n"


# --- hostile commands -------------------------------------------------------------------------------------------------


async def test_a_command_that_hangs_is_ended_with_all_it_started_here(hub: HubSide, server: Sshd) -> None:
    found = await hub.run(server, "echo begun; sleep 1000", deadline_s=1.5)
    assert found.diagnosis.cause is Cause.DEADLINE
    assert found.output == b"begun\n"


@pytest.mark.parametrize("size_bytes", [200_000_000, pytest.param(1_000_000_000, marks=pytest.mark.long)])
async def test_a_flood_is_bounded_head_and_tail(hub: HubSide, server: Sshd, size_bytes: int) -> None:
    flood = f"echo head >&2; head -c {size_bytes} /dev/zero | tr '\\0' x >&2; echo tail >&2"
    found = await hub.run(server, flood, deadline_s=150.0)
    assert found.diagnosis.cause is Cause.OK
    assert found.stderr_bytes == size_bytes + len("head\n") + len("tail\n")
    assert len(found.stderr) < STDERR_BYTES_MAX + 100
    assert found.stderr.startswith(b"head\n")
    assert found.stderr.endswith(b"tail\n")
    assert b"bytes left out" in found.stderr


async def test_escapes_and_bad_unicode_are_kept_raw_and_shown_harmless(hub: HubSide, server: Sshd) -> None:
    found = await hub.run(server, r"printf '\033[2J\033]0;title\007\377\r\nline\b' >&2")
    assert b"\x1b[2J" in found.stderr
    text = shown(found.stderr)
    assert "\x1b" not in text
    assert "\\x1b[2J" in text
    assert "\\xff" in text
    assert text.isprintable() or set(text) - {"\n", "\t"} <= {char for char in text if char.isprintable()}


async def test_a_command_that_closes_its_output_and_stays_is_ended(hub: HubSide, server: Sshd) -> None:
    found = await hub.run(server, "exec >&- 2>&-; sleep 1000", deadline_s=1.5)
    assert found.diagnosis.cause is Cause.DEADLINE


async def test_an_account_without_a_shell(hub: HubSide, tmp_path: Path) -> None:
    async with running(tmp_path / "forced", "ForceCommand echo 'This account is currently not available.'") as server:
        hub.knows(server)
        server.authorize(hub.identity)
        found = await hub.run(server)
    assert found.diagnosis.cause is Cause.LOGIN_FORBIDDEN
    assert found.before == b"This account is currently not available.\n"


async def test_a_server_that_goes_away_in_mid_command(hub: HubSide, tmp_path: Path) -> None:
    async with running(tmp_path / "going") as server:
        hub.knows(server)
        server.authorize(hub.identity)
        client = hub.with_way(multiplexed=False)
        begun = tmp_path / "begun"
        running_ = asyncio.create_task(
            client.run(server.target, f"echo begun; touch {begun}; sleep 30", deadline_s=DEADLINE_S)
        )
        async with asyncio.timeout(DEADLINE_S):
            while not begun.exists():  # noqa: ASYNC110 - another process makes it
                await asyncio.sleep(0.02)
        server.stop()
        (found,) = await running_
    assert found.diagnosis.cause is Cause.CONNECTION_LOST, found.stderr
    assert found.output == b"begun\n"


async def test_through_a_jump_host_and_one_that_refuses(hub: HubSide, server: Sshd, tmp_path: Path) -> None:
    async with running(tmp_path / "jump") as jump:
        through = Target(server.target.host, server.port, server.target.user, (jump.target,))
        client: Client = hub.with_way(multiplexed=False)

        async def says(cause: Cause, words: bytes) -> None:
            (found,) = await client.run(through, "true", deadline_s=DEADLINE_S)
            assert found.diagnosis.cause is cause, found.stderr
            assert words in found.stderr

        await says(Cause.HOST_KEY_UNKNOWN, b"host key is known")
        hub.knows(jump)
        await says(Cause.JUMP_FAILED, b"Permission denied")
        jump.authorize(hub.identity)
        await says(Cause.OK, b"")
        server.stop()
        await says(Cause.JUMP_FAILED, b"Connection refused")


def test_the_way_is_a_value() -> None:
    assert Client(
        Way(identities=(), known_hosts=Path("/h"), runtime_dir=Path("/r")), SystemClock(), {}
    ).way.identities == ()  # fmt: skip
