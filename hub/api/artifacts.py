"""Artifacts over HTTP: uploads under their own digest, downloads with Range, both as streams with deadlines."""

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from aiohttp import hdrs, web
from msgspec import Struct

from hub import artifacts, ports
from hub.access.roles import Kind
from hub.api import models
from hub.api.auth import ARTIFACT_ROUTE, IDENTITY, too_many
from hub.api.errors import Problem, not_found
from hub.api.route import BINARY, PAGE_PARAMETERS, Answer, Parameter, Route, answer, cut_page, read_page, send
from hub.store.records import Artifact
from wire.jobs import Sha256

STALL_S = 30.0
"""A client that sends or takes nothing for this long is given up."""
UPLOADS_MAX = 16
DOWNLOADS_MAX = 4
"""At once with one fetch token: an agent needs one, and each holds a descriptor for as long as its reader likes."""
CHUNK_BYTES = 256 * 1024
RANGE = re.compile(r"bytes=(\d{0,19})-(\d{0,19})")
UPLOADS = web.AppKey("UPLOADS", asyncio.Semaphore)
DOWNLOADS = web.AppKey("DOWNLOADS", Counter[str])
"""Fetch tokens with downloads under way, and how many."""

STATUS_OF = {
    artifacts.InvalidDigest: (HTTPStatus.UNPROCESSABLE_ENTITY, "invalid"),
    artifacts.DigestMismatch: (HTTPStatus.UNPROCESSABLE_ENTITY, "digest_mismatch"),
    artifacts.Incomplete: (HTTPStatus.BAD_REQUEST, "incomplete"),
    artifacts.ArtifactTooLarge: (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body_too_large"),
    artifacts.StoreFull: (HTTPStatus.INSUFFICIENT_STORAGE, "store_full"),
}


def refused(error: artifacts.ArtifactError) -> Problem:
    """An artifact's refusal as an answer."""
    status, code = STATUS_OF[type(error)]
    return Problem(status, code, str(error))


async def put_artifact(request: web.Request) -> web.Response:
    """Take an upload. Sending what is here already is harmless."""
    sha256 = request.match_info["sha256"]
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity") != "identity":
        raise Problem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "encoded", "send the file as it is, without Content-Encoding")
    uploads = request.app[UPLOADS]
    if uploads.locked():
        raise Problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "busy", f"{UPLOADS_MAX} uploads run already", {hdrs.RETRY_AFTER: "5"}
        )
    async with uploads:
        try:
            stored = await request.app[ports.ARTIFACTS].put(
                sha256, _chunks(request), announced_bytes=request.content_length
            )
        except artifacts.ArtifactError as error:
            raise refused(error) from error
    row = Artifact(sha256=sha256, bytes_=stored.bytes_, created_at_ms=request.app[ports.CLOCK].time_ms())
    await request.app[ports.STORE].add_artifact(row)
    return answer(
        models.ArtifactView(sha256, stored.bytes_), status=HTTPStatus.CREATED if stored.created else HTTPStatus.OK
    )


async def _chunks(request: web.Request) -> AsyncIterator[bytes]:
    """The body as it comes, each piece within `STALL_S`."""
    while True:
        try:
            async with asyncio.timeout(STALL_S):
                chunk = await request.content.readany()
        except TimeoutError:
            raise Problem(
                HTTPStatus.REQUEST_TIMEOUT, "stalled", f"nothing came for {STALL_S:g} s; send it again"
            ) from None
        if not chunk:
            return
        yield chunk


class ArtifactRow(Struct, frozen=True):
    """A stored file, in a list."""

    sha256: Sha256
    bytes: int
    created_at_ms: int


class ArtifactList(Struct, frozen=True):
    """One page of files, by digest."""

    artifacts: list[ArtifactRow]
    next: str | None


async def list_artifacts(request: web.Request) -> web.Response:
    """All files, by digest."""
    limit, after = read_page(request)
    rows = await request.app[ports.STORE].artifacts(after=after, limit=limit + 1)
    page, cursor = cut_page(rows, limit, lambda row: row.sha256)
    return answer(ArtifactList([ArtifactRow(row.sha256, row.bytes_, row.created_at_ms) for row in page], cursor))


async def get_artifact(request: web.Request) -> web.StreamResponse:
    """Send an artifact, or a range of it. Its digest is its ETag, so that it never changes."""
    sha256 = request.match_info["sha256"]
    store = request.app[ports.ARTIFACTS]
    try:
        path, size = store.path(sha256), store.size_bytes(sha256)
    except artifacts.InvalidDigest as error:
        raise refused(error) from error
    if size is None:
        raise not_found("artifact", sha256)
    etag = f'"{sha256}"'
    headers = {
        hdrs.ETAG: etag,
        hdrs.ACCEPT_RANGES: "bytes",
        hdrs.CACHE_CONTROL: "private, max-age=31536000, immutable",
        hdrs.CONTENT_DISPOSITION: f'attachment; filename="{sha256}"',
    }
    if _matches(request.headers.get(hdrs.IF_NONE_MATCH), etag):
        return web.Response(status=HTTPStatus.NOT_MODIFIED, headers=headers)
    begin, end = 0, size
    status = HTTPStatus.OK
    if (part := _range(request, etag, size)) is not None:
        begin, end = part
        status = HTTPStatus.PARTIAL_CONTENT
        headers[hdrs.CONTENT_RANGE] = f"bytes {begin}-{end - 1}/{size}"
    response = web.StreamResponse(status=status, headers=headers)
    response.content_type = BINARY
    response.content_length = end - begin
    await response.prepare(request)
    if request.method != hdrs.METH_HEAD:
        await _send(request, response, path, begin, end)
    await response.write_eof()
    return response


