import pwd
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent import config
from agent.config import CuzkAddresses, GrpcAddress, HubUrl, devices, load, parse_hub, parse_local
from agent.errors import ConfigFault
from agent.logs.settings import LogSettings
from agent.outbox_bounds import Bounds
from wire.frames import Level

SHORT = "/tmp/pw"  # noqa: S108 - never made; only its length matters


def test_options_win_over_the_environment_and_that_over_defaults(tmp_path: Path) -> None:
    ca = tmp_path / "ca.pem"
    ca.write_text("")
    environ = {
        "PROVEWIRE_HUB": "https://env.example.org",
        "PROVEWIRE_DATA_DIR": SHORT,
        "PROVEWIRE_NAME": "from-env",
        "PROVEWIRE_TOKEN_FILE": "/etc/token",
        "PROVEWIRE_DEVICE": "cuda:1",
        "PROVEWIRE_LOCAL": "off",
        "PROVEWIRE_WORKERS": "external",
        "PROVEWIRE_CA": str(ca),
        "PROVEWIRE_OBSERVE": "1",
        "WATCHDOG_USEC": "60000000",
    }
    settings = load(environ, hub="wss://hub.example.org/prefix/", name="given")
    assert settings.hub == HubUrl(base="https://hub.example.org/prefix")
    assert (settings.name, settings.device, settings.data_dir) == ("given", "cuda:1", Path(SHORT))
    assert (settings.token_file, settings.local, settings.spawn_workers) == (Path("/etc/token"), None, False)
    assert (settings.ca, settings.observe, settings.watchdog_s) == (ca, True, 30.0)
    assert settings.environ["PROVEWIRE_NAME"] == "from-env"
    plain = load({"PROVEWIRE_DATA_DIR": SHORT})
    assert (plain.hub, plain.device, plain.local, plain.spawn_workers) == (None, "auto", ("127.0.0.1", 8471), True)
    assert plain.name


def test_the_bounds_of_the_outbox() -> None:
    assert load({"PROVEWIRE_DATA_DIR": SHORT}).outbox == Bounds(bytes_max=64 << 20, age_s_max=86_400.0)
    environ = {"PROVEWIRE_DATA_DIR": SHORT, "PROVEWIRE_OUTBOX_BYTES": "2097152", "PROVEWIRE_OUTBOX_AGE_S": "3600"}
    assert load(environ).outbox == Bounds(bytes_max=2 << 20, age_s_max=3600.0)


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("PROVEWIRE_OUTBOX_BYTES", "64M"),
        ("PROVEWIRE_OUTBOX_BYTES", "1000"),
        ("PROVEWIRE_OUTBOX_AGE_S", "-1"),
        ("PROVEWIRE_OUTBOX_AGE_S", "1e9"),
    ],
)
def test_bounds_that_make_no_sense_are_refused_by_name(variable: str, text: str) -> None:
    with pytest.raises(ConfigFault, match=f"{variable} is '{text}'; it must be a whole number from "):
        load({"PROVEWIRE_DATA_DIR": SHORT, variable: text})


def test_a_service_without_a_home_needs_no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_uid: int) -> None:
        raise KeyError

    for variable in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert config.data_dir_of(None, {"PROVEWIRE_DATA_DIR": SHORT}) == Path(SHORT)
    with pytest.raises(ConfigFault, match="give --data-dir"):
        config.data_dir_of(None, {})


def test_without_a_data_dir_the_xdg_folder_is_used() -> None:
    assert config.data_dir_of(None, {}).parts[-2:] == ("provewire", "agent")


