"""Uploads are what they say they are; downloads can be taken in parts."""

import asyncio
import hashlib
import io
import random

import pytest

from tests.hub.api.conftest import Start, Web

DATA = random.Random(7).randbytes(700_001)
DIGEST = hashlib.sha256(DATA).hexdigest()
PATH = f"/api/v1/artifacts/{DIGEST}"


async def test_what_was_put_can_be_got(web: Web) -> None:
    put = await web.ask("PUT", PATH, data=DATA)
    assert (put.status, put.json) == (201, {"sha256": DIGEST, "bytes": len(DATA)})
    assert (await web.ask("PUT", PATH, data=DATA)).status == 200
    got = await web.ask("GET", PATH)
    assert (got.status, got.body) == (200, DATA)
    assert got.headers["ETag"] == f'"{DIGEST}"'
    assert got.headers["Accept-Ranges"] == "bytes"
    assert got.headers["Content-Type"] == "application/octet-stream"
    head = await web.ask("HEAD", PATH)
    assert (head.status, head.headers["Content-Length"], head.body) == (200, str(len(DATA)), b"")


async def test_an_upload_without_a_length_is_taken_too(web: Web) -> None:
    async def pieces() -> object:
        for position in range(0, len(DATA), 50_000):
            yield DATA[position : position + 50_000]

    assert (await web.ask("PUT", PATH, data=pieces())).status == 201
    assert (await web.ask("GET", PATH)).body == DATA


@pytest.mark.parametrize(
    ("asked", "begin", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=5-9", 5, 10),
        ("bytes=700000-", 700_000, 700_001),
        ("bytes=100-9999999", 100, 700_001),
        ("bytes=-10", 699_991, 700_001),
        ("bytes=-9999999", 0, 700_001),
        ("bytes= 5 - 9", 5, 10),
    ],
)
async def test_a_range(web: Web, asked: str, begin: int, end: int) -> None:
    await web.upload(DATA)
    got = await web.ask("GET", PATH, headers={"Range": asked})
    assert (got.status, got.body) == (206, DATA[begin:end])
    assert got.headers["Content-Range"] == f"bytes {begin}-{end - 1}/{len(DATA)}"
    assert got.headers["Content-Length"] == str(end - begin)


@pytest.mark.parametrize("asked", ["bytes=700001-", "bytes=9-5", "bytes=-0", "bytes=999999999999-9999999999999"])
async def test_a_range_outside_is_refused_with_the_size(web: Web, asked: str) -> None:
    await web.upload(DATA)
    got = await web.ask("GET", PATH, headers={"Range": asked})
    assert (got.status, got.code) == (416, "range_outside")
    assert got.headers["Content-Range"] == f"bytes */{len(DATA)}"


@pytest.mark.parametrize("asked", ["bytes=-", "lines=1-2", "bytes=0-1,5-6", "bytes=a-b", "nonsense"])
async def test_what_is_no_single_range_is_ignored(web: Web, asked: str) -> None:
    await web.upload(DATA)
    assert (await web.ask("GET", PATH, headers={"Range": asked})).status == 200


async def test_a_resumed_download_asks_for_the_same_version(web: Web) -> None:
    await web.upload(DATA)
    same = await web.ask("GET", PATH, headers={"Range": "bytes=5-", "If-Range": f'"{DIGEST}"'})
    assert same.status == 206
    other = await web.ask("GET", PATH, headers={"Range": "bytes=5-", "If-Range": '"other"'})
    assert (other.status, other.body) == (200, DATA)


@pytest.mark.parametrize("tag", [f'"{DIGEST}"', f'W/"{DIGEST}"', f'"x", "{DIGEST}"', "*"])
async def test_what_the_client_has_is_not_sent(web: Web, tag: str) -> None:
    await web.upload(DATA)
    got = await web.ask("GET", PATH, headers={"If-None-Match": tag})
    assert (got.status, got.body) == (304, b"")


async def test_refusals_name_what_is_wrong(web: Web) -> None:
    mismatch = await web.ask("PUT", PATH, data=b"other bytes")
    assert (mismatch.status, mismatch.code) == (422, "digest_mismatch")
    assert hashlib.sha256(b"other bytes").hexdigest() in mismatch.json["detail"]
    assert (await web.ask("GET", PATH)).code == "not_found"
    for name in ("x", DIGEST.upper(), "..%2f..%2fadmin-token", DIGEST + "0"):
        refused = await web.ask("PUT", f"/api/v1/artifacts/{name}", data=b"x")
        assert (refused.status, refused.code) == (422, "invalid")
        assert (await web.ask("GET", f"/api/v1/artifacts/{name}")).status == 422
    encoded = await web.ask("PUT", PATH, data=DATA, headers={"Content-Encoding": "br"})
    assert encoded.status in {400, 415}


async def test_one_artifact_has_a_limit(start: Start) -> None:
    web = await start(artifact_bytes_max=1000)
    refused = await web.ask("PUT", PATH, data=io.BytesIO(DATA))
    assert (refused.status, refused.code) == (413, "body_too_large")


async def test_all_artifacts_together_have_a_limit(start: Start) -> None:
    web = await start(artifacts_bytes_max=1000)
    refused = await web.ask("PUT", PATH, data=io.BytesIO(DATA))
    assert (refused.status, refused.code) == (507, "store_full")
    assert (await web.ask("PUT", f"/api/v1/artifacts/{hashlib.sha256(b'x').hexdigest()}", data=b"x")).status == 201


async def test_an_upload_cut_off_leaves_nothing(web: Web) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", web.client.port)
    token = web.admin["Authorization"]
    request = f"PUT {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: {token}\r\nContent-Length: {len(DATA)}\r\n\r\n"
    writer.write(request.encode() + DATA[:500_000])
    await writer.drain()
    writer.write_eof()
    await reader.read()
    writer.close()
    await writer.wait_closed()
    assert (await web.ask("GET", PATH)).status == 404
    assert (await web.ask("PUT", PATH, data=DATA)).status == 201
