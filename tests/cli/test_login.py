"""``provewire login`` at a real hub, with and without TLS: the link alone on stdout, good once."""

import http.client
import json
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from bench.certificate import certificate
from cli.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE
from tests.hub.test_app import ROOT, process


def command(name: str, data_dir: Path, *more: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command at the hub."""
    argv = [sys.executable, "-m", "cli.main", name, *more, "--data-dir", str(data_dir)]
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
        assert (link.path, link.query, link.fragment.rpartition("/")[0]) == ("/", "", "/login")
        answers = [ask(link, "login", {"code": link.fragment.rpartition("/")[2]}) for _ in range(2)]
    assert answers[0][:1] == (200,)
    assert answers[0][1] is not None
    assert answers[1] == (401, None)


def ask(link: SplitResult, what: str, body: dict[str, str]) -> tuple[int, str | None]:
    """What the page would ask; the status, and the cookie that is set."""
    connection = http.client.HTTPConnection(link.netloc, timeout=10)
    headers = {"Origin": f"{link.scheme}://{link.netloc}", "X-Provewire": "1", "Content-Type": "application/json"}
    connection.request("POST", f"/api/v1/{what}", json.dumps(body), headers)
    reply = connection.getresponse()
    connection.close()
    return reply.status, reply.getheader("Set-Cookie")


def test_the_first_admin_is_set_up_by_the_link_of_the_start_and_by_one_asked_for(tmp_path: Path) -> None:
    with process(tmp_path / "data") as (hub, facts):
        assert hub.stdout is not None
        said = next(line for line in iter(hub.stdout.readline, "") if "no user yet" in line)
        first = urlsplit(said.split()[-1])
        code, out, err = command("hub", tmp_path / "data", "setup-link")
        assert (code, "an admin" in err) == (EXIT_OK, True)
        another = urlsplit(out.strip())
        for name, link in {"ada": first, "bob": another}.items():
            assert f"{link.scheme}://{link.netloc}" == facts["url"]
            body = {"code": link.fragment.removeprefix("/setup/"), "name": name, "password": "correct horse battery"}
            assert ask(link, "setup", body)[0] == 201
            assert ask(link, "setup", body | {"name": "eve"})[0] == 401


def test_a_hub_with_users_prints_no_link_and_one_under_systemd_prints_none_into_the_journal(tmp_path: Path) -> None:
    told = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(told))
        with process(tmp_path / "data", environ={"NOTIFY_SOCKET": str(told)}) as (hub, _):
            assert hub.stdout is not None
            said = next(line for line in iter(hub.stdout.readline, "") if "no user yet" in line)
            assert "#/setup/" not in said
            assert "provewire hub setup-link" in said
            link = urlsplit(command("hub", tmp_path / "data", "setup-link")[1].strip())
            body = {"code": link.fragment.removeprefix("/setup/"), "name": "ada", "password": "correct horse battery"}
            assert ask(link, "setup", body)[0] == 201
    with process(tmp_path / "data") as (hub, _):
        hub.terminate()
        assert hub.stdout is not None
        assert "no user yet" not in hub.stdout.read()


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
        assert out.startswith("https://hub.example/#/login/")
        code, out, err = command("enroll", tmp_path / "data")
        assert (code, out[:4]) == (EXIT_OK, "pw1.")
        assert "--hub https://hub.example " in err
        shown = ssl.get_server_certificate(("127.0.0.1", urlsplit(facts["local_url"]).port or 0))
        assert shown.strip() == cert.read_text().strip()
        (tmp_path / "data" / "hub.json").write_text(json.dumps(facts | {"certificate_sha256": "00" * 32}))
        code, out, err = command("enroll", tmp_path / "data")
        assert (code, out) == (EXIT_UNREACHABLE, "")
        assert "another certificate" in err