@pytest.mark.parametrize(
    ("text", "base", "websocket"),
    [
        ("https://hub.example.org", "https://hub.example.org", "wss://hub.example.org/agent"),
        ("http://127.0.0.1:8470/", "http://127.0.0.1:8470", "ws://127.0.0.1:8470/agent"),
        ("ws://localhost:1/a/b/", "http://localhost:1/a/b", "ws://localhost:1/a/b/agent"),
        ("wss://[::1]:5", "https://[::1]:5", "wss://[::1]:5/agent"),
    ],
)
def test_hub_addresses(text: str, base: str, websocket: str) -> None:
    url = parse_hub(text, insecure=False)
    assert (url.base, url.websocket) == (base, websocket)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("hub.example.org", "looks like https://"),
        ("ftp://hub", "looks like https://"),
        ("https://", "looks like https://"),
        ("https://hub:99999", "is no address"),
        ("https://hub:0", "port 0"),
        ("https://user:secret@hub", "leave out credentials"),
        ("https://hub?x=1", "leave out credentials"),
        ("http://hub.example.org", "has no TLS"),
        ("ws://10.0.0.1:8470", "--insecure"),
    ],
)
def test_an_address_that_cannot_be_used_is_named(text: str, says: str) -> None:
    with pytest.raises(ConfigFault, match=says):
        parse_hub(text, insecure=False)


def test_a_hub_without_tls_off_this_machine_needs_insecure() -> None:
    assert not parse_hub("http://10.0.0.1:8470", insecure=True).secure


@pytest.mark.parametrize(
    "text", ["0.0.0.0:8471", "8471", "127.0.0.1", "127.0.0.1:x", "127.0.0.1:70000", "example.org:1"]
)
def test_the_local_view_stays_on_this_machine(text: str) -> None:
    with pytest.raises(ConfigFault, match="--local"):
        parse_local(text)


def test_local_addresses() -> None:
    assert parse_local("off") is None
    assert parse_local("localhost:0") == ("localhost", 0)
    assert parse_local("[::1]:8471") == ("::1", 8471)


