"""Bodies about who may come in: people, browsers, tokens for programs, and the record of what they did."""

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from hub.access.passwords import CHARS_MAX, CHARS_MIN
from hub.access.records import ApiToken, AuditEntry, BrowserSession, User
from hub.access.roles import Identity, Role
from hub.access.roster import good
from hub.api.auth import CHANGE_HEADER
from hub.api.models import Request, UnixMs
from wire.jobs import Uuid

UserName = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=64,
        pattern="^[A-Za-z0-9][A-Za-z0-9._@+-]*$",
        description="letters, digits, dot, dash, underscore, at, plus",
    ),
]
Password = Annotated[str, Meta(min_length=CHARS_MIN, max_length=CHARS_MAX)]
Said = Annotated[str, Meta(max_length=CHARS_MAX)]
TOKEN_TTL_S_MAX = 5 * 366 * 24 * 3600


class Link(Struct, frozen=True):
    """An address that is good once; the secret stands behind its #."""

    url: str
    expires_at_ms: UnixMs


class LoginRequest(Request, frozen=True):
    """Name and password, or the code of a login link."""

    name: Annotated[str, Meta(max_length=64)] = ""
    password: Said = ""
    code: Annotated[str, Meta(max_length=128, description="what stands behind #/login/ in a login link")] = ""


class SetupRequest(Request, frozen=True):
    """An admin chooses name and password."""

    code: Annotated[str, Meta(max_length=128, description="what stands behind #/setup/ in a setup link")]
    name: UserName
    password: Password


class PasswordChange(Request, frozen=True):
    """Another password for oneself."""

    old: Said
    new: Password


class Me(Struct, frozen=True, kw_only=True):
    """Who asks, and what they may do."""

    name: str
    kind: Annotated[str, Meta(description="user, link (logged in by a one-time link), token, admin_token")]
    role: Annotated[str, Meta(description="viewer, operator or admin")]
    id: Annotated[str | None, Meta(description="of the user or token")]
    session: Annotated[str | None, Meta(description="id of the browser's session")]
    areas: Annotated[list[str], Meta(description="what a token is held to; empty for everything its role opens")]
    change_header: Annotated[str, Meta(description="a browser's changes need this header, with any value")]


def me(identity: Identity) -> Me:
    """Who asks."""
    return Me(
        name=identity.name,
        kind=identity.kind.value,
        role="" if identity.role is None else identity.role.value,
        id=identity.id or None,
        session=identity.session_id or None,
        areas=sorted(identity.areas),
        change_header=CHANGE_HEADER,
    )


class BrowserSessionView(Struct, frozen=True, kw_only=True):
    """A browser that is logged in."""

    id: Uuid
    opened_at_ms: UnixMs
    used_at_ms: UnixMs
    expires_at_ms: Annotated[UnixMs, Meta(description="at the latest; unused for long it ends before")]
    remote: str
    agent: Annotated[str, Meta(description="what the browser calls itself")]
    this: Annotated[bool, Meta(description="whether it is the one that asks")]


class BrowserSessions(Struct, frozen=True):
    """Sessions, newest first."""

    sessions: list[BrowserSessionView]


def session_view(session: BrowserSession, own: str = "") -> BrowserSessionView:
    """One session."""
    return BrowserSessionView(
        id=session.id,
        opened_at_ms=session.opened_at_ms,
        used_at_ms=session.used_at_ms,
        expires_at_ms=session.expires_at_ms,
        remote=session.remote,
        agent=session.agent,
        this=session.id == own,
    )


# --- people


class UserRequest(Request, frozen=True):
    """A new user."""

    name: UserName
    role: Role
    password: Password


class UserChange(Request, frozen=True):
    """What is to be different; what is left out stays."""

    role: Role | UnsetType = UNSET
    password: Password | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET


class UserView(Struct, frozen=True, kw_only=True):
    """A user."""

    id: Uuid
    name: str
    role: Role
    created_at_ms: UnixMs
    password_at_ms: UnixMs
    last_login_at_ms: UnixMs | None
    disabled_at_ms: UnixMs | None
    sessions: Annotated[int, Meta(description="open ones")]


