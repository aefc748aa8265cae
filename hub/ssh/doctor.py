"""Why a node's sshd does not take the hub's key: from what `hub.ssh.scripts.read_keys` printed to findings; pure.

To the client all of sshd's reasons look alike. Here, by another way in, they are told apart: each finding says what is
wrong, where, whether it alone keeps the hub out, and the exact repair. The rules are sshd's own: what it says in its
log stands last, as the witness of what it did.
"""

import base64
from collections.abc import Sequence

from msgspec import Struct

from hub.ssh import authorized, doctor_account, doctor_log
from hub.ssh.authorized import Entry, Fault, Reading
from hub.ssh.doctor_options import Seen, limit
from hub.ssh.doctor_sshd import Sshd, read_sshd
from hub.ssh.symptoms import Kind, Symptom

EVERYBODYS = "leave this folder, which is everybody's, as it is: name a file elsewhere as sshd's AuthorizedKeysFile"
OTHERS_WRITE = 0o022
GROUP_WRITES = 0o020
READABLE = 0o044
EVIDENCE_CHARS_MAX = 200


class Place(Struct, frozen=True, kw_only=True):
    """What was looked at."""

    path: str
    """The file that was read."""
    user: str
    home: str
    seen_from: str
    """The address the hub, or whoever looked for it, has for that sshd; empty if unknown."""


class Chart(Struct, frozen=True, kw_only=True):
    """What the doctor found out."""

    place: Place
    text: str
    """The file."""
    digest: str
    """Its SHA-256, or ``none`` without a file: guards the write that may follow."""
    lets_in: tuple[str, ...]
    """Those of the hub's keys, ``type body``, that stand on readable lines without a limit that shuts the hub out."""
    symptoms: tuple[Symptom, ...]
    """What keeps the hub out before what does not."""
    reads: str = ""
    """The file sshd reads instead of this one; empty when it is this one, or nobody could say."""

    @property
    def healthy(self) -> bool:
        """Whether nothing was found that keeps the hub out."""
        return not any(symptom.blocks for symptom in self.symptoms)


class Unreadable(ValueError):
    """What came back is not what the doctor's script prints."""


def examine(found: dict[str, str], publics: Sequence[str], now_s: float) -> Chart:
    """Everything wrong with the way in.

    Args:
        found: the script's sections.
        publics: the hub's public keys, ``type body comment``, each of which would do.
        now_s: Unix time.

    Raises:
        Unreadable: a section is missing or damaged.
    """
    where = found.get("where", "").splitlines()
    if len(where) < 3:  # noqa: PLR2004 - file, user, home
        raise Unreadable("the node did not say which file it looked at; see the whole output")
    place = Place(path=where[0], user=where[1], home=where[2], seen_from="".join(where[3:4]))
    seen = Seen(place.seen_from, now_s)
    try:
        text = base64.b64decode("".join(found.get("keys", "").split()), validate=True).decode(
            "utf-8", "surrogateescape"
        )
    except ValueError:
        raise Unreadable(f"the content of {place.path} did not arrive whole") from None
    if len(text) > authorized.FILE_BYTES_MAX:
        raise Unreadable(f"{place.path} has more than {authorized.FILE_BYTES_MAX} bytes")
    sshd = read_sshd(found.get("sshd", ""))
    reading = authorized.read(text)
    wanted = tuple(" ".join(public.split()[:2]) for public in publics)
    symptoms = [
        *_file(place, reading, text, wanted, seen),
        *_modes(place, found.get("modes", ""), strict=sshd.strict_modes),
        *sshd.symptoms(place.user, place.path, place.home, _groups(found), wanted),
        *doctor_account.symptoms(found.get("account", ""), place.user, now_s, use_pam=sshd.use_pam),
        *doctor_log.symptoms(found.get("sshd_log", ""), place.user, place.seen_from),
    ]
    symptoms.sort(key=lambda symptom: not symptom.blocks)
    inside = tuple(key for key in wanted if any(_lets_in(entry, key, seen) for entry in reading.entries))
    return Chart(
        place=place,
        text=text,
        digest=found.get("sum", "").strip() or "none",
        lets_in=inside,
        symptoms=tuple(symptoms),
        reads=_other_file(sshd, place),
    )


def _groups(found: dict[str, str]) -> tuple[str, ...]:
    line = next((line for line in found.get("account", "").splitlines() if line.startswith("groups ")), "")
    return tuple(line.split()[1:])


def _other_file(sshd: Sshd, place: Place) -> str:
    files = sshd.files(place.user, place.home)
    return "" if not files or place.path in files else files[0]


# --- the file


def _lets_in(entry: Entry, key: str, seen: Seen) -> bool:
    """Whether a line surely does not shut this key of the hub's out."""
    if entry.key != key:
        return False
    symptom = limit(entry.options, seen, "")
    return symptom is None or not symptom.blocks


