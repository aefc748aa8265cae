"""Enrolment: a one-time token and our public key in, an agent id and the hub's pinned key out.

Idempotent: the enrolment id is made here and saved before the first request, so that a lost answer costs nothing. The
hub is believed only if its key has the token's fingerprint and signed the answer.
"""

import base64
import binascii
import hashlib
import ssl
import uuid
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from agent.backoff import Fault, Kind, tls_fault
from agent.config import HubUrl, parse_hub
from agent.durable import write_file
from agent.errors import AgentError, ConfigFault
from agent.hub_http import HttpClient
from agent.identity import Enrolled, Key, verify
from wire.jobs import Name, Sha256, Uuid

TOKEN_PREFIX = "pw1."  # noqa: S105 - the public first letters of every token
TOKEN_BYTES_MAX = 4096
ANSWER_BYTES_MAX = 64 * 1024
REQUEST_CONTEXT = b"provewire enroll v1\0"
ANSWER_CONTEXT = b"provewire enrolled v1\0"
HTTP_OK = frozenset({200, 201})
HTTP_SERVER_ERROR = 500
HTTP_TOO_MANY = 429

Hex32 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
Hex64 = Annotated[str, Meta(pattern="^[0-9a-f]{128}$")]


class Token(Struct, frozen=True, rename={"url": "u", "fingerprint": "f", "secret": "s"}):
    """What an enrolment token carries. Never logged."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)]
    fingerprint: Sha256
    secret: Annotated[str, Meta(min_length=1, max_length=1024)]


class Answer(Struct, frozen=True):
    """The hub's 201."""

    agent_id: Uuid
    hub_id: Uuid
    hub_key: Hex32
    signature: Hex64


class Problem(Struct, frozen=True):
    """An RFC 9457 body, as far as it matters here."""

    code: Name = "unknown"
    detail: Annotated[str, Meta(max_length=2048)] = ""
    title: Annotated[str, Meta(max_length=512)] = ""


class Pending(Struct, frozen=True):
    """An enrolment begun: repeated under the same id until it is answered."""

    enrollment_id: Uuid
    secret_sha256: Sha256


class EnrolRefused(AgentError):
    """No identity this time; ``fault`` says why and how soon to try again."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(fault.detail)


def parse_token(text: str, source: str) -> Token:
    """The token in ``text``.

    Raises:
        ConfigFault: it is not a token; nothing of it is repeated in the sentence.
    """
    text = text.strip()
    problem = f"{source} holds no enrolment token (one line, made by `provewire enroll` at the hub)"
    if not text.startswith(TOKEN_PREFIX) or len(text) > TOKEN_BYTES_MAX:
        raise ConfigFault(problem)
    body = text.removeprefix(TOKEN_PREFIX)
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(raw, type=Token)
    except (binascii.Error, ValueError):
        raise ConfigFault(f"{problem}: it is cut off or was changed") from None


def read_token(path: Path) -> Token:
    """The token in a file.

    Raises:
        ConfigFault: the file cannot be read or holds no token.
    """
    try:
        with path.open("rb") as file:
            raw = file.read(TOKEN_BYTES_MAX + 2)
    except OSError as error:
        raise ConfigFault(f"--token-file {path} cannot be read: {error.strerror or error}") from None
    return parse_token(raw.decode("utf-8", "replace"), f"--token-file {path}")


def enrollment_id_for(data_dir: Path, token: Token) -> str:
    """The id of the enrolment with this token: the one begun before, else a new one, saved before it is used.

    Raises:
        OSError: it cannot be saved.
    """
    path = data_dir / "enrollment.json"
    digest = hashlib.sha256(token.secret.encode()).hexdigest()
    try:
        pending = msgspec.json.decode(path.read_bytes(), type=Pending)
        if pending.secret_sha256 == digest:
            return pending.enrollment_id
    except (OSError, ValueError):
        pass  # none begun, or a damaged record of one: a new id costs at most one use of the token
    pending = Pending(enrollment_id=str(uuid.uuid4()), secret_sha256=digest)
    write_file(path, msgspec.json.encode(pending))
    return pending.enrollment_id


def hub_of(token: Token, configured: HubUrl | None, *, insecure: bool) -> HubUrl:
    """Where to enrol: the configured hub, else the one the token names.

    Raises:
        ConfigFault: the token's address cannot be used.
    """
    return configured or parse_hub(token.url, insecure=insecure, source="the hub's address in the token")


async def enrol(client: HttpClient, *, hub: HubUrl, token: Token, enrollment_id: str, key: Key, name: str) -> Enrolled:
    """Ask the hub once.

    Raises:
        EnrolRefused: not this time, with the reason.
    """
    signature = key.sign(REQUEST_CONTEXT + enrollment_id.encode() + key.public)
    body = {
        "secret": token.secret,
        "enrollment_id": enrollment_id,
        "public_key": key.public.hex(),
        "name": name,
        "signature": signature.hex(),
    }
    try:
        status, raw = await client.post_json(f"{hub.base}/api/v1/enroll", msgspec.json.encode(body), ANSWER_BYTES_MAX)
    except OSError as error:
        raise EnrolRefused(_unreachable(error)) from error
    if status not in HTTP_OK:
        raise EnrolRefused(_refusal(status, raw))
    return _checked(raw, hub=hub, token=token, enrollment_id=enrollment_id, key=key)


def _unreachable(error: OSError) -> Fault:
    if isinstance(error, TimeoutError):
        return Fault(Kind.UNREACHABLE, "timeout", "the hub did not answer the enrolment in time")
    if isinstance(error, ssl.SSLError):
        return tls_fault(error)
    return Fault(Kind.UNREACHABLE, "network", f"the hub cannot be reached to enrol: {error}")


def _refusal(status: int, raw: bytes) -> Fault:
    try:
        problem = msgspec.json.decode(raw, type=Problem)
    except ValueError:
        problem = Problem()
    said = problem.detail or problem.title or "it gave no reason"
    if status >= HTTP_SERVER_ERROR or status == HTTP_TOO_MANY:
        return Fault(
            Kind.UNREACHABLE, f"http_{status}", f"the hub could not enrol this node now (HTTP {status}): {said}"
        )
    return Fault(
        Kind.REFUSED,
        f"enrol_{problem.code}",
        f"the hub refused the enrolment (HTTP {status}, {problem.code}): {said}; put a fresh token into the token file",
    )


def _checked(raw: bytes, *, hub: HubUrl, token: Token, enrollment_id: str, key: Key) -> Enrolled:
    try:
        answer = msgspec.json.decode(raw, type=Answer)
    except ValueError as error:
        raise EnrolRefused(
            Fault(Kind.REFUSED, "enrol_malformed", f"what answered the enrolment is no hub of ours: {error}")
        ) from None
    hub_key = bytes.fromhex(answer.hub_key)
    if hashlib.sha256(hub_key).hexdigest() != token.fingerprint:
        raise EnrolRefused(
            Fault(
                Kind.REFUSED,
                "enrol_wrong_hub",
                "the hub that answered has another key than the token names; check --hub",
            )
        )
    message = ANSWER_CONTEXT + enrollment_id.encode() + answer.agent_id.encode() + key.public
    if not verify(hub_key, message, bytes.fromhex(answer.signature)):
        raise EnrolRefused(
            Fault(Kind.REFUSED, "enrol_bad_signature", "the answer to the enrolment is not signed by the hub's key")
        )
    return Enrolled(agent_id=answer.agent_id, hub_id=answer.hub_id, hub_key=answer.hub_key, hub_url=hub.base)
