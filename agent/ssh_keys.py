"""The hub's SSH key, let in on this node because its own operator said so: appended, and nothing else is touched.

The key gets a line of its own whatever the file ended with; the file is replaced whole or not at all, a copy of the old
one stays, and the modes lose what sshd objects to. Every step is taken from an open folder that belongs to the user, so
that nobody on this node can lead an agent that runs as root to another file.
"""

import base64
import binascii
import os
import pwd
import re
import secrets
import stat
import time

FILE = "authorized_keys"
FOLDER = ".ssh"
FILE_BYTES_MAX = 1024 * 1024
KEY_CHARS_MAX = 1024
TYPES = frozenset(
    {
        "ssh-ed25519",
        "sk-ssh-ed25519@openssh.com",
        "ecdsa-sha2-nistp256",
        "ecdsa-sha2-nistp384",
        "ecdsa-sha2-nistp521",
        "sk-ecdsa-sha2-nistp256@openssh.com",
        "ssh-rsa",
    }
)
OTHERS_WRITE = 0o022
_BEGIN = re.compile(r"(?<![^ \t])(?:sk-)?(?:ssh|ecdsa)-[a-z0-9@.-]+(?=[ \t])")
_BODY = re.compile(r"[A-Za-z0-9+/]+={0,2}")


class KeyNotInstalled(Exception):
    """The key was not let in, and nothing was changed; the sentence says why."""


def install(user: str, public: str) -> str:
    """Let a key in as ``user``; what was done, in a sentence. Doing it twice is harmless. Blocks.

    Raises:
        KeyNotInstalled: it is no key, or this agent may not write that user's file, or it is not as it should be.
    """
    key = checked(public)
    try:
        account = pwd.getpwnam(user)
    except (KeyError, ValueError):
        raise KeyNotInstalled(f"there is no user {user!r} on this node") from None
    if os.geteuid() not in {0, account.pw_uid}:
        raise KeyNotInstalled(f"the agent runs as user {os.geteuid()} and may not write the keys of {user}")
    try:
        home = os.open(account.pw_dir, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise KeyNotInstalled(f"the home of {user}, {account.pw_dir}, cannot be opened: {error.strerror}") from error
    try:
        return _within(home, account, key)
    except OSError as error:
        raise KeyNotInstalled(f"{account.pw_dir}/{FOLDER}/{FILE}: {error.strerror}; nothing was changed") from error
    finally:
        os.close(home)


def checked(public: str) -> str:
    """A public key as one line.

    Raises:
        KeyNotInstalled: it is none.
    """
    line = public.strip()
    words = line.split()
    good = len(words) > 1 and line.isascii() and line.isprintable() and len(line) <= KEY_CHARS_MAX
    if not good or words[0] not in TYPES or not _names_itself(words[0], words[1]):
        raise KeyNotInstalled("the hub sent no public key of the form `ssh-ed25519 AAAA... comment`")
    return line


def _names_itself(kind: str, body: str) -> bool:
    try:
        inside = base64.b64decode(body, validate=True) if _BODY.fullmatch(body) else b""
    except binascii.Error:
        return False
    size = int.from_bytes(inside[:4], "big")
    return 0 < size <= len(inside) - 4 and inside[4 : 4 + size] == kind.encode("ascii")


def with_key(text: str, key: str) -> str:
    """The file with the key on a line of its own at the end; unchanged where a line holds it already."""
    wanted = key.split()[:2]
    if any(_key_of(line) == wanted for line in text.split("\n")):
        return text
    end = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{end}{key}\n"


def _key_of(line: str) -> list[str]:
    """Type and body of the key sshd reads on a line: the first that is not within an option's quotes."""
    bare = line.strip()
    if bare.startswith("#"):
        return []
    for match in _BEGIN.finditer(bare):
        if bare[: match.start()].count('"') % 2 == 0:
            return bare[match.start() :].split()[:2]
    return []


def _within(home: int, account: pwd.struct_passwd, key: str) -> str:
    folder = _folder(home, account)
    try:
        before = _read(folder, account)
        text = "" if before is None else before.decode("utf-8", "surrogateescape")
        after = with_key(text, key)
        path = f"{account.pw_dir}/{FOLDER}/{FILE}"
        if before is not None and after == text:
            os.chmod(FILE, 0o600, dir_fd=folder)
            return f"{path} has the key already"
        copy = ""
        if before is not None:
            copy = f"{FILE}.before-provewire-{time.strftime('%Y%m%d%H%M%S')}-{secrets.token_hex(2)}"
            _write(folder, copy, before, account)
        _write(folder, FILE, after.encode("utf-8", "surrogateescape"), account)
        return f"the key was appended to {path}" + (f"; {copy} beside it is as it was" if copy else "")
    finally:
        os.close(folder)


def _folder(home: int, account: pwd.struct_passwd) -> int:
    """The open ``.ssh`` folder, made if it is missing; both belong to the user and nobody else may write them."""
    _close_to_others(home, account, account.pw_dir)
    try:
        os.mkdir(FOLDER, 0o700, dir_fd=home)
    except FileExistsError:
        pass
    else:
        os.chown(FOLDER, account.pw_uid, account.pw_gid, dir_fd=home, follow_symlinks=False)
    folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=home)
    try:
        _close_to_others(folder, account, f"{account.pw_dir}/{FOLDER}")
    except BaseException:
        os.close(folder)
        raise
    return folder


def _close_to_others(descriptor: int, account: pwd.struct_passwd, path: str) -> None:
    state = os.fstat(descriptor)
    if state.st_uid != account.pw_uid:
        raise KeyNotInstalled(f"{path} does not belong to {account.pw_name}; nothing was changed")
    if state.st_mode & OTHERS_WRITE:
        os.fchmod(descriptor, stat.S_IMODE(state.st_mode) & ~OTHERS_WRITE)


def _read(folder: int, account: pwd.struct_passwd) -> bytes | None:
    try:
        descriptor = os.open(FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or state.st_uid not in {0, account.pw_uid}:
            raise KeyNotInstalled(f"{FILE} of {account.pw_name} is no file of theirs; nothing was changed")
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise KeyNotInstalled(f"{FILE} of {account.pw_name} has more than {FILE_BYTES_MAX} bytes; nothing was changed")
    return data


def _write(folder: int, name: str, data: bytes, account: pwd.struct_passwd) -> None:
    temporary = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if os.geteuid() == 0:
                os.fchown(descriptor, account.pw_uid, account.pw_gid)
            os.fsync(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)
