"""What may be wrong with a way in at the node's end, as the doctor says it."""

from enum import StrEnum

from msgspec import Struct


class Kind(StrEnum):
    """Every named finding."""

    KEY_ABSENT = "key_absent"
    FUSED = "fused"
    UNREADABLE_LINE = "unreadable_line"
    WRAPPED = "wrapped"
    CRLF = "crlf"
    OLD_TYPE = "old_type"
    NO_FINAL_NEWLINE = "no_final_newline"
    FROM = "from"
    COMMAND = "command"
    EXPIRED = "expired"
    CERTIFICATES_ONLY = "certificates_only"
    MODES = "modes"
    OWNER = "owner"
    OTHER_FILE = "other_file"
    NO_KEYS_AT_ALL = "no_keys_at_all"
    USER_NOT_ALLOWED = "user_not_allowed"
    GROUP_NOT_ALLOWED = "group_not_allowed"
    ROOT_NOT_ALLOWED = "root_not_allowed"
    KEY_TYPE_NOT_TAKEN = "key_type_not_taken"
    MORE_THAN_A_KEY = "more_than_a_key"
    LOCKED = "locked"
    ACCOUNT_EXPIRED = "account_expired"
    NO_SHELL = "no_shell"
    NOLOGIN = "nologin"
    NO_SUCH_USER = "no_such_user"
    TOO_MANY_AT_ONCE = "too_many_at_once"
    SAID_BY_SSHD = "said_by_sshd"


class Symptom(Struct, frozen=True, kw_only=True):
    """One thing that is wrong, and what mends it."""

    kind: Kind
    what: str
    where: str
    """A path, with the line where it has one; or whose configuration it is."""
    repair: str
    """The exact command or change."""
    installer: bool = False
    """`hub.ssh.keys` can make it, after a preview."""
    blocks: bool = False
    """It alone keeps the hub out."""
    evidence: str = ""
    """The line that shows it."""
