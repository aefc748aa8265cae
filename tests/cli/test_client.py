"""The commands as a client of the hub from anywhere: by address and token, for people and for programs."""

import hashlib
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.certificate import certificate
from cli import client, tables, tokens
from cli.errors import EXIT_OK, EXIT_UNREACHABLE, EXIT_USAGE, UsageError
from prover import circuits
from tests.e2e.rig import until
from tests.hub.test_app import ROOT, process

PASSWORD = "correct horse battery\n"  # noqa: S105 - a test's


class Caller:
    """Runs commands against one hub."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder

    def run(
        self, *argv: str, by: str = "admin", stdin: str = "", environ: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        where = ["--hub", self.url, "--token-file", str(self.folder / by)] if by else []
        done = subprocess.run(
            [sys.executable, "-m", "cli.main", *argv, *where],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            input=stdin,
            env=os.environ | dict(environ or {}),
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    def ok(self, *argv: str, **more: Any) -> str:
        code, out, err = self.run(*argv, **more)
        assert code == EXIT_OK, err
        return out

    def token(self, name: str, *argv: str) -> None:
        (self.folder / name).write_text(self.ok("tokens", "add", name, *argv))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Caller]:
    folder = tmp_path_factory.mktemp("client")
    with process(folder / "data") as (_, facts):
        (folder / "admin").write_text((folder / "data" / "admin-token").read_text())
        caller = Caller(facts["url"], folder)
        caller.token("viewer", "--role", "viewer")
        yield caller


@pytest.mark.parametrize("name", ["nodes", "jobs", "circuits", "audit", "incidents"])
def test_lists_are_for_people_and_with_json_for_programs(hub: Caller, name: str) -> None:
    told = json.loads(hub.ok(name, "--json"))
    assert isinstance(told, dict)
    assert hub.ok(name).strip()


def test_a_token_is_made_shown_used_and_revoked(hub: Caller) -> None:
    hub.token("ci", "--role", "viewer", "--area", "jobs", "--ttl", "12h")
    assert (hub.folder / "ci").read_text().startswith("pwt.")
    assert hub.run("jobs", by="ci")[0] == EXIT_OK
    code, _, err = hub.run("nodes", by="ci")
    assert (code, "good for jobs only" in err) == (EXIT_USAGE, True)
    header, *rows = hub.ok("tokens", "list").splitlines()
    assert header.split()[:3] == ["name", "role", "areas"]
    [row] = [row for row in rows if row.startswith("ci ")]
    assert "127.0.0.1" in row
    assert "pwt." not in "".join(rows)
    assert hub.ok("tokens", "revoke", "ci") == "ci: revoked\n"
    assert hub.run("jobs", by="ci")[0] == EXIT_USAGE
    enrolled = hub.ok("enroll", "--uses", "2", "--label", "provider=vast")
    assert enrolled.startswith("pw1.")
    [made] = json.loads(hub.ok("tokens", "enrolment", "--json"))["tokens"]
    assert (made["labels"], made["uses_max"]) == ({"provider": "vast"}, 2)
    assert "provider=vast" in hub.ok("tokens", "enrolment")
    assert "revoked" in hub.ok("tokens", "revoke-enrolment", made["id"][:20])


def test_users_come_and_go_and_their_passwords_stand_in_no_command_line(hub: Caller) -> None:
    assert hub.ok("users", "add", "ada", "--role", "viewer", stdin=PASSWORD) == "ada: done\n"
    code, _, err = hub.run("users", "add", "bob", "--role", "viewer", stdin="short\n")
    assert (code, "password" in err) == (EXIT_USAGE, True)
    hub.ok("users", "role", "ada", "operator")
    hub.ok("users", "disable", "ada")
    assert "out since" in hub.ok("users", "list")
    for action in ("enable", "logout"):
        hub.ok("users", action, "ada")
    hub.ok("users", "password", "ada", stdin="another horse\n")
    assert [user["role"] for user in json.loads(hub.ok("users", "list", "--json"))["users"]] == ["operator"]
    hub.ok("users", "remove", "ada")
    assert "nobody yet" in hub.ok("users", "list")
    said = hub.ok("audit", "--action", "/users")
    assert "Let somebody in by name and password" in said
    assert "refused: invalid" in said


def test_who_may_not_is_told_so(hub: Caller) -> None:
    code, out, err = hub.run("users", "list", by="viewer")
    assert (code, out) == (EXIT_USAGE, "")
    assert err == "provewire: the hub refused: this takes the role admin; viewer is viewer: ask an admin\n"
    until(  # a refusal is kept soon, not before it is answered
        lambda: "refused: role_refused" in hub.ok("audit", "--refused", "--who", "viewer"),
        "the refusal among the audit",
    )


def test_a_job_is_listed_shown_and_called_off(hub: Caller) -> None:
    job = handed_in(hub)
    [row] = [line for line in hub.ok("jobs", "--state", "queued").splitlines() if job in line]
    assert row.split()[1:3] == ["queued", "merkle8"]
    assert "merkle8" in hub.ok("circuits")
    shown = hub.ok("job", job[:30])
    assert "waits for: " in shown
    assert shown.splitlines()[0] == f"job        {job}"
    code, _, err = hub.run("job", job, "--proof", str(hub.folder / "proof.json"))
    assert (code, "so there is no proof.json" in err) == (EXIT_USAGE, True)
    assert json.loads(hub.ok("job", job, "--cancel", "--json"))["state"] == "cancelled"
    assert hub.ok("job", job, "--cancel")  # again, which is harmless
    assert hub.ok("jobs", "--state", "failed") == "there is no such job\n"


def handed_in(hub: Caller) -> str:
    """A job of the bundled circuit, by REST."""
    there = client.HubByUrl(hub.url, (hub.folder / "admin").read_text().strip())
    digests = []
    for name in ("merkle8.zkey", "merkle8.wtns"):
        data = (Path(circuits.__file__).parent / name).read_bytes()
        digests.append(hashlib.sha256(data).hexdigest())
        connection = there.connect(30.0)
        headers = {"Authorization": f"Bearer {(hub.folder / 'admin').read_text().strip()}"}
        connection.request("PUT", f"/api/v1/artifacts/{digests[-1]}", data, headers)
        assert connection.getresponse().status in {200, 201}
        connection.close()
    there.post("/api/v1/circuits", {"name": "merkle8", "zkey": digests[0]})
    return str(there.post("/api/v1/jobs", {"circuit": "merkle8", "witness": digests[1]})["id"])


def test_a_job_that_is_nobodys(hub: Caller) -> None:
    code, _, err = hub.run("job", "0190abcd")
    assert (code, "there is no job" in err) == (EXIT_USAGE, True)


def test_the_surroundings_say_where_the_hub_is(hub: Caller) -> None:
    environ = {client.URL: hub.url, client.TOKEN_FILE: str(hub.folder / "viewer")}
    assert hub.run("nodes", by="", environ=environ)[0] == EXIT_OK
    code, _, err = hub.run("nodes", by="", environ={client.URL: hub.url})
    assert (code, "needs a token" in err) == (EXIT_USAGE, True)


def test_a_hub_that_is_not_there_and_a_token_that_is_none(hub: Caller, tmp_path: Path) -> None:
    away = Caller("http://127.0.0.1:9", hub.folder)
    assert away.run("nodes")[0] == EXIT_UNREACHABLE
    assert Caller("ftp://hub", hub.folder).run("nodes")[0] == EXIT_USAGE
    (tmp_path / "empty").write_text("\n")
    for token in ("nothing", "empty"):
        assert Caller(hub.url, tmp_path).run("nodes", by=token)[0] == EXIT_USAGE
    (tmp_path / "wrong").write_text("pwt.wrong\n")
    code, _, err = Caller(hub.url, tmp_path).run("nodes", by="wrong")
    assert (code, "none of this hub's" in err) == (EXIT_USAGE, True)


def test_a_certificate_is_trusted_only_when_told(tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    with process(tmp_path / "data", "--tls-cert", str(cert), "--tls-key", str(key)) as (_, facts):
        caller = Caller(facts["url"].replace("127.0.0.1", "localhost"), tmp_path)
        (tmp_path / "admin").write_text((tmp_path / "data" / "admin-token").read_text())
        code, _, err = caller.run("nodes")
        assert (code, "give --ca" in err) == (EXIT_UNREACHABLE, True)
        assert caller.run("nodes", "--ca", str(cert))[0] == EXIT_OK


def test_the_admin_token_is_readable_by_its_owner_only(hub: Caller) -> None:
    assert stat.S_IMODE((hub.folder / "data" / "admin-token").stat().st_mode) == 0o600


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("15m", 900), ("12h", 43_200), ("30d", 2_592_000)])
def test_lengths_of_time(text: str, seconds: int) -> None:
    assert tokens.length_s(text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1", "1w", "-1h", "1.5h", "9999999999h"])
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(UsageError):
        tokens.length_s(text)


def test_a_table_obeys_nobody_and_is_whole_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(("name", "said"), [("a[red]b", "\x1b[31mred\x07"), ("x" * 200, None)], "nothing")
    out = capsys.readouterr().out
    assert "a[red]b" in out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "x" * 200 in out
    tables.show(("name",), [], "nothing there")
    assert capsys.readouterr().out == "nothing there\n"
