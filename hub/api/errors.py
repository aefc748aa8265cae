"""The one envelope of every error: application/problem+json (RFC 9457).

It has `type`, `title`, `status`, `detail` and `code`. `code` is what programs tell errors apart by: a word for what
HTTP refused, or the exit code (2 malformed, 3 does not belong together) that `provewire prove` ends with for the same
file, whose sentence `detail` then is.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus

import msgspec
import structlog
from aiohttp import hdrs, web

from hub.faults import FAULTS
from hub.store.base import StoreError

log = structlog.get_logger(__name__)

CONTENT_TYPE = "application/problem+json"
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Candidate(msgspec.Struct, frozen=True):
    """One of those that could be meant."""

    id: str
    name: str


class ProblemBody(msgspec.Struct, frozen=True, rename={"type_": "type"}):
    """What goes over the line."""

    type_: str
    title: str
    status: int
    detail: str
    code: str | int
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET
    """Those that could be meant, where a beginning of an id or a name is several'."""


class Problem(Exception):
    """A request is refused.

    Args:
        status: the HTTP status.
        code: the word, or the file's exit code, that tells it apart.
        detail: one sentence naming what is wrong and what to do; shown to the client, so nothing secret.
        headers: of the answer, for example ``Retry-After``.
        candidates: those that could be meant.
    """

    def __init__(
        self,
        status: int,
        code: str | int,
        detail: str,
        headers: Mapping[str, str] | None = None,
        candidates: Sequence[Candidate] = (),
    ) -> None:
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})
        self.candidates = tuple(candidates)
        super().__init__(status, code, detail)

    def __str__(self) -> str:
        return f"{self.status} {self.code}: {self.detail}"

    def response(self) -> web.Response:
        """As the answer to the request."""
        body = ProblemBody(
            type_=f"urn:provewire:problem:{FILE_PROBLEMS.get(self.code, self.code)}",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            detail=self.detail,
            code=self.code,
            candidates=list(self.candidates) or msgspec.UNSET,
        )
        return web.Response(
            status=self.status, headers=self.headers, body=msgspec.json.encode(body), content_type=CONTENT_TYPE
        )


FILE_PROBLEMS: Mapping[str | int, str] = {2: "malformed-file", 3: "mismatch"}
"""The two exit codes that stand for a file's fault, and their names in `type`."""


def not_found(what: str, name: str) -> Problem:
    """404 for one thing asked for by name."""
    return Problem(HTTPStatus.NOT_FOUND, "not_found", f"there is no {what} {shortened(name)}")


def shortened(text: str, chars_max: int = 80) -> str:
    """A client's own string, quoted and cut, fit for a sentence about it."""
    return repr(text if len(text) <= chars_max else f"{text[:chars_max]}...")


def _from_http(error: web.HTTPException) -> Problem:
    """Aiohttp's own refusals, in the same envelope."""
    headers: dict[str, str] = {
        name: error.headers[name] for name in (hdrs.ALLOW, hdrs.LOCATION) if name in error.headers
    }
    sentences = {
        HTTPStatus.NOT_FOUND: ("not_found", "there is nothing at this address; /api/v1/openapi.json lists what is"),
        HTTPStatus.METHOD_NOT_ALLOWED: (
            "method_not_allowed",
            f"this address answers {headers.get(hdrs.ALLOW, 'other methods')} only",
        ),
        HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("body_too_large", "the request's body is larger than this address takes"),
        HTTPStatus.EXPECTATION_FAILED: ("expectation_failed", "of Expect only 100-continue is known here"),
    }
    code, detail = sentences.get(HTTPStatus(error.status), (f"http_{error.status}", error.reason))
    return Problem(error.status, code, detail, headers)


@web.middleware
async def problems(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever ends a request early into the envelope. The outermost line of every request."""
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except web.HTTPException as error:
        if error.status < HTTPStatus.BAD_REQUEST:
            raise
        return _from_http(error).response()
    except TimeoutError:
        return Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "deadline",
            "the hub did not finish this request within its deadline; try again",
            {hdrs.RETRY_AFTER: "5"},
        ).response()
    except StoreError as error:
        # Not in the answer: SQLAlchemy's text holds the statement's values.
        log.error("request failed for want of the store", route=_route_name(request), kind=type(error).__name__)  # noqa: TRY400 - told by the store
        return Problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "store_unavailable",
            "the hub's store cannot be read or written (disk full or damaged?); its log has the cause",
            {hdrs.RETRY_AFTER: "10"},
        ).response()
    except (asyncio.CancelledError, ConnectionError):
        raise
    except Exception:
        FAULTS.count("request")
        log.exception("request failed", method=request.method, route=_route_name(request))
        return Problem(
            HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the hub failed at this request; its log has the cause"
        ).response()


def _route_name(request: web.Request) -> str:
    """The route's pattern: a path could hold what does not belong in a log."""
    resource = request.match_info.route.resource
    return "unknown" if resource is None else resource.canonical
