"""What sshd's configuration says of who may come in, and by which file; from ``sshd -T`` or the file itself; pure."""

import fnmatch
from collections.abc import Sequence

from msgspec import Struct

from hub.ssh.symptoms import Kind, Symptom

WHERE = "sshd's configuration"
THEN = "then reload sshd (`systemctl reload ssh`, or kill -HUP of its process)"
ROOT = "root"


class Sshd(Struct, frozen=True):
    """Its settings, as far as the node could tell; a keyword may stand on several lines."""

    values: dict[str, tuple[str, ...]]

    def first(self, keyword: str, default: str = "") -> str:
        """The first value: for most keywords the one that counts."""
        return self.values.get(keyword, (default,))[0]

    def words(self, keyword: str) -> list[str]:
        """All words of all lines of it."""
        return [word for line in self.values.get(keyword, ()) for word in line.split()]

    @property
    def strict_modes(self) -> bool:
        """Whether it looks at modes and owners."""
        return self.first("strictmodes", "yes").lower() != "no"

    @property
    def use_pam(self) -> bool:
        """Whether PAM decides about locked and expired accounts."""
        return self.first("usepam", "yes").lower() == "yes"

    def files(self, user: str, home: str) -> list[str]:
        """The authorized_keys files it reads for a user; empty when nothing is known, or there are none."""
        line = self.first("authorizedkeysfile")
        found = []
        for word in line.split():
            if word.lower() == "none":
                continue
            path = word.replace("%%", "\0").replace("%h", home).replace("%u", user).replace("\0", "%")
            found.append(path if path.startswith("/") else f"{home}/{path}")
        return found

    def symptoms(self, user: str, path: str, home: str, groups: Sequence[str], wanted: Sequence[str]) -> list[Symptom]:
        """What of it keeps the hub out.

        Args:
            user: who logs in.
            path: the file that was read.
            home: the user's.
            groups: the user's.
            wanted: the hub's keys, ``type body``.
        """
        return [*self._file(user, path, home), *self._keys(wanted), *self._people(user, groups)]

    def _file(self, user: str, path: str, home: str) -> list[Symptom]:
        files = self.files(user, home)
        if path in files or not self.first("authorizedkeysfile"):
            return []
        line = f"authorizedkeysfile {self.first('authorizedkeysfile')}"
        if not files:
            repair = f"AuthorizedKeysFile .ssh/authorized_keys; {THEN}"
            return [_blocks(Kind.NO_KEYS_AT_ALL, "sshd reads no authorized_keys file", repair, line)]
        return [
            Symptom(
                kind=Kind.OTHER_FILE,
                what=f"sshd reads {' and '.join(files)}, not {path}",
                where=WHERE,
                repair=f"put the hub's key into {files[0]}",
                installer=True,
                blocks=True,
                evidence=line,
            )
        ]

    def _keys(self, wanted: Sequence[str]) -> list[Symptom]:
        if self.first("pubkeyauthentication", "yes").lower() == "no":
            what = "it takes no keys at all"
            return [_blocks(Kind.NO_KEYS_AT_ALL, what, f"PubkeyAuthentication yes; {THEN}", "pubkeyauthentication no")]
        found = []
        taken = self.first("pubkeyacceptedalgorithms") or self.first("pubkeyacceptedkeytypes")
        kinds = {key.split()[0] for key in wanted}
        if taken and taken[0] not in "+-^" and kinds and not any(_takes(taken, kind) for kind in kinds):
            named = ", ".join(sorted(kinds))
            found.append(
                _blocks(
                    Kind.KEY_TYPE_NOT_TAKEN,
                    f"it takes no key of the hub's type ({named})",
                    f"PubkeyAcceptedAlgorithms +{named}; {THEN}",
                    f"pubkeyacceptedalgorithms {taken}",
                )
            )
        methods = self.first("authenticationmethods", "any")
        if methods != "any" and "publickey" not in methods.split():
            found.append(
                _blocks(
                    Kind.MORE_THAN_A_KEY,
                    "it wants more than a key",
                    f"AuthenticationMethods publickey; {THEN}",
                    f"authenticationmethods {methods}",
                )
            )
        if (command := self.first("forcecommand", "none")) != "none":
            found.append(
                _blocks(
                    Kind.COMMAND,
                    "it runs one command of its own, whatever the hub asks for",
                    f"take ForceCommand away for this user; {THEN}",
                    f"forcecommand {command}",
                )
            )
        return found

    def _people(self, user: str, groups: Sequence[str]) -> list[Symptom]:
        found = []
        denied, allowed = self.words("denyusers"), self.words("allowusers")
        if _matches(user, denied):
            found.append(
                _blocks(
                    Kind.USER_NOT_ALLOWED,
                    f"{user} is listed in DenyUsers",
                    f"take {user} out of DenyUsers; {THEN}",
                    f"denyusers {' '.join(denied)}",
                )
            )
        if allowed and not _matches(user, allowed):
            found.append(
                _blocks(
                    Kind.USER_NOT_ALLOWED,
                    f"{user} is not listed in AllowUsers",
                    f"AllowUsers {' '.join([*allowed, user])}; {THEN}",
                    f"allowusers {' '.join(allowed)}",
                )
            )
        denied, allowed = self.words("denygroups"), self.words("allowgroups")
        if any(_matches(group, denied) for group in groups):
            found.append(
                _blocks(
                    Kind.GROUP_NOT_ALLOWED,
                    f"a group of {user} is listed in DenyGroups",
                    f"take the group out of DenyGroups; {THEN}",
                    f"denygroups {' '.join(denied)}",
                )
            )
        if allowed and groups and not any(_matches(group, allowed) for group in groups):
            found.append(
                _blocks(
                    Kind.GROUP_NOT_ALLOWED,
                    f"no group of {user} is listed in AllowGroups",
                    f"AllowGroups {' '.join([*allowed, groups[0]])}; {THEN}",
                    f"allowgroups {' '.join(allowed)}",
                )
            )
        root = self.first("permitrootlogin", "prohibit-password").lower()
        if user == ROOT and root in {"no", "forced-commands-only"}:
            found.append(
                _blocks(
                    Kind.ROOT_NOT_ALLOWED,
                    "root may not log in" if root == "no" else "root may only run commands that keys force",
                    f"PermitRootLogin prohibit-password; {THEN}",
                    f"permitrootlogin {root}",
                )
            )
        return found


def read_sshd(text: str) -> Sshd:
    """The settings in what the node printed."""
    values: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        keyword, _, value = line.strip().partition(" ")
        values[keyword.lower()] = (*values.get(keyword.lower(), ()), value.strip())
    return Sshd(values)


def _takes(algorithms: str, kind: str) -> bool:
    """Whether a list of algorithms has one for a type of key: RSA's are named by their hash."""
    names = ("rsa-sha2-512", "rsa-sha2-256", kind) if kind == "ssh-rsa" else (kind,)
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in algorithms.split(",") for name in names)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """As sshd's lists: a pattern may name a host too, which is not judged here; a negated one that fits wins."""
    fits = False
    for pattern in patterns:
        who = pattern.removeprefix("!").rpartition("@")[0] or pattern.removeprefix("!")
        if fnmatch.fnmatchcase(name, who):
            if pattern.startswith("!"):
                return False
            fits = True
    return fits


def _blocks(kind: Kind, what: str, repair: str, evidence: str) -> Symptom:
    return Symptom(kind=kind, what=what, where=WHERE, repair=repair, blocks=True, evidence=evidence)
