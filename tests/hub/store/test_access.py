"""What every store keeps of people, browsers, tokens, the audit and idempotency keys."""

import msgspec
import pytest

from hub.access.records import ApiToken, AuditEntry, AuditFilter, BrowserSession, Kept, Purpose, User
from hub.access.roles import Role
from hub.ids import uuid7
from hub.store.base import Store, UserNameTaken

ADA = User(id="u1", name="ada", role=Role.ADMIN, password_hash="$argon2id$", created_at_ms=1, password_at_ms=1)  # noqa: S106


def session(letter: bytes, user_id: str = "u1") -> BrowserSession:
    return BrowserSession(
        session_hash=letter * 32,
        id=letter.decode(),
        user_id=user_id,
        opened_at_ms=1,
        used_at_ms=1,
        expires_at_ms=1000,
        remote="192.0.2.1",
        agent="a browser",
    )


def entry(number: int, **changes: object) -> AuditEntry:
    usual = AuditEntry(
        id=uuid7(number * 1000),
        time_ms=number * 1000,
        who="ada",
        kind="user",
        role="admin",
        actor_id="u1",
        remote="192.0.2.1",
        action="DELETE /api/v1/nodes/{id}",
        target="/api/v1/nodes/node_a",
        status=204,
        code="",
        detail="",
    )
    return msgspec.structs.replace(usual, **changes)


async def test_a_code_is_good_once_for_its_time_and_for_its_purpose(store: Store) -> None:
    access = store.access
    await access.add_code(b"c" * 32, Purpose.LOGIN, 100)
    await access.add_code(b"o" * 32, Purpose.LOGIN, 50)
    assert not await access.log_in_by_code(b"o" * 32, session(b"a"), 50)
    assert not await access.set_up_by_code(b"c" * 32, ADA, session(b"a"), 99)
    assert await access.log_in_by_code(b"c" * 32, session(b"a"), 99)
    assert not await access.log_in_by_code(b"c" * 32, session(b"b"), 99)
    assert await access.browser_sessions() == [session(b"a")]
    assert await access.users() == []


async def test_setting_up_makes_user_and_session_at_once_or_neither(store: Store) -> None:
    access = store.access
    await access.add_code(b"c" * 32, Purpose.SETUP, 100)
    assert await access.set_up_by_code(b"c" * 32, ADA, session(b"a"), 99)
    assert (await access.users(), await access.browser_sessions()) == ([ADA], [session(b"a")])
    await access.add_code(b"d" * 32, Purpose.SETUP, 100)
    other = msgspec.structs.replace(ADA, id="u2")
    with pytest.raises(UserNameTaken):
        await access.set_up_by_code(b"d" * 32, other, session(b"b", "u2"), 99)
    named = msgspec.structs.replace(other, name="bob")
    assert await access.set_up_by_code(b"d" * 32, named, session(b"b", "u2"), 99), "the code is still good"


async def test_a_user_is_changed_and_forgotten_with_every_session(store: Store) -> None:
    access = store.access
    await access.add_user(ADA)
    with pytest.raises(UserNameTaken):
        await access.add_user(msgspec.structs.replace(ADA, id="u2"))
    viewer = msgspec.structs.replace(ADA, role=Role.VIEWER, disabled_at_ms=7)
    await access.save_user(viewer)
    assert await access.users() == [viewer]
    for one in (session(b"a"), session(b"b"), session(b"c", "")):
        await access.add_browser_session(one)
    await access.end_browser_sessions([b"a" * 32, b"x" * 32])
    assert await access.browser_sessions() == [session(b"b"), session(b"c", "")]
    await access.delete_user("u1")
    assert (await access.users(), await access.browser_sessions()) == ([], [session(b"c", "")])


async def test_tokens_and_when_things_were_used_are_kept(store: Store) -> None:
    access = store.access
    token = ApiToken(
        id="t1",
        name="ci",
        token_hash=b"t" * 32,
        role=Role.OPERATOR,
        areas=("jobs", "circuits"),
        created_by="ada",
        created_at_ms=1,
        expires_at_ms=None,
    )
    await access.add_api_token(token)
    await access.add_browser_session(session(b"a"))
    used = msgspec.structs.replace(token, used_at_ms=9, used_from="192.0.2.7")
    seen = msgspec.structs.replace(session(b"a"), used_at_ms=9)
    await access.note_used([seen], [used])
    assert (await access.api_tokens(), await access.browser_sessions()) == ([used], [seen])
    revoked = msgspec.structs.replace(used, revoked_at_ms=10)
    await access.save_api_token(revoked)
    assert await access.api_tokens() == [revoked]
    await access.delete_api_token("t1")
    assert await access.api_tokens() == []


async def test_the_audit_is_read_by_pages_and_filters_and_given_up_oldest_first(store: Store) -> None:
    access = store.access
    refused = entry(3, who="eve", code="role_refused", status=403, action="GET /api/v1/audit", target="/api/v1/audit")
    entries = [entry(1), entry(2), refused, entry(4)]
    await access.add_audit([])
    await access.add_audit(entries)
    everything = AuditFilter()
    newest = await access.audit(everything, before="", limit=2)
    assert newest == entries[:1:-1]
    assert await access.audit(everything, before=newest[-1].id, limit=10) == entries[1::-1]
    assert await access.audit(AuditFilter(who="eve"), before="", limit=10) == [refused]
    assert await access.audit(AuditFilter(refused=True), before="", limit=10) == [refused]
    assert len(await access.audit(AuditFilter(refused=False), before="", limit=10)) == 3
    assert len(await access.audit(AuditFilter(action="node_a"), before="", limit=10)) == 3
    assert await access.audit(AuditFilter(action="node%a"), before="", limit=10) == []
    assert await access.audit(AuditFilter(action="nodexa"), before="", limit=10) == []
    assert await access.expire_audit(1500, 10, limit=10) == 1
    assert await access.expire_audit(1500, 2, limit=10) == 1
    assert await access.expire_audit(1500, 2, limit=10) == 0
    assert await access.audit(everything, before="", limit=10) == entries[:1:-1]


async def test_a_request_is_kept_once_and_only_so_many_are(store: Store) -> None:
    access = store.access

    def kept(key: str, at_ms: int) -> Kept:
        return Kept(owner="user:u1", route="POST /api/v1/users", key=key, request_sha256="ab", begun_at_ms=at_ms)

    assert await access.begin_kept(kept("a", 1), forget_before_ms=0, rows_max=2) is None
    assert await access.begin_kept(kept("a", 2), forget_before_ms=0, rows_max=2) == kept("a", 1)
    done = msgspec.structs.replace(kept("a", 1), status=201, headers="{}", body=b"{}")
    await access.finish_kept(done)
    assert await access.begin_kept(kept("a", 3), forget_before_ms=0, rows_max=2) == done
    assert await access.begin_kept(kept("b", 4), forget_before_ms=0, rows_max=2) is None
    await access.drop_kept("user:u1", "POST /api/v1/users", "b")
    assert await access.begin_kept(kept("b", 5), forget_before_ms=0, rows_max=2) is None
    assert await access.begin_kept(kept("c", 6), forget_before_ms=0, rows_max=2) is None, "the oldest made room"
    assert await access.begin_kept(kept("a", 7), forget_before_ms=7, rows_max=2) is None, "what is old is forgotten"
