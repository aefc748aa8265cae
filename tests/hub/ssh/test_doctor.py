"""The doctor: every reason by a table, and those a real sshd can be made to have, on one."""

import base64
import getpass
import hashlib
import os
import shlex
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hub.ssh.cause import Cause
from hub.ssh.doctor import Chart, Unreadable, bits, examine
from hub.ssh.scripts import read_keys, sections
from hub.ssh.symptoms import Kind, Symptom
from hub.ssh.targets import Target
from tests.hub.ssh.sshd import DEADLINE_S, HubSide, Sshd, make_key, needs_sshd, running
from tests.hub.ssh.test_authorized import ED, HUB, OTHER
from tests.wire.strategies import patiently

NOW_S = 1_796_000_000.0
HOME = "/home/u"
FILE = f"{HOME}/.ssh/authorized_keys"
MODES = (
    f"-rw------- 1000 1000 {FILE}\ndrwx------ 1000 1000 {HOME}/.ssh\ndrwxr-xr-x 1000 1000 {HOME}\n"
    "drwxr-xr-x 0 0 /home\ndrwxr-xr-x 0 0 /\n1000 1000"
)
ACCOUNT = "shell /bin/bash\npassword P\nshadow $\nexpires \ngroups u wheel"
SSHD = "authorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2\nstrictmodes yes\nusepam no"


def chart(text: str = f"{HUB}\n", user: str = "u", **changed: str) -> Chart:
    found = {
        "where": f"{FILE}\n{user}\n{HOME}\n10.0.0.9",
        "modes": MODES,
        "sum": hashlib.sha256(text.encode()).hexdigest(),
        "keys": base64.b64encode(text.encode()).decode(),
        "sshd": SSHD,
        "sshd_log": "",
        "account": ACCOUNT,
    } | changed
    return examine(found, [HUB], NOW_S)


def blocking(found: Chart) -> list[Kind]:
    return [symptom.kind for symptom in found.symptoms if symptom.blocks]


def only(found: Chart, kind: Kind) -> Symptom:
    [symptom] = [symptom for symptom in found.symptoms if symptom.kind is kind]
    return symptom


def test_a_good_way_in_has_no_finding() -> None:
    found = chart()
    assert found.symptoms == ()
    assert found.lets_in == (OTHER,)
    assert found.healthy


FILES: dict[str, tuple[str, Kind, bool, bool]] = {
    "no file": ("", Kind.KEY_ABSENT, True, True),
    "absent": (f"{ED} somebody\n", Kind.KEY_ABSENT, True, True),
    "fused as a comment": (f"{ED} root@vm{HUB}\n", Kind.FUSED, True, True),
    "fused without a comment": (f"{ED}{HUB}\n", Kind.FUSED, True, True),
    "fused elsewhere": (f"{ED} a{ED}\n{HUB}\n", Kind.FUSED, False, True),
    "wrapped": (f"{OTHER[:50]}\n{OTHER[50:]} hub\n", Kind.WRAPPED, True, True),
    "windows": (f"{ED}\r\n{HUB}\r\n", Kind.CRLF, False, True),
    "cut off elsewhere": (f"{ED[:50]}\n{HUB}\n", Kind.UNREADABLE_LINE, False, False),
    "no end": (HUB, Kind.NO_FINAL_NEWLINE, False, True),
    "from another": (f'from="192.0.2.0/24" {HUB}\n', Kind.FROM, True, False),
    "from not the hub": (f'from="!10.0.0.9,10.0.0.*" {HUB}\n', Kind.FROM, True, False),
    "from by name": (f'from="*.example.org" {HUB}\n', Kind.FROM, False, False),
    "forced command": (f'no-pty,command="backup, now" {HUB}\n', Kind.COMMAND, True, False),
    "expired": (f'expiry-time="20200101" {HUB}\n', Kind.EXPIRED, True, False),
    "certificates": (f"cert-authority {HUB}\n", Kind.CERTIFICATES_ONLY, True, False),
}