@pytest.mark.parametrize(
    ("environ", "options", "says"),
    [
        ({"PROVEWIRE_WORKERS": "maybe"}, {}, "PROVEWIRE_WORKERS"),
        ({"PROVEWIRE_INSECURE": "perhaps"}, {}, "PROVEWIRE_INSECURE"),
        ({}, {"device": "gpu"}, "--device"),
        ({}, {"device": "cuda:01"}, "--device"),
        ({}, {"name": "x" * 129}, "--name"),
        ({}, {"name": "a\nb"}, "--name"),
        ({}, {"ca": "/does/not/exist"}, "--ca"),
        ({}, {"data_dir": "/" + "d" * 120}, "shorter --data-dir"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(environ: dict[str, str], options: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigFault, match=says) as fault:
        load({"PROVEWIRE_DATA_DIR": SHORT, **environ}, **options)  # type: ignore[arg-type]
    assert fault.value.exit_code == 64


def test_the_longest_worker_socket_counts_too() -> None:
    room = config.SOCKET_PATH_BYTES_MAX - len("/agent.sock")
    with pytest.raises(ConfigFault, match=r"worker\.sock"):
        load({"PROVEWIRE_DATA_DIR": "/" + "d" * (room - 1)})


def test_devices_of_an_agent(tmp_path: Path) -> None:
    base = {"PROVEWIRE_DATA_DIR": SHORT}
    assert devices(load({**base, "CUDA_VISIBLE_DEVICES": ""})) == ["host"]
    assert devices(msgspec.structs.replace(load(base), cards=3)) == ["cuda:0", "cuda:1", "cuda:2"]
    assert devices(msgspec.structs.replace(load(base, device="host"), cards=3)) == ["host"]
    assert devices(load(base, device="cuda:3")) == ["cuda:3"]
    assert devices(load(base, observe=True)) == []
    assert load(base, device="cuda:3").worker_dir("cuda:3") == Path(SHORT) / "workers" / "cuda-3"
    del tmp_path


def test_who_asks_an_agent_finds_the_one_that_systemd_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    own, system = tmp_path / "xdg" / "provewire" / "agent", tmp_path / "var" / "agent"
    assert config.data_dir_to_ask(None, {}, system) == own
    system.parent.mkdir()
    assert config.data_dir_to_ask(None, {}, system) == system
    assert config.data_dir_to_ask(SHORT, {}, system) == Path(SHORT)
    assert config.data_dir_to_ask(None, {"PROVEWIRE_DATA_DIR": SHORT}, system) == Path(SHORT)
    own.mkdir(parents=True)
    assert config.data_dir_to_ask(None, {}, system) == own


def test_the_units_data_dir_is_the_one_that_is_found() -> None:
    unit = (Path(__file__).parents[2] / "systemd" / "provewire-agent.service").read_text()
    assert f"PROVEWIRE_DATA_DIR={config.SYSTEM_DATA_DIR} " in unit


# --- a cuzk-daemon --------------------------------------------------------------------------------------------------


def test_a_cuzk_daemon_is_looked_for_where_it_usually_is(tmp_path: Path) -> None:
    found = load({"PROVEWIRE_DATA_DIR": str(tmp_path)}).cuzk
    assert found == CuzkAddresses(
        http=("127.0.0.1", 9821),
        grpc=(GrpcAddress(path="/run/curio/cuzk.sock"), GrpcAddress(host="127.0.0.1", port=9820)),
        asked=False,
    )


def test_a_cuzk_daemon_that_is_named_is_asked_for(tmp_path: Path) -> None:
    found = load(
        {"PROVEWIRE_DATA_DIR": str(tmp_path), "PROVEWIRE_CUZK": "localhost:1234", "PROVEWIRE_CUZK_GRPC": "[::1]:5"}
    ).cuzk
    assert found == CuzkAddresses(http=("127.0.0.1", 1234), grpc=(GrpcAddress(host="::1", port=5),), asked=True)


def test_no_cuzk_daemon_is_looked_for_if_told_so(tmp_path: Path) -> None:
    assert load({"PROVEWIRE_DATA_DIR": str(tmp_path)}, cuzk="off").cuzk is None
    found = load({"PROVEWIRE_DATA_DIR": str(tmp_path)}, cuzk_grpc="off").cuzk
    assert found is not None
    assert found.grpc == ()


@pytest.mark.parametrize(
    ("cuzk", "grpc", "words"),
    [
        ("10.0.0.1:9821", None, "--cuzk '10.0.0.1:9821' is not loopback"),
        ("127.0.0.1", None, "--cuzk '127.0.0.1' must be HOST:PORT or off"),
        ("127.0.0.1:0", None, "--cuzk has port 0"),
        (None, "192.168.0.1:1", "--cuzk-grpc '192.168.0.1:1' is not loopback"),
        (None, "unix://cuzk.sock", "by its whole path"),
        (None, "off,127.0.0.1:1", "off stands alone"),
    ],
)
def test_an_address_that_is_not_of_this_machine_is_refused(
    cuzk: str | None, grpc: str | None, words: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigFault, match=re.escape(words)):
        load({"PROVEWIRE_DATA_DIR": str(tmp_path)}, cuzk=cuzk, cuzk_grpc=grpc)


def test_logs_are_named_by_options_else_by_the_environment() -> None:
    environ = {"PROVEWIRE_LOG_FILE": "/a.log:/b.log:/a.log", "PROVEWIRE_LOG_UNIT": "x.service, y", "HOME": "/"}
    logs = load({**environ, "PROVEWIRE_LOG_SHIP": "error", "PROVEWIRE_LOG_BURST": "7"}).logs
    assert (logs.files, logs.units) == ((Path("/a.log"), Path("/b.log")), ("x.service", "y"))
    assert (logs.level, logs.rates.burst, logs.rates.records_per_s) == (Level.ERROR, 7, 100)
    assert load(environ, log_file=["/c.log"], log_ship="debug").logs.files == (Path("/c.log"),)
    assert load({"HOME": "/"}).logs == LogSettings()


@pytest.mark.parametrize(
    ("option", "environ"),
    [
        ({"log_file": ["relative.log"]}, {}),
        ({"log_file": ["/" + "x" * 2000]}, {}),
        ({"log_unit": ["--file=/etc/shadow"]}, {}),
        ({"log_unit": ["a*"]}, {}),
        ({"log_ship": "loud"}, {}),
        ({"log_file": [f"/{number}" for number in range(40)]}, {}),
        ({}, {"PROVEWIRE_LOG_RECORDS_PER_S": "0"}),
        ({}, {"PROVEWIRE_LOG_BYTES_PER_DAY": "many"}),
    ],
)
def test_a_log_that_cannot_be_shipped_is_refused_by_name(option: dict[str, Any], environ: dict[str, str]) -> None:
    with pytest.raises(ConfigFault, match=r"--log-|PROVEWIRE_LOG_"):
        load({"HOME": "/", **environ}, **option)
