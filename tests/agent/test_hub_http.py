from pathlib import Path

import pytest

from agent.errors import ConfigFault
from agent.hub_http import HttpClient, tls_context


def test_tls_is_always_verified() -> None:
    import ssl  # noqa: PLC0415 - only this test speaks of it

    context = tls_context(None)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname


def test_a_ca_file_without_a_certificate_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("hello")
    with pytest.raises(ConfigFault, match=r"--ca .*ca\.pem holds no certificate"):
        tls_context(tmp_path / "ca.pem")


async def test_outside_its_context_there_is_no_session() -> None:
    client = HttpClient(ca=None, proxies=False)
    with pytest.raises(RuntimeError, match="outside"):
        client.session.get("http://127.0.0.1")
    await client.__aexit__(None, None, None)