@pytest.mark.parametrize("name", FILES)
def test_what_is_wrong_with_the_file(name: str) -> None:
    text, kind, blocks, installer = FILES[name]
    found = chart(text)
    symptom = only(found, kind)
    assert (symptom.blocks, symptom.installer) == (blocks, installer)
    assert symptom.repair
    assert symptom.where.startswith(FILE)
    assert found.healthy is not blocks
    assert (found.lets_in == ()) is blocks


@pytest.mark.parametrize(
    "text",
    [
        f'from="10.0.0.0/8" {HUB}\n',
        f'from="10.0.0.?" {HUB}\n',
        f'expiry-time="20990101" {HUB}\n',
        f"restrict,pty {HUB}\n",
        f'from="192.0.2.1" {HUB}\n{HUB}\n',
    ],
)
def test_options_that_do_not_matter_are_no_finding(text: str) -> None:
    assert chart(text).symptoms == ()


def test_a_fused_line_is_told_with_its_number_and_its_text() -> None:
    symptom = only(chart(f"# keys\n{ED} root@vm{HUB}\n"), Kind.FUSED)
    assert symptom.where == f"{FILE} line 2"
    assert symptom.evidence.startswith("ssh-ed25519 AAAA")
    assert "the hub's key is on it" in symptom.what


MODE_ROWS = {
    "file": (f"-rw------- 1000 1000 {FILE}", f"-rw-rw-r-- 1000 50 {FILE}", Kind.MODES, FILE, True),
    "folder": (
        f"drwx------ 1000 1000 {HOME}/.ssh",
        f"drwxrwxrwx 1000 1000 {HOME}/.ssh",
        Kind.MODES,
        f"{HOME}/.ssh",
        True,
    ),
    "home": (f"drwxr-xr-x 1000 1000 {HOME}\n", f"drwxrwxr-x 1000 50 {HOME}\n", Kind.MODES, HOME, True),
    "owner": (
        f"drwx------ 1000 1000 {HOME}/.ssh",
        f"drwx------ 1001 1000 {HOME}/.ssh",
        Kind.OWNER,
        f"{HOME}/.ssh",
        False,
    ),
    "root's and closed": (f"-rw------- 1000 1000 {FILE}", f"-rw------- 0 0 {FILE}", Kind.OWNER, FILE, False),
}


@pytest.mark.parametrize("name", MODE_ROWS)
def test_modes_and_owners_sshd_objects_to(name: str) -> None:
    good, bad, kind, where, installer = MODE_ROWS[name]
    found = chart(modes=MODES.replace(good, bad))
    symptom = only(found, kind)
    assert (symptom.where, symptom.blocks, symptom.installer) == (where, True, installer)
    assert symptom.repair.endswith(f" {where}")


def test_debian_forgives_a_group_of_the_users_own() -> None:
    found = chart(modes=MODES.replace(f"drwxr-xr-x 1000 1000 {HOME}\n", f"drwxrwxr-x 1000 1000 {HOME}\n"))
    symptom = only(found, Kind.MODES)
    assert not symptom.blocks
    assert symptom.installer
    assert "Debian" in symptom.what


def test_modes_above_the_home_do_not_matter_unless_the_file_lies_outside() -> None:
    above = MODES.replace("drwxr-xr-x 0 0 /home", "drwxrwxrwt 0 0 /home")
    assert chart(modes=above).symptoms == ()
    outside = "-rw-r--r-- 0 0 /data/k/u\ndrwxr-xr-x 0 0 /data/k\ndrwxrwxr-x 0 0 /data\ndrwxr-xr-x 0 0 /\n1000 1000"
    found = chart(modes=outside, where=f"/data/k/u\nu\n{HOME}\n", sshd="authorizedkeysfile /data/k/%u\nstrictmodes yes")
    assert (only(found, Kind.MODES).where, only(found, Kind.MODES).installer) == ("/data", False)
    assert chart(modes=outside, where=f"/data/k/u\nu\n{HOME}\n", sshd="strictmodes no").healthy


