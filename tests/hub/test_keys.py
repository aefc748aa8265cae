import hashlib
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from hub.keys import (
    ADMIN_TOKEN_FILE,
    HUB_KEY_FILE,
    HUB_SECRET_FILE,
    FetchClaim,
    KeyFileError,
    Keys,
    parse_fetch_token,
    verify_signature,
    write_private,
)
from wire.limits import NAME_CHARS_MAX

JOB = "01900000-0000-7000-8000-000000000001"
AGENT = "01900000-0000-7000-8000-000000000002"


def test_the_first_start_makes_private_files_and_the_next_reads_them(tmp_path: Path) -> None:
    first, second = Keys.load(tmp_path), Keys.load(tmp_path)
    for name in (HUB_KEY_FILE, HUB_SECRET_FILE, ADMIN_TOKEN_FILE):
        assert (tmp_path / name).stat().st_mode & 0o777 == 0o600
    assert first.public_key == second.public_key
    assert first.fingerprint == hashlib.sha256(first.public_key).hexdigest()
    assert first.fetch_token(JOB, 1, AGENT) == second.fetch_token(JOB, 1, AGENT)
    assert second.admin_token_valid((tmp_path / ADMIN_TOKEN_FILE).read_text().strip())
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([HUB_KEY_FILE, HUB_SECRET_FILE, ADMIN_TOKEN_FILE])


@pytest.mark.parametrize("name", [HUB_KEY_FILE, HUB_SECRET_FILE, ADMIN_TOKEN_FILE])
def test_a_damaged_file_is_an_error_and_never_replaced(tmp_path: Path, name: str) -> None:
    Keys.load(tmp_path)
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(KeyFileError, match=name):
        Keys.load(tmp_path)
    assert (tmp_path / name).read_bytes() == b""


def test_a_file_others_may_read_is_refused_with_the_remedy(tmp_path: Path) -> None:
    Keys.load(tmp_path)
    (tmp_path / HUB_KEY_FILE).chmod(0o644)
    with pytest.raises(KeyFileError, match=r"mode 0644.*chmod 600"):
        Keys.load(tmp_path)


def test_a_fetch_token_is_of_one_job_one_attempt_and_one_agent(tmp_path: Path) -> None:
    keys = Keys.load(tmp_path)
    token = keys.fetch_token(JOB, 3, AGENT)
    assert parse_fetch_token(token) == FetchClaim(JOB, 3)
    assert keys.fetch_token_valid(token, AGENT)
    assert not keys.fetch_token_valid(token, JOB)
    assert not keys.fetch_token_valid(token.replace(".3.", ".4."), AGENT)
    assert not keys.fetch_token_valid(token.replace(".3.", ".03."), AGENT)
    assert not keys.fetch_token_valid(token[:-1], AGENT)
    assert len(keys.fetch_token(JOB, 1_000_000, AGENT)) <= NAME_CHARS_MAX


@given(st.text(max_size=200))
def test_no_text_breaks_the_parser_of_fetch_tokens(text: str) -> None:
    claim = parse_fetch_token(text)
    assert claim is None or text.startswith("pwj.")


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_no_bytes_break_the_check_of_a_signature(key: bytes, signature: bytes) -> None:
    assert not verify_signature(key, b"message", signature)


def test_a_signature_holds_for_its_message_only(tmp_path: Path) -> None:
    keys = Keys.load(tmp_path)
    signature = keys.sign(b"message")
    assert verify_signature(keys.public_key, b"message", signature)
    assert not verify_signature(keys.public_key, b"another", signature)


def test_admin_tokens_of_any_text_are_compared_not_parsed(tmp_path: Path) -> None:
    keys = Keys.load(tmp_path)
    assert not keys.admin_token_valid("")
    assert not keys.admin_token_valid("ü" * 40)


def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        write_private(tmp_path / "taken", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
