import pwd
from pathlib import Path

import pytest

from hub.config import (
    ENVIRONMENT_PREFIX,
    SETTINGS,
    SYSTEM_DATA_DIR,
    Config,
    ConfigError,
    is_loopback,
    operators_data_dir,
)


def test_the_command_line_goes_before_the_environment_and_that_before_the_defaults() -> None:
    environ = {"PROVEWIRE_LISTEN": "127.0.0.1:1", "PROVEWIRE_LEASE_S": "7.5", "PROVEWIRE_ATTEMPTS_MAX": "2"}
    config = Config.load({"listen": "[::1]:0", "data_dir": None}, environ)
    assert (config.listen_host, config.listen_port) == ("::1", 0)
    assert (config.lease_s, config.attempts_max, config.heartbeat_s) == (7.5, 2, 10.0)


def test_the_data_folder_follows_xdg_unless_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert Config.load({}, {}).data_dir == tmp_path / "provewire" / "hub"
    assert Config.load({"data_dir": Path("~/x")}, {}).data_dir == Path("~/x").expanduser()


def test_a_service_without_a_home_needs_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(_uid: int) -> None:
        raise KeyError

    for variable in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    assert Config.load({"data_dir": tmp_path}, {}).data_dir == tmp_path
    with pytest.raises(ConfigError, match="give --data-dir"):
        Config.load({}, {})


def test_every_field_is_a_documented_setting_and_the_other_way_round() -> None:
    fields = set(Config.__struct_fields__) - {"listen_host", "listen_port", "sources"} | {"listen"}
    assert {setting.name for setting in SETTINGS} == fields
    assert all(setting.help for setting in SETTINGS)
    assert ENVIRONMENT_PREFIX == "PROVEWIRE_"


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        ({"PROVEWIRE_LEASE_S": "soon"}, "PROVEWIRE_LEASE_S: 'soon' is not a number"),
        ({"PROVEWIRE_LEASE_S": "nan"}, "PROVEWIRE_LEASE_S: nan is out of range"),
        ({"PROVEWIRE_LEASE_S": "-1"}, "PROVEWIRE_LEASE_S: -1 is out of range"),
        ({"PROVEWIRE_LEASE_S": "0"}, "lease_s must be greater than 0"),
        ({"PROVEWIRE_ATTEMPTS_MAX": "1.5"}, "PROVEWIRE_ATTEMPTS_MAX: '1.5' is not a whole number"),
        ({"PROVEWIRE_INSECURE": "maybe"}, "PROVEWIRE_INSECURE: 'maybe' is neither 1 nor 0"),
        ({"PROVEWIRE_LISTEN": "8470"}, "PROVEWIRE_LISTEN: '8470' is not host:port"),
        ({"PROVEWIRE_LISTEN": "127.0.0.1:65536"}, "is not host:port"),
        ({"PROVEWIRE_LISTEN": "0.0.0.0:1"}, "give --tls-cert and --tls-key, or --insecure"),
        ({"PROVEWIRE_TLS_CERT": "/nowhere/c.pem"}, "tls_key is missing"),
        (
            {"PROVEWIRE_TLS_CERT": "/nowhere/c.pem", "PROVEWIRE_TLS_KEY": "/nowhere/k.pem"},
            "tls_cert: there is no file /nowhere/c.pem",
        ),
        ({"PROVEWIRE_STALE_AFTER_S": "60"}, "heartbeat_s < stale_after_s < lost_after_s must hold"),
        ({"PROVEWIRE_HEARTBEAT_S": "0.001"}, "heartbeat_s must be at least"),
        ({"PROVEWIRE_KEEP_RAW_S": "60"}, "3600 <= keep_raw_s <= keep_minute_s"),
        ({"PROVEWIRE_KEEP_HOUR_S": "86400"}, "since each tier is made from the one before; not 90000, 1209600"),
        ({"PROVEWIRE_NODE_LOG_BYTES_PER_DAY": "0"}, "node_log_bytes_per_day must be greater than 0"),
        ({"PROVEWIRE_PUBLIC_URL": "hub.example.org"}, "public_url: 'hub.example.org' must begin with"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_do(environ: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Config.load({}, environ)
    assert sentence in str(refused.value)
    assert refused.value.exit_code == 64


def test_off_loopback_needs_tls_or_the_word_insecure(tmp_path: Path) -> None:
    for name in ("c.pem", "k.pem"):
        (tmp_path / name).write_text("pem")
    options = {"listen": "0.0.0.0:1", "tls_cert": tmp_path / "c.pem", "tls_key": tmp_path / "k.pem"}
    assert Config.load(options, {}).tls
    assert Config.load({"listen": "192.0.2.1:1", "insecure": True}, {}).insecure


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("192.0.2.1", False),
        ("::", False),
        ("example.org", False),
    ],
)
def test_loopback_is_what_only_this_machine_reaches(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


def test_an_operator_finds_the_hub_that_systemd_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "xdg"))
    own, system = tmp_path / "xdg" / "provewire" / "hub", tmp_path / "var" / "hub"
    assert operators_data_dir(None, {}, system) == own
    system.parent.mkdir()
    assert operators_data_dir(None, {}, system) == system
    assert operators_data_dir(tmp_path, {}, system) == tmp_path
    assert operators_data_dir(None, {"PROVEWIRE_DATA_DIR": str(tmp_path)}, system) == tmp_path
    own.mkdir(parents=True)
    assert operators_data_dir(None, {}, system) == own


def test_the_units_data_dir_is_the_one_that_is_found() -> None:
    unit = (Path(__file__).parents[2] / "systemd" / "provewire-hub.service").read_text()
    assert f"PROVEWIRE_DATA_DIR={SYSTEM_DATA_DIR} " in unit