def test_a_folder_that_is_everybodys_is_not_to_be_shut() -> None:
    outside = "-rw------- 1000 1000 /open/keys\ndrwxrwxrwt 0 0 /open\ndrwxr-xr-x 0 0 /\n1000 1000"
    sshd = "authorizedkeysfile /open/keys\nstrictmodes yes"
    found = chart(modes=outside, where=f"/open/keys\nu\n{HOME}\n", sshd=sshd)
    symptom = only(found, Kind.MODES)
    assert (symptom.where, symptom.blocks, symptom.installer) == ("/open", True, False)
    assert "chmod" not in symptom.repair


def test_a_mode_is_read_as_a_number() -> None:
    assert [bits(mode) for mode in ("-rw-r--r--", "drwxrwxrwt", "drwxr-sr-x.", "drwx-----T")] == [
        0o644,
        0o777,
        0o755,
        0o700,
    ]


CONFIGURATIONS = {
    "other file": ("authorizedkeysfile /etc/ssh/keys/%u", Kind.OTHER_FILE, "/etc/ssh/keys/u"),
    "no file": ("authorizedkeysfile none", Kind.NO_KEYS_AT_ALL, "AuthorizedKeysFile"),
    "no keys": ("pubkeyauthentication no", Kind.NO_KEYS_AT_ALL, "PubkeyAuthentication yes"),
    "denied user": ("denyusers x u@10.0.0.*", Kind.USER_NOT_ALLOWED, "DenyUsers"),
    "not allowed user": ("allowusers root\nallowusers admin", Kind.USER_NOT_ALLOWED, "AllowUsers root admin u"),
    "denied group": ("denygroups wheel", Kind.GROUP_NOT_ALLOWED, "DenyGroups"),
    "not allowed group": ("allowgroups ssh", Kind.GROUP_NOT_ALLOWED, "AllowGroups ssh u"),
    "types": ("pubkeyacceptedalgorithms rsa-sha2-*,ssh-rsa", Kind.KEY_TYPE_NOT_TAKEN, "+ssh-ed25519"),
    "two factors": ("authenticationmethods publickey,password", Kind.MORE_THAN_A_KEY, "publickey"),
    "forced": ("forcecommand internal-sftp", Kind.COMMAND, "ForceCommand"),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_what_is_wrong_with_sshds_configuration(name: str) -> None:
    lines, kind, repair = CONFIGURATIONS[name]
    found = chart(sshd=lines)
    symptom = only(found, kind)
    assert symptom.blocks
    assert repair in symptom.repair
    assert symptom.evidence.split()[0] == lines.split()[0]
    assert found.reads == ("/etc/ssh/keys/u" if kind is Kind.OTHER_FILE else "")


@pytest.mark.parametrize(
    "lines",
    [
        "allowusers u\nallowgroups wheel\nauthorizedkeysfile %h/.ssh/authorized_keys\nforcecommand none",
        "denyusers !u *",
        "pubkeyacceptedalgorithms ssh-ed25519-cert-v01@openssh.com,ssh-*",
        "permitrootlogin no",
        "",
    ],
)
def test_configurations_that_let_the_user_in_are_no_finding(lines: str) -> None:
    assert chart(sshd=lines).symptoms == ()


def test_root_is_let_in_only_where_it_is_permitted() -> None:
    for value in ("no", "forced-commands-only"):
        assert only(chart(user="root", sshd=f"permitrootlogin {value}"), Kind.ROOT_NOT_ALLOWED).blocks
    assert chart(user="root", sshd="permitrootlogin without-password").healthy


ACCOUNTS = {
    "locked": ("shell /bin/sh\npassword L\nshadow !\ngroups u", "usepam no", Kind.LOCKED, True),
    "locked with PAM": ("shell /bin/sh\npassword L\nshadow !\ngroups u", "usepam yes", Kind.LOCKED, False),
    "perhaps locked": ("shell /bin/sh\npassword LK\ngroups u", "usepam no", Kind.LOCKED, False),
    "no shell": ("shell /usr/sbin/nologin\ngroups u", "", Kind.NO_SHELL, True),
    "shell gone": ("shell /bin/zsh\nshell_missing\ngroups u", "", Kind.NO_SHELL, True),
    "expired": ("shell /bin/sh\nexpires 10\ngroups u", "", Kind.ACCOUNT_EXPIRED, True),
    "nologin": ("shell /bin/sh\ngroups u\nnologin maintenance until noon", "", Kind.NOLOGIN, True),
    "no such user": ("shell \nshell_missing\npassword \ngroups ", "", Kind.NO_SUCH_USER, True),
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_what_is_wrong_with_the_account(name: str) -> None:
    account, sshd, kind, blocks = ACCOUNTS[name]
    symptom = only(chart(account=account, sshd=sshd), kind)
    assert symptom.blocks is blocks
    assert symptom.repair


def test_a_password_that_only_cannot_be_typed_locks_nobody_out() -> None:
    assert chart(account="shell /bin/sh\npassword L\nshadow *\ngroups u").symptoms == ()
    assert chart(account="shell /bin/sh\nnologin x\ngroups root", user="root").healthy


LINES = {
    "Invalid user u from 10.0.0.9 port 4": Kind.NO_SUCH_USER,
    "User u not allowed because account is locked": Kind.LOCKED,
    "User u not allowed because shell /bin/nope does not exist": Kind.NO_SHELL,
    "User u from 10.0.0.9 not allowed because listed in DenyUsers": Kind.USER_NOT_ALLOWED,
    "User u from 10.0.0.9 not allowed because not listed in AllowUsers": Kind.USER_NOT_ALLOWED,
    "User u from 10.0.0.9 not allowed because not in any group": Kind.GROUP_NOT_ALLOWED,
    "User u from 10.0.0.9 not allowed because none of user's groups are listed in AllowGroups": Kind.GROUP_NOT_ALLOWED,
    "User u not allowed because /etc/nologin exists": Kind.NOLOGIN,
    f"Authentication refused: bad ownership or modes for directory {HOME}/.ssh": Kind.MODES,
    "Authentication tried for u with correct key but not from a permitted host (host=h, ip=10.0.0.9)": Kind.FROM,
    "Refused by key options": Kind.EXPIRED,
    "drop connection #1 from [10.0.0.9]:4 on [10.0.0.1]:22 past MaxStartups": Kind.TOO_MANY_AT_ONCE,
    "Failed publickey for u from 10.0.0.9 port 4 ssh2: ED25519 SHA256:abc": Kind.SAID_BY_SSHD,
}


@pytest.mark.parametrize("line", LINES)
def test_what_sshd_said(line: str) -> None:
    symptom = only(chart(sshd_log=f"sshd[7]: {line}\n"), LINES[line])
    assert line in symptom.evidence
    assert symptom.repair


def test_other_peoples_tries_are_no_finding_of_ours() -> None:
    log = "Invalid user admin from 203.0.113.7 port 9\nFailed publickey for root from 203.0.113.7 port 9 ssh2\n"
    assert chart(sshd_log=log).symptoms == ()


@pytest.mark.parametrize("damage", [{"where": ""}, {"keys": "%%%"}])
def test_what_did_not_arrive_whole_is_said(damage: dict[str, str]) -> None:
    with pytest.raises(Unreadable):
        chart(**damage)


WORDS = st.sampled_from(
    [
        *(
            "authorizedkeysfile",
            "%h %u %%",
            "none",
            "allowusers",
            "!",
            "@",
            "*",
            "[",
            "denygroups",
            "yes",
            "²",
            "expires",
        ),
        *(
            "expires",
            "shadow",
            "!",
            "L",
            "groups",
            "drwxrwxrwt 0 0 /",
            "-rw 1",
            "\x1b[2J",
            "\udcff",
            "Invalid user",
            "u",
            "{}",
        ),
        *(ED, HUB, 'from="!10.0.0.0/8', 'expiry-time="99999999"', "command=", "\n", " ", "\r\n", "# "),
    ]
)


@patiently(300)
@given(
    st.dictionaries(
        st.sampled_from(["where", "modes", "sum", "sshd", "sshd_log", "account", "keys"]),
        st.lists(WORDS, max_size=12).map("".join),
    ),
    st.lists(WORDS, max_size=12).map("".join),
)
def test_whatever_a_node_says_is_a_chart_or_unreadable(sections: dict[str, str], text: str) -> None:
    encoded = base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()
    for changed in (sections, {"keys": encoded, **sections}):
        try:
            found = chart(**changed)
        except Unreadable:
            continue
        assert all(symptom.repair and symptom.what for symptom in found.symptoms)


def test_a_line_of_hundreds_of_keys_a_longer_one_and_a_file_too_large() -> None:
    found = chart((ED + " a") * 700 + HUB)
    assert only(found, Kind.FUSED).blocks
    found = chart((ED + " a") * 9000 + HUB)
    assert blocking(found) == [Kind.KEY_ABSENT]
    with pytest.raises(Unreadable, match="more than"):
        chart("#" * (1024 * 1024 + 1))


# --- on a real sshd


class Ward:
    """A sshd with a key of somebody's that always gets in, beside the file under test, and a home of the test's own."""

    def __init__(self, folder: Path) -> None:
        self.hub = HubSide(folder, multiplexed=False)
        self.public = self.hub.identity.with_suffix(".pub").read_text().strip()
        self.via = make_key(folder / "via")
        self.home = folder / "home"
        self.file = self.home / ".ssh" / "authorized_keys"
        self.file.parent.mkdir(parents=True, mode=0o700)
        self.others = folder / "others"
        self.others.write_text(self.via.with_suffix(".pub").read_text())
        self.others.chmod(0o600)

    def write(self, text: str) -> None:
        self.file.write_text(text)
        self.file.chmod(0o600)

    async def examined(self, server: Sshd, user: str = "") -> Chart:
        """First the hub is refused, as its log then says; then the doctor looks by the other key."""
        self.hub.known_hosts.write_text(server.known_hosts_line)
        script = read_keys(str(self.file), user)
        looked = await self.hub.with_way(identities=(self.via,)).run(server.target, script, deadline_s=DEADLINE_S)
        assert looked[-1].diagnosis.cause is Cause.OK, looked[-1].stderr
        return examine(sections(looked[-1].output.decode()), [self.public], NOW_S)

    async def refused(self, server: Sshd) -> bool:
        self.hub.known_hosts.write_text(server.known_hosts_line)
        return (await self.hub.run(server)).diagnosis.cause in {Cause.IDENTITY_REFUSED, Cause.CONNECTION_LOST}


async def _told(tmp_path: Path, ward: Ward, kind: Kind, *config: str) -> Chart:
    files = f"AuthorizedKeysFile {ward.others} {ward.file}"
    async with running(tmp_path / "s", *(config or (files,))) as server:
        assert await ward.refused(server)
        found = await ward.examined(server)
    assert kind in blocking(found), found.symptoms
    return found


@needs_sshd
@pytest.mark.parametrize("name", ["absent", "fused", "glued", "wrapped", "from", "expired"])
async def test_a_real_sshd_refuses_and_the_doctor_says_why(tmp_path: Path, name: str) -> None:
    ward = Ward(tmp_path)
    kind, body, _ = ward.public.split()
    text, expected = {
        "absent": (f"{ED} other\n", Kind.KEY_ABSENT),
        "fused": (f"{ED} root@vm{ward.public}\n", Kind.FUSED),
        "glued": (f"{ED}{ward.public}\n", Kind.FUSED),
        "wrapped": (f"{kind} {body[:30]}\n{body[30:]} hub\n", Kind.WRAPPED),
        "from": (f'from="192.0.2.7" {ward.public}\n', Kind.FROM),
        "expired": (f'expiry-time="20200101" {ward.public}\n', Kind.EXPIRED),
    }[name]
    ward.write(text)
    found = await _told(tmp_path, ward, expected)
    assert found.text == text
    assert found.place.seen_from == "127.0.0.1"
    said = [symptom for symptom in found.symptoms if symptom.where == "sshd's log"]
    assert said, "sshd's own log was not found"
    assert getpass.getuser() in said[0].evidence or "options" in said[0].evidence


@needs_sshd
async def test_a_real_sshd_that_reads_another_file(tmp_path: Path) -> None:
    ward = Ward(tmp_path)
    ward.write(f"{ward.public}\n")
    found = await _told(tmp_path, ward, Kind.OTHER_FILE, f"AuthorizedKeysFile {ward.others}")
    assert found.reads == str(ward.others)


@needs_sshd
async def test_a_real_sshd_that_does_not_look_at_modes(tmp_path: Path) -> None:
    ward = Ward(tmp_path)
    ward.write(f"{ward.public}\n")
    ward.file.parent.chmod(0o777)
    async with running(tmp_path / "s", f"AuthorizedKeysFile {ward.others} {ward.file}") as server:
        assert not await ward.refused(server)
        found = await ward.examined(server)
    assert found.healthy
    assert str(ward.file.parent) in {symptom.where for symptom in found.symptoms if symptom.kind is Kind.MODES}


# --- accounts of the test's own: an sshd in a mount namespace with an /etc of its own


class Cell:
    """A copy of ``/etc`` with users of the test's own, and their homes, over the real ones in a mount namespace."""

    def __init__(self, folder: Path) -> None:
        self.etc = folder / "etc"
        shutil.copytree("/etc", self.etc, symlinks=True, ignore=shutil.ignore_patterns("ssl"))
        self.homes = folder / "homes"
        self.homes.mkdir()

    def add(self, user: str, number: int, *, shell: str = "/bin/sh", expires: str = "", shadow: str = "*") -> Path:
        """A user; their home."""
        home = self.homes / user
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        inside = f"/home/{user}"
        for name, line in (
            ("passwd", f"{user}:x:{number}:{number}::{inside}:{shell}"),
            ("group", f"{user}:x:{number}:"),
            ("shadow", f"{user}:{shadow}:19000:0:99999:7::{expires}:"),
        ):
            with (self.etc / name).open("a") as file:
                file.write(f"{line}\n")
        for path in (home, home / ".ssh"):
            os.chown(path, number, number)
        return home

    @property
    def around(self) -> tuple[str, ...]:
        """What stands before sshd's own command."""
        etc, homes = shlex.quote(str(self.etc)), shlex.quote(str(self.homes))
        command = f'mount --bind {etc} /etc && mount --bind {homes} /home && exec "$@"'
        return ("unshare", "--mount", "sh", "-c", command, "sh")


def may_make_a_cell() -> bool:
    tried = subprocess.run(
        ["unshare", "--mount", "mount", "--bind", "/etc", "/etc"], capture_output=True, check=False, timeout=10
    )
    return tried.returncode == 0


needs_cell = pytest.mark.skipif(
    os.geteuid() != 0 or not may_make_a_cell(), reason="only root may give an sshd an /etc of its own"
)

REASONS: dict[str, tuple[Kind, dict[str, str], tuple[str, ...]]] = {
    "locked": (Kind.LOCKED, {"shadow": "!"}, ()),
    "no shell": (Kind.NO_SHELL, {"shell": "/bin/nope"}, ()),
    "expired": (Kind.ACCOUNT_EXPIRED, {"expires": "10"}, ()),
    "deny user": (Kind.USER_NOT_ALLOWED, {}, ("DenyUsers prover",)),
    "allow user": (Kind.USER_NOT_ALLOWED, {}, ("AllowUsers root",)),
    "deny group": (Kind.GROUP_NOT_ALLOWED, {}, ("DenyGroups prover",)),
    "allow group": (Kind.GROUP_NOT_ALLOWED, {}, ("AllowGroups root",)),
    "modes": (Kind.MODES, {}, ()),
    "home": (Kind.MODES, {}, ()),
    "owner": (Kind.OWNER, {}, ()),
    "two factors": (
        Kind.MORE_THAN_A_KEY,
        {},
        ("Match User prover", "  PasswordAuthentication yes", "  AuthenticationMethods publickey,password"),
    ),
    "no keys": (Kind.NO_KEYS_AT_ALL, {}, ("Match User prover", "  PubkeyAuthentication no")),
    "nologin": (Kind.NOLOGIN, {}, ()),
}


@needs_sshd
@needs_cell
@pytest.mark.parametrize("name", REASONS)
async def test_an_account_a_real_sshd_keeps_out(tmp_path: Path, name: str) -> None:
    kind, changes, config = REASONS[name]
    cell, hub = Cell(tmp_path / "cell"), HubSide(tmp_path, multiplexed=False)
    home = cell.add("prover", 4242, **changes)
    public = hub.identity.with_suffix(".pub").read_text().strip()
    file = home / ".ssh" / "authorized_keys"
    file.write_text(f"{public}\n")
    os.chown(file, 4242, 4242)
    file.chmod(0o600)
    _spoil(name, home, cell)
    root_key = make_key(tmp_path / "root")
    roots = cell.etc / "ssh" / "root_keys"
    roots.write_text(root_key.with_suffix(".pub").read_text())
    match = tuple(line for line in config if line.startswith(("Match", " ")))
    settings = (
        *(line for line in config if line not in match),
        "StrictModes yes",
        "AuthorizedKeysFile .ssh/authorized_keys",
    )
    ending = (*match, "Match User root", "  AuthorizedKeysFile /etc/ssh/root_keys")
    roots.chmod(0o600)
    async with running(tmp_path / "s", *settings, around=cell.around, ending=ending) as server:
        hub.knows(server)
        target = Target("127.0.0.1", server.port, "prover")
        assert (await hub.run(target)).diagnosis.cause is not Cause.OK
        looked = await hub.with_way(identities=(root_key,)).run(
            server.target, read_keys("", "prover"), deadline_s=DEADLINE_S
        )
    assert looked[-1].diagnosis.cause is Cause.OK, server.log.read_text()
    found = examine(sections(looked[-1].output.decode()), [public], time.time())
    assert found.place.path == "/home/prover/.ssh/authorized_keys"
    assert kind in blocking(found), (found.symptoms, server.log.read_text())


def _spoil(name: str, home: Path, cell: Cell) -> None:
    if name == "modes":
        (home / ".ssh").chmod(0o777)
    elif name == "home":
        home.chmod(0o777)
    elif name == "owner":
        os.chown(home / ".ssh", 4243, 4242)
        (home / ".ssh").chmod(0o755)
    elif name == "nologin":
        (cell.etc / "nologin").write_text("maintenance until noon\n")


@needs_sshd
@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
async def test_root_kept_out_by_a_real_sshd(tmp_path: Path) -> None:
    """The doctor comes in by an account that may: here the very one, once root may only run forced commands."""
    ward = Ward(tmp_path)
    ward.write(f"{ward.public}\n")
    ward.others.write_text(f'command="sh -c \\"$SSH_ORIGINAL_COMMAND\\"" {ward.others.read_text()}')
    config = (f"AuthorizedKeysFile {ward.others} {ward.file}", "PermitRootLogin forced-commands-only")
    found = await _told(tmp_path, ward, Kind.ROOT_NOT_ALLOWED, *config)
    assert found.place.user == "root"