class Users(Struct, frozen=True):
    """One page of users."""

    users: list[UserView]
    next: str | None


def user_view(user: User, sessions: int) -> UserView:
    """One user."""
    return UserView(
        id=user.id,
        name=user.name,
        role=user.role,
        created_at_ms=user.created_at_ms,
        password_at_ms=user.password_at_ms,
        last_login_at_ms=user.last_login_at_ms,
        disabled_at_ms=user.disabled_at_ms,
        sessions=sessions,
    )


# --- programs


class ApiTokenRequest(Request, frozen=True):
    """A token for a program."""

    name: Annotated[str, Meta(min_length=1, max_length=64, description="what it is for")]
    role: Role
    areas: Annotated[
        tuple[Annotated[str, Meta(max_length=32)], ...],
        Meta(max_length=32, description="what it is held to, by the tags of this document; empty for everything"),
    ] = ()
    ttl_s: Annotated[int, Meta(ge=60, le=TOKEN_TTL_S_MAX, description="for ever if left out")] | UnsetType = UNSET


class ApiTokenMade(Struct, frozen=True):
    """A new token, shown this once."""

    token: str
    id: Uuid
    expires_at_ms: UnixMs | None


class ApiTokenView(Struct, frozen=True, kw_only=True):
    """A token without its secret."""

    id: Uuid
    name: str
    role: Role
    areas: list[str]
    created_by: str
    created_at_ms: UnixMs
    expires_at_ms: UnixMs | None
    used_at_ms: UnixMs | None
    used_from: Annotated[str, Meta(description="the address it was last used from")]
    revoked_at_ms: UnixMs | None
    good: Annotated[bool, Meta(description="whether it opens anything now")]


class ApiTokens(Struct, frozen=True):
    """One page of tokens."""

    tokens: list[ApiTokenView]
    next: str | None


def token_view(token: ApiToken, now_ms: int) -> ApiTokenView:
    """One token."""
    return ApiTokenView(
        id=token.id,
        name=token.name,
        role=token.role,
        areas=list(token.areas),
        created_by=token.created_by,
        created_at_ms=token.created_at_ms,
        expires_at_ms=token.expires_at_ms,
        used_at_ms=token.used_at_ms,
        used_from=token.used_from,
        revoked_at_ms=token.revoked_at_ms,
        good=good(token, now_ms),
    )


# --- what was done


class AuditView(Struct, frozen=True, kw_only=True):
    """Somebody did something, or was refused."""

    id: Uuid
    time_ms: UnixMs
    who: str
    kind: Annotated[str, Meta(description="by what: user, link, token, admin_token, node, nobody")]
    role: str
    actor: Annotated[str | None, Meta(description="id of the user or token")]
    remote: str
    action: Annotated[str, Meta(description="method and pattern of the address")]
    what: Annotated[str, Meta(description="what that does")]
    target: Annotated[str, Meta(description="the address as it was asked for")]
    status: int
    refused: Annotated[str | None, Meta(description="why not: the problem's code; null for what was done")]
    detail: Annotated[Any, Meta(description="what was sent, without secrets, shortened")]


class Audit(Struct, frozen=True):
    """One page of entries, newest first."""

    entries: list[AuditView]
    next: str | None


def audit_view(entry: AuditEntry, what: str, detail: object) -> AuditView:
    """One entry."""
    return AuditView(
        id=entry.id,
        time_ms=entry.time_ms,
        who=entry.who,
        kind=entry.kind,
        role=entry.role,
        actor=entry.actor_id or None,
        remote=entry.remote,
        action=entry.action,
        what=what,
        target=entry.target,
        status=entry.status,
        refused=entry.code or None,
        detail=detail,
    )


class SettingView(Struct, frozen=True, kw_only=True):
    """One setting."""

    name: str
    variable: str
    value: str
    default: str
    source: Annotated[str, Meta(description="default, environment, or command line")]
    help: str


class Settings(Struct, frozen=True):
    """Every setting of the hub."""

    settings: list[SettingView]
