"""What of the user's account at the node keeps the hub out; pure."""

from hub.ssh.symptoms import Kind, Symptom

ROOT = "root"
SECONDS_A_DAY = 86_400
NO_LOGIN_SHELLS = frozenset({"nologin", "false", "sync", "shutdown", "halt"})


def symptoms(section: str, user: str, now_s: float, *, use_pam: bool) -> list[Symptom]:
    """From the section ``account``: lines of a word and its value."""
    said = dict(line.partition(" ")[::2] for line in section.splitlines())
    found = [*_shell(said, user), *_locked(said, user, use_pam=use_pam)]
    expires = said.get("expires", "").strip()
    if expires.isascii() and expires.isdigit() and int(expires) * SECONDS_A_DAY <= now_s:
        found.append(
            Symptom(
                kind=Kind.ACCOUNT_EXPIRED,
                what=f"the account of {user} has expired",
                where="/etc/shadow",
                repair=f"chage -E -1 {user}",
                blocks=True,
                evidence=f"expires on day {expires} since 1970",
            )
        )
    if "nologin" in said:
        found.append(
            Symptom(
                kind=Kind.NOLOGIN,
                what="/etc/nologin is there: nobody but root may log in",
                where="/etc/nologin",
                repair="rm /etc/nologin",
                blocks=user != ROOT,
                evidence=said["nologin"],
            )
        )
    return found


def _shell(said: dict[str, str], user: str) -> list[Symptom]:
    shell = said.get("shell", "").strip()
    if not shell and "shell" in said and not said.get("groups", "").strip():
        return [
            Symptom(
                kind=Kind.NO_SUCH_USER,
                what=f"there is no user {user}",
                where="/etc/passwd",
                repair=f"useradd -m {user}, or correct the user of the target",
                blocks=True,
            )
        ]
    if "shell_missing" in said and shell:
        what = f"the shell of {user}, {shell}, does not exist or cannot be executed"
    elif shell.rpartition("/")[2] in NO_LOGIN_SHELLS:
        what = f"{user} has no shell: {shell} ends every login"
    else:
        return []
    return [
        Symptom(
            kind=Kind.NO_SHELL,
            what=what,
            where="/etc/passwd",
            repair=f"chsh -s /bin/sh {user}",
            blocks=True,
            evidence=shell,
        )
    ]


def _locked(said: dict[str, str], user: str, *, use_pam: bool) -> list[Symptom]:
    """A password that begins with ``!`` locks; sshd heeds it only where PAM is not asked.

    What a node's ``passwd -S`` calls locked may also be ``*``, which sshd does not mind.
    """
    begins = said.get("shadow", "").strip()
    state = said.get("password", "").strip()
    if begins not in {"", "!"} or (not begins and state not in {"L", "LK"}):
        return []
    sure = begins == "!"
    return [
        Symptom(
            kind=Kind.LOCKED,
            what=f"the account of {user} {'is' if sure else 'may be'} locked"
            + ("; with UsePAM yes its keys work nevertheless" if use_pam else ""),
            where="/etc/shadow",
            repair=f"usermod -p '*' {user}",
            blocks=sure and not use_pam,
            evidence=f"the password begins with {begins}" if sure else f"passwd -S says {state}",
        )
    ]