async def get_in_turn(request: web.Request) -> web.StreamResponse:
    """`get_artifact`; for a node, only so many at once."""
    if request[IDENTITY].kind is not Kind.NODE:
        return await get_artifact(request)
    downloads, token = request.app[DOWNLOADS], request.headers[hdrs.AUTHORIZATION]
    if downloads[token] >= DOWNLOADS_MAX:
        raise too_many(1.0, f"{DOWNLOADS_MAX} downloads run with this fetch token already")
    downloads[token] += 1
    try:
        return await get_artifact(request)
    finally:
        downloads[token] -= 1
        if not downloads[token]:
            del downloads[token]


def _matches(header: str | None, etag: str) -> bool:
    return header is not None and any(tag.strip().removeprefix("W/") in {etag, "*"} for tag in header.split(","))


def _range(request: web.Request, etag: str, size: int) -> tuple[int, int] | None:
    """The half-open byte range asked for; None for all of it: no range, several, or of another version.

    Raises:
        Problem: 416 for a range outside the artifact.
    """
    header = request.headers.get(hdrs.RANGE)
    if header is None or request.headers.get(hdrs.IF_RANGE) not in {None, etag}:
        return None
    match = RANGE.fullmatch(header.replace(" ", ""))
    if match is None or match.group(1, 2) == ("", ""):
        return None  # RFC 9110 14.2: what is not understood is ignored
    first, last = match.groups()
    if first:
        begin, end = int(first), min(size, int(last) + 1) if last else size
    else:
        begin, end = max(0, size - int(last)), size
    if begin >= end or (first and last and int(last) < int(first)):
        raise Problem(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            "range_outside",
            f"the artifact has {size} bytes; the range asked for is outside of it",
            {hdrs.CONTENT_RANGE: f"bytes */{size}"},
        )
    return begin, end


async def _send(request: web.Request, response: web.StreamResponse, path: Path, begin: int, end: int) -> None:
    """Write ``begin`` up to ``end`` of a file, each piece within `STALL_S`."""
    file = await asyncio.to_thread(_open_at, path, begin)
    try:
        left = end - begin
        while left > 0:
            chunk = await asyncio.to_thread(file.read, min(CHUNK_BYTES, left))
            if not chunk:
                raise ConnectionResetError(f"{path.name} became shorter")
            await send(request, response, chunk, STALL_S)
            left -= len(chunk)
    finally:
        file.close()


def _open_at(path: Path, position: int) -> BinaryIO:
    file = path.open("rb")
    file.seek(position)
    return file


DOWNLOAD: dict[int, Answer] = {
    HTTPStatus.OK: Answer("The whole file", media=BINARY, headers=("ETag", "Accept-Ranges")),
    HTTPStatus.PARTIAL_CONTENT: Answer("The range", media=BINARY, headers=("Content-Range",)),
    HTTPStatus.NOT_MODIFIED: Answer("The client has it"),
}
DOWNLOAD_PARAMETERS = (
    Parameter("Range", "one range: bytes=first-last, bytes=first- or bytes=-count", where="header"),
    Parameter("If-Range", "an ETag; another version is sent whole", where="header"),
    Parameter("If-None-Match", "an ETag", where="header"),
)
DOWNLOAD_PROBLEMS = (
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
)

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/artifacts",
        handler=list_artifacts,
        summary="All uploaded files, by digest",
        tag="artifacts",
        answers={HTTPStatus.OK: Answer("A page of files", ArtifactList)},
        problems=(HTTPStatus.UNPROCESSABLE_ENTITY,),
        parameters=PAGE_PARAMETERS,
    ),
    Route(
        method="PUT",
        path=ARTIFACT_ROUTE,
        handler=put_artifact,
        summary="Upload a file under its SHA-256",
        tag="artifacts",
        media=BINARY,
        answers={
            HTTPStatus.CREATED: Answer("Stored, and safely on the disk", models.ArtifactView),
            HTTPStatus.OK: Answer("It was here before", models.ArtifactView),
        },
        problems=(
            HTTPStatus.BAD_REQUEST,
            HTTPStatus.REQUEST_TIMEOUT,
            HTTPStatus.UNPROCESSABLE_ENTITY,
            HTTPStatus.INSUFFICIENT_STORAGE,
        ),
        deadline_s=None,
    ),
    Route(
        method="GET",
        path=ARTIFACT_ROUTE,
        handler=get_in_turn,
        summary="Download a file or a range of it; also with a node's fetch token for the inputs of its job",
        tag="artifacts",
        answers=DOWNLOAD,
        problems=DOWNLOAD_PROBLEMS,
        parameters=DOWNLOAD_PARAMETERS,
        deadline_s=None,
    ),
    Route(
        method="HEAD",
        path=ARTIFACT_ROUTE,
        handler=get_in_turn,
        summary="Whether a file is here, and its size",
        tag="artifacts",
        answers={
            HTTPStatus.OK: Answer("It is here", headers=("ETag", "Accept-Ranges")),
            HTTPStatus.NOT_MODIFIED: DOWNLOAD[HTTPStatus.NOT_MODIFIED],
        },
        problems=(HTTPStatus.NOT_FOUND, HTTPStatus.UNPROCESSABLE_ENTITY),
        parameters=(DOWNLOAD_PARAMETERS[2],),
        deadline_s=None,
    ),
)
