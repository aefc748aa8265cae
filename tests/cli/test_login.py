"""``provewire login`` at a real hub, with and without TLS: the link alone on stdout, good once."""

import http.client
import json
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

from bench.certificate import certificate
from cli.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from tests.hub.test_app import ROOT, process


def command(name: str, data_dir: Path) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command at the hub."""
    argv = [sys.executable, "-m", "cli.main", name, "--data-dir", str(data_dir)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


def test_the_link_logs_in_once(tmp_path: Path) -> None:
    with process(tmp_path / "data") as (_, facts):
        code, out, err = command("login", tmp_path / "data")
        assert code == EXIT_OK
        link = urlsplit(out.removesuffix("\n"))
        assert f"{link.scheme}://{link.netloc}" == facts["url"]
        assert "one browser" in err
        assert out.strip() not in err
        cookies = []
        for _ in range(2):
            connection = http.client.HTTPConnection(link.netloc, timeout=10)
            connection.request("GET", f"{link.path}?{link.query}")
            cookies.append(connection.getresponse().getheader("Set-Cookie"))
            connection.close()
    assert cookies[0] is not None
    assert cookies[1] is None


def test_a_hub_that_does_not_run_and_a_folder_that_is_no_hubs(tmp_path: Path) -> None:
    with process(tmp_path / "data"):
        pass
    (tmp_path / "data" / "hub.json").unlink(missing_ok=True)
    assert command("login", tmp_path / "data")[0] == EXIT_UNREACHABLE
    code, _, err = command("login", tmp_path)
    assert code == EXIT_USAGE
    assert "no hub's data directory" in err


def test_a_certificate_of_our_own_is_known_and_any_other_is_not(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    options = ("--listen", "0.0.0.0:0", "--tls-cert", str(cert), "--tls-key", str(key))
    with process(tmp_path / "data", *options, environ={"PROVEWIRE_PUBLIC_URL": "https://hub.example"}) as (_, facts):
        assert facts["local_url"].startswith("https://127.0.0.1:")
        code, out, _ = command("login", tmp_path / "data")
        assert code == EXIT_OK
        assert out.startswith("https://hub.example/login?code=")
        code, out, err = command("enroll", tmp_path / "data")
        assert (code, out[:4]) == (EXIT_OK, "pw1.")
        assert "--hub https://hub.example " in err
        shown = ssl.get_server_certificate(("127.0.0.1", urlsplit(facts["local_url"]).port or 0))
        assert shown.strip() == cert.read_text().strip()
        (tmp_path / "data" / "hub.json").write_text(json.dumps(facts | {"certificate_sha256": "00" * 32}))
        code, out, err = command("enroll", tmp_path / "data")
        assert (code, out) == (EXIT_UNREACHABLE, "")
        assert "another certificate" in err