def _file(place: Place, reading: Reading, text: str, wanted: Sequence[str], seen: Seen) -> list[Symptom]:
    found = _faults(place, reading, text, wanted)
    entries = [entry for entry in reading.entries if entry.key in wanted]
    for entry in entries:
        symptom = limit(entry.options, seen, f"{place.path} line {entry.line}")
        # sshd tries every line: one without a limit makes up for the others.
        if symptom is not None and not any(other.key == entry.key and not other.options for other in entries):
            found.append(symptom)
    if not entries and not any(symptom.blocks for symptom in found):
        found.append(
            Symptom(
                kind=Kind.KEY_ABSENT,
                what="the hub's key is not in the file" if text else "the file does not exist, or is empty",
                where=place.path,
                repair="append the hub's key on a line of its own",
                installer=True,
                blocks=True,
            )
        )
    return found


_REPAIRS = {
    Fault.FUSED: (Kind.FUSED, "put each key on a line of its own"),
    Fault.UNREADABLE: (Kind.UNREADABLE_LINE, "take the line out, or write the whole key anew"),
    Fault.WRAPPED: (Kind.WRAPPED, "join its parts to one line"),
    Fault.CRLF: (Kind.CRLF, "write plain line ends"),
    Fault.OLD_TYPE: (Kind.OLD_TYPE, "replace the key by an Ed25519 one"),
    Fault.NO_FINAL_NEWLINE: (Kind.NO_FINAL_NEWLINE, "end the last line"),
}
_BY_INSTALLER = frozenset({Fault.FUSED, Fault.WRAPPED, Fault.CRLF, Fault.NO_FINAL_NEWLINE})


def _faults(place: Place, reading: Reading, text: str, wanted: Sequence[str]) -> list[Symptom]:
    """The file's faults. One keeps the hub out if mending it would let the hub's key in, and no line does now."""
    inside = {entry.key for entry in reading.entries} & set(wanted)
    hidden = set(wanted) & {entry.key for entry in authorized.read(authorized.mended(text)).entries}
    lines = text.replace("\r\n", "\n").split("\n")
    found = []
    for fault in reading.findings:
        if fault.fault not in _REPAIRS:
            continue
        kind, repair = _REPAIRS[fault.fault]
        line = _joined(lines, fault.line) if fault.line else ""
        ours = any(key.split()[1] in line for key in hidden)
        found.append(
            Symptom(
                kind=kind,
                what=fault.detail + ("; the hub's key is on it" if ours else ""),
                where=f"{place.path} line {fault.line}" if fault.line else place.path,
                repair=repair,
                installer=fault.fault in _BY_INSTALLER,
                blocks=ours and not inside,
                evidence=_short(line),
            )
        )
    return found


def _joined(lines: Sequence[str], number: int) -> str:
    """A line and, were it the first part of a wrapped key, the rest of that."""
    rest = []
    for line in lines[number:]:
        if not line.strip() or line.startswith(("#", "ssh-", "ecdsa-", "sk-")):
            break
        rest.append(line.strip())
    return lines[number - 1] + "".join(rest)


def _short(line: str) -> str:
    return line if len(line) <= EVIDENCE_CHARS_MAX else f"{line[: EVIDENCE_CHARS_MAX // 2]} ... {line[-60:]}"


# --- modes and owners


def _modes(place: Place, section: str, *, strict: bool) -> list[Symptom]:
    """What StrictModes objects to.

    The file and every folder up to the home directory, or to the root where the file lies outside of it, belong to the
    user or to root, and nobody else may write them.
    """
    *rows, last = section.splitlines() or [""]
    uid, _, gid = last.partition(" ")
    found = []
    for row in rows:
        mode, owner, group, path = (*row.split(" ", 3), "", "", "")[:4]
        if wrong := _owner(place, row, mode, owner, uid, path, strict=strict):
            found.append(wrong)
        if bits(mode) & OTHERS_WRITE:
            # Debian's sshd forgives a group that is the user's own; others do not.
            forgiven = bits(mode) & OTHERS_WRITE == GROUP_WRITES and group == gid and gid == uid != "0"
            everybodys = mode[9:10] in {"t", "T"}
            found.append(
                Symptom(
                    kind=Kind.MODES,
                    what=f"others may write it (mode {bits(mode):04o}): sshd then takes no key from it"
                    + (", except Debian's where the group is the user's own" if forgiven else ""),
                    where=path,
                    repair=EVERYBODYS if everybodys else f"chmod go-w {path}",
                    installer=not everybodys and path in {place.path, place.path.rpartition("/")[0], place.home},
                    blocks=strict and not forgiven,
                    evidence=row,
                )
            )
        if place.home and path == place.home:
            break
    return found


def _owner(place: Place, row: str, mode: str, owner: str, uid: str, path: str, *, strict: bool) -> Symptom | None:
    """What is wrong with who owns a path."""
    if owner not in {"0", uid}:
        what, blocks = f"it belongs to user {owner}, not to {place.user} or root", strict
    elif owner == "0" != uid and mode.startswith("-") and not bits(mode) & READABLE:
        what, blocks = f"it belongs to root and {place.user} may not read it: sshd reads it as that user", True
    else:
        return None
    repair = f"chown {place.user} {path}"
    return Symptom(kind=Kind.OWNER, what=what, where=path, repair=repair, blocks=blocks, evidence=row)


def bits(mode: str) -> int:
    """``drwxrwxr-x`` as a number. A sticky folder counts as what it is: sshd does not forgive it."""
    number = 0
    for letter, bit in zip(mode[1:10], range(8, -1, -1), strict=False):
        if letter not in "-ST":
            number |= 1 << bit
    return number
