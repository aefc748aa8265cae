"""The hub's settings: one table, read once, passed down as one frozen value. The only reader of the environment here.

Each setting is ``PROVEWIRE_<NAME>`` in the environment; those of the command line are given there first.
"""

import ipaddress
import math
import os
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec
import platformdirs
from msgspec import Struct

from hub.alerts import targets
from hub.ssh import policy
from wire import limits

ENVIRONMENT_PREFIX: Final = "PROVEWIRE_"
EXIT_USAGE: Final = 64
SYSTEM_DATA_DIR: Final = Path("/var/lib/provewire/hub")
"""Of the hub that systemd runs: what its unit says."""
INTERVAL_MIN_S: Final = 0.01
"""The wire's own limit for what a welcome may ask."""

KEEP_RAW_MIN_S: Final = 3600.0
"""Rollups are made from raw readings, and that takes a moment."""


class ConfigError(Exception):
    """A setting is wrong; the sentence names it and says what to do."""

    exit_code = EXIT_USAGE


class Config(Struct, frozen=True, kw_only=True):
    """Everything the hub can be told. What each means stands in `SETTINGS`."""

    data_dir: Path
    listen_host: str = "127.0.0.1"
    listen_port: int = 8470
    tls_cert: Path | None = None
    tls_key: Path | None = None
    insecure: bool = False
    allow_unsafe: bool = False
    public_url: str = ""
    heartbeat_s: float = limits.HEARTBEAT_S
    stale_after_s: float = limits.STALE_AFTER_S
    lost_after_s: float = limits.LOST_AFTER_S
    send_deadline_s: float = limits.SEND_DEADLINE_S
    reconnect_spread_s: float = 2.0
    readings_s: float = 2.0
    sample_s: float = limits.SAMPLE_S
    accept_per_s: float = 50.0
    accept_burst: int = 100
    unauthenticated_max: int = 256
    first_request_s: float = 10.0
    idle_connections_max: int = 1024
    frames_per_s: float = 200.0
    frames_burst: int = 400
    lease_s: float = 60.0
    lease_grace_s: float = 15.0
    attempt_s: float = 6 * 3600.0
    attempts_max: int = 3
    decline_backoff_s: float = 5.0
    jobs_open_max: int = 10_000
    status_persist_s: float = 30.0
    node_events_per_s: float = 1000.0
    node_events_burst: int = 20_000
    node_event_bytes_per_day: int = 256 * 1024**2
    node_log_bytes_per_day: int = 64 * 1024**2
    node_reading_bytes_per_day: int = 128 * 1024**2
    keep_raw_s: float = 25 * 3600.0
    keep_raw_bytes: int = 4 * 1024**3
    keep_minute_s: float = 14 * 86_400.0
    keep_minute_bytes: int = 8 * 1024**3
    keep_ten_minutes_s: float = 90 * 86_400.0
    keep_ten_minutes_bytes: int = 4 * 1024**3
    keep_hour_s: float = 730 * 86_400.0
    keep_hour_bytes: int = 4 * 1024**3
    keep_events_s: float = 90 * 86_400.0
    keep_events_bytes: int = 2 * 1024**3
    keep_logs_s: float = 14 * 86_400.0
    keep_logs_bytes: int = 2 * 1024**3
    keep_records_s: float = 365 * 86_400.0
    keep_records_max: int = 1_000_000
    retention_every_s: float = 60.0
    lag_tolerated_s: float = 5.0
    shutdown_s: float = 5.0
    artifact_bytes_max: int = 4 * 1024**3
    artifacts_bytes_max: int = 64 * 1024**3
    verify_s: float = 120.0
    verify_memory_bytes: int = 1024**3
    enroll_ttl_s: int = 3600
    login_code_ttl_s: int = 600
    browser_session_ttl_s: int = 7 * 86_400
    browser_idle_s: int = 12 * 3600
    keep_audit_s: float = 730 * 86_400.0
    enroll_per_s: float = 10.0
    ssh_program: str = "ssh"
    ssh_identities: str = ""
    ssh_doctor_key: Path | None = None
    ssh_config_file: Path | None = None
    ssh_agent_socket: Path | None = None
    ssh_runtime_dir: Path | None = None
    ssh_connect_timeout_s: int = 10
    ssh_deadline_s: float = 30.0
    ssh_probes_max: int = 20
    ssh_probe_after_s: float = 10.0
    ssh_rehearse_s: float = 86_400.0
    ssh_examine_s: float = 60.0
    ssh_attempts_kept_days: int = 90
    ssh_accept_suggestions: bool = False
    ssh_recover_labels: str = ""
    ssh_recover_per_hour: int = 4
    alert_private_hosts: str = ""
    deadman_url: str = ""
    deadman_every_s: float = 60.0
    sources: Mapping[str, str] = {}
    """Where each setting that was given was given: an option or a variable. No setting itself."""

    @classmethod
    def load(cls, options: Mapping[str, object], environ: Mapping[str, str] | None = None) -> "Config":
        """Settings of the command line (``options``, None for not given), else of the environment, else as declared.

        Raises:
            ConfigError: a value cannot be read, or values contradict each other.
        """
        given = {name: value for name, value in options.items() if value is not None}
        surroundings = os.environ if environ is None else environ
        texts: dict[str, str] = {}
        origin: dict[str, str] = {}
        for setting in SETTINGS:
            variable = ENVIRONMENT_PREFIX + setting.name.upper()
            if setting.name in given:
                texts[setting.name] = _as_text(given[setting.name])
                origin[setting.name] = "--" + setting.name.replace("_", "-")
            elif surroundings.get(variable):
                texts[setting.name] = surroundings[variable]
                origin[setting.name] = variable
        values: dict[str, object] = {}
        if "listen" in texts:
            values["listen_host"], values["listen_port"] = _host_port(origin["listen"], texts.pop("listen"))
        kinds = typing.get_type_hints(cls)
        for name, text in texts.items():
            values[name] = _parse(origin[name], text, kinds[name])
        if "data_dir" not in values:
            values["data_dir"] = _default_data_dir()
        config = cls(**values, sources=origin)  # type: ignore[arg-type]  # each was parsed by its field's own type
        _check(config)
        return config

    @property
    def tls(self) -> bool:
        """Whether the hub itself ends TLS."""
        return self.tls_cert is not None

    @property
    def artifacts_dir(self) -> Path:
        """Where artifacts lie, in folders of the first two digits of their digest."""
        return self.data_dir / "artifacts"

    def artifact_path(self, sha256: str) -> Path:
        """Where the artifact of that digest lies."""
        return self.artifacts_dir / sha256[:2] / sha256

    def with_changes(self, **changes: object) -> "Config":
        """A copy with other values; for tests and for the address known only once listening."""
        return msgspec.structs.replace(self, **changes)


def operators_data_dir(
    option: Path | None, environ: Mapping[str, str] | None = None, system: Path = SYSTEM_DATA_DIR
) -> Path:
    """Where the hub of this machine keeps its data: as told, else the user's own, else that of systemd's unit.

    Raises:
        ConfigError: a setting cannot be read.
    """
    surroundings = os.environ if environ is None else environ
    if option is not None or surroundings.get(ENVIRONMENT_PREFIX + "DATA_DIR"):
        return Config.load({"data_dir": option}, surroundings).data_dir
    own = _default_data_dir()
    return system if not own.exists() and system.parent.exists() else own


class Setting(Struct, frozen=True):
    """One line of the table of settings."""

    name: str
    help: str


SETTINGS: tuple[Setting, ...] = (
    Setting("data_dir", "where the hub keeps its store, keys and artifacts"),
    Setting("listen", "address and port, host:port; port 0 takes a free one"),
    Setting("tls_cert", "certificate chain, PEM; with tls_key the hub speaks HTTPS"),
    Setting("tls_key", "private key of tls_cert, PEM"),
    Setting("insecure", "1 allows plain HTTP off loopback; shown on every page"),
    Setting("allow_unsafe", "1 takes circuits whose key says it was made by setup --unsafe, for tests"),
    Setting("public_url", "the address nodes and browsers reach the hub by, when it stands behind a proxy"),
    Setting("heartbeat_s", "seconds between two frames of an agent with nothing to say"),
    Setting("stale_after_s", "seconds of silence until a node is shown as stale"),
    Setting("lost_after_s", "seconds of silence until a node is lost and its socket closed"),
    Setting("send_deadline_s", "seconds within which a peer must take a frame"),
    Setting("reconnect_spread_s", "seconds over which agents spread their return after a restart"),
    Setting("readings_s", "seconds between two pushes of an agent's changed readings; grows with the fleet"),
    Setting("sample_s", "seconds between two readings that an agent keeps for the history; grows with the fleet"),
    Setting("accept_per_s", "new agent sockets accepted a second; more get 503 and Retry-After"),
    Setting("accept_burst", "new agent sockets accepted at once after a quiet time"),
    Setting("unauthenticated_max", "sockets that have not finished the handshake, at most"),
    Setting("first_request_s", "seconds for the first request of a connection; after that it is cut"),
    Setting("idle_connections_max", "connections that ask nothing at the moment, at most"),
    Setting("frames_per_s", "frames read of one agent a second, each 16 KiB counted as one more; the rest waits"),
    Setting("frames_burst", "frames read of one agent at once after a quiet time"),
    Setting("lease_s", "seconds a job stays with a node that says nothing about it"),
    Setting("lease_grace_s", "seconds added to a lease before it is taken away"),
    Setting("attempt_s", "seconds one attempt may take, however alive its node says it is"),
    Setting("attempts_max", "failed attempts until a job fails for good"),
    Setting("decline_backoff_s", "seconds a job is not offered again to a node that declined it"),
    Setting("jobs_open_max", "jobs that have not ended, at most"),
    Setting("status_persist_s", "seconds between two writes of a node's last status"),
    Setting("node_events_per_s", "events taken of one node a second and stream; beyond them it is slowed down"),
    Setting("node_events_burst", "events taken of one node and stream at once after a quiet time"),
    Setting("node_event_bytes_per_day", "bytes of jobs and events of one node a day; beyond them it is slowed down"),
    Setting("node_log_bytes_per_day", "bytes of log records of one node a day; more is left out and counted"),
    Setting("node_reading_bytes_per_day", "bytes of readings of one node a day; more is left out and counted"),
    Setting("keep_raw_s", "seconds the history keeps readings as they came"),
    Setting("keep_raw_bytes", "bytes of them, at most; the oldest go first"),
    Setting("keep_minute_s", "seconds the history keeps rollups of one minute"),
    Setting("keep_minute_bytes", "bytes of them, at most"),
    Setting("keep_ten_minutes_s", "seconds the history keeps rollups of ten minutes"),
    Setting("keep_ten_minutes_bytes", "bytes of them, at most"),
    Setting("keep_hour_s", "seconds the history keeps rollups of one hour"),
    Setting("keep_hour_bytes", "bytes of them, at most"),
    Setting("keep_events_s", "seconds events are kept; those of jobs that have not ended stay"),
    Setting("keep_events_bytes", "bytes of them, at most; the node with most gives up first"),
    Setting("keep_logs_s", "seconds log records are kept"),
    Setting("keep_logs_bytes", "bytes of them, at most; the node with most gives up first"),
    Setting("keep_records_s", "seconds ended sessions, and what the hub saw, are kept"),
    Setting("keep_records_max", "sessions, and things the hub saw, kept at most"),
    Setting("retention_every_s", "seconds between two sweeps of what is kept too long or is too much"),
    Setting("lag_tolerated_s", "seconds the hub's own loop may lag before silence stops to count"),
    Setting("shutdown_s", "seconds within which the hub stops"),
    Setting("artifact_bytes_max", "bytes of one artifact, at most"),
    Setting("artifacts_bytes_max", "bytes of all artifacts, at most"),
    Setting("verify_s", "seconds for the verification of one proof or the inspection of one file"),
    Setting("verify_memory_bytes", "bytes of address space of the verifying child, beyond the files it maps"),
    Setting("enroll_ttl_s", "seconds an enrolment token lives, unless said otherwise"),
    Setting("login_code_ttl_s", "seconds a login link lives"),
    Setting("browser_session_ttl_s", "seconds a browser stays logged in, at the most"),
    Setting("browser_idle_s", "seconds a browser stays logged in without asking anything; a page left open asks"),
    Setting("keep_audit_s", "seconds the record of who did what is kept, 200,000 entries at most"),
    Setting("enroll_per_s", "enrolment requests answered a second"),
    Setting("ssh_program", "OpenSSH's client, by name or path"),
    Setting("ssh_identities", "private keys, separated by commas; else one of the hub's own in data_dir/ssh"),
    Setting("ssh_doctor_key", "another private key, by which the doctor looks where a node refuses the hub's"),
    Setting("ssh_config_file", "an ssh_config of yours, read after what the hub insists on"),
    Setting("ssh_agent_socket", "an ssh agent's socket; its keys are offered too"),
    Setting("ssh_runtime_dir", "private folder of control sockets; else the first usable of the usual places"),
    Setting("ssh_connect_timeout_s", "whole seconds for a connection to a node's sshd"),
    Setting("ssh_deadline_s", "seconds for one attempt by ssh, connection and command together"),
    Setting("ssh_probes_max", "attempts by ssh that the hub makes by itself at the same time"),
    Setting("ssh_probe_after_s", "seconds a node is lost before the hub looks after it by ssh"),
    Setting("ssh_rehearse_s", "seconds between two rehearsals of the login at a node, 10 % more or less"),
    Setting("ssh_examine_s", "seconds between two looks at the hub's own side of the ways in"),
    Setting("ssh_attempts_kept_days", "days the records of attempts by ssh are kept, 200 of a node at most"),
    Setting("ssh_accept_suggestions", "1 accepts the address, user and port a node suggests for its sshd unasked"),
    Setting("ssh_recover_labels", "dead agents of nodes with these labels are restarted unasked: name=value,..., or *"),
    Setting("ssh_recover_per_hour", "of them at most so many within an hour, the first as a canary"),
    Setting(
        "alert_private_hosts", "hosts, addresses and networks off the internet that notices may go to: name,10.0.0.0/8"
    ),
    Setting("deadman_url", "asked again and again while the hub is well, so that another service misses it"),
    Setting("deadman_every_s", "seconds between two of these"),
)
"""Every setting, in the order of the documentation."""


class Shown(Struct, frozen=True, kw_only=True):
    """A setting for people to read."""

    name: str
    variable: str
    value: str
    default: str
    source: str
    help: str


SECRET: Final = frozenset({"deadman_url"})
HIDDEN: Final = "(set, and not shown)"


def shown_settings(config: Config) -> list[Shown]:
    """Every setting: what it is, what it would be, and who said so."""
    usual = Config(data_dir=Path())

    def text(of: Config, name: str) -> str:
        value = f"{of.listen_host}:{of.listen_port}" if name == "listen" else getattr(of, name)
        return "" if value is None else HIDDEN if value and name in SECRET else _as_text(value)

    return [
        Shown(
            name=setting.name,
            variable=ENVIRONMENT_PREFIX + setting.name.upper(),
            value=text(config, setting.name),
            default="" if setting.name == "data_dir" else text(usual, setting.name),
            source=_source(config.sources.get(setting.name, "")),
            help=setting.help,
        )
        for setting in SETTINGS
    ]


def _source(origin: str) -> str:
    if not origin:
        return "default"
    return "command line" if origin.startswith("--") else "environment"


def environment() -> Mapping[str, str]:
    """The surroundings of this process, for those it starts."""
    return dict(os.environ)


def under_systemd() -> bool:
    """Whether systemd waits for our word (Type=notify)."""
    return "NOTIFY_SOCKET" in os.environ


_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_PORT_MAX = 65_535
_POSITIVE = (
    "heartbeat_s",
    "send_deadline_s",
    "readings_s",
    "sample_s",
    "accept_per_s",
    "lease_s",
    "attempt_s",
    "lag_tolerated_s",
    "shutdown_s",
    "verify_s",
    "enroll_per_s",
    "accept_burst",
    "unauthenticated_max",
    "first_request_s",
    "idle_connections_max",
    "frames_per_s",
    "frames_burst",
    "attempts_max",
    "jobs_open_max",
    "artifact_bytes_max",
    "artifacts_bytes_max",
    "verify_memory_bytes",
    "enroll_ttl_s",
    "login_code_ttl_s",
    "browser_session_ttl_s",
    "browser_idle_s",
    "node_events_per_s",
    "node_events_burst",
    "node_event_bytes_per_day",
    "node_log_bytes_per_day",
    "node_reading_bytes_per_day",
    "retention_every_s",
    "ssh_connect_timeout_s",
    "ssh_deadline_s",
    "ssh_probes_max",
    "ssh_rehearse_s",
    "ssh_examine_s",
    "deadman_every_s",
)


def _as_text(value: object) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    return str(value)


def _default_data_dir() -> Path:
    """Where the hub's data lies for a user who said nothing."""
    try:
        return Path(platformdirs.user_data_dir("provewire")) / "hub"
    except RuntimeError as error:  # a service's user without a home
        raise ConfigError(f"data_dir: this user has no home directory ({error}); give --data-dir") from error


def _parse(origin: str, text: str, kind: object) -> object:
    """One value of a setting, by its field's type."""
    if kind is bool:
        if text.lower() in _TRUE:
            return True
        if text.lower() in _FALSE:
            return False
        raise ConfigError(f"{origin}: {text!r} is neither 1 nor 0")
    if kind in (int, float):
        try:
            number = int(text) if kind is int else float(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise ConfigError(f"{origin}: {text!r} is not {wanted}") from None
        if not math.isfinite(number) or number < 0:
            raise ConfigError(f"{origin}: {text} is out of range; it must be finite and not negative")
        return number
    if kind is str:
        return text
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        raise ConfigError(f"{origin}: {text!r} cannot be resolved: {error}") from error


def _host_port(origin: str, text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdecimal() or int(port) > _PORT_MAX:
        raise ConfigError(f"{origin}: {text!r} is not host:port, for example 127.0.0.1:8470 or [::1]:8470")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _check(config: Config) -> None:
    """What no single value can tell."""
    for name in _POSITIVE:
        if getattr(config, name) <= 0:
            raise ConfigError(f"{name} must be greater than 0")
    if (config.tls_cert is None) != (config.tls_key is None):
        missing = "tls_key" if config.tls_key is None else "tls_cert"
        raise ConfigError(f"{missing} is missing: a certificate and its key are given together")
    for name in ("tls_cert", "tls_key"):
        path = getattr(config, name)
        if path is not None and not path.is_file():
            raise ConfigError(f"{name}: there is no file {path}")
    if not (is_loopback(config.listen_host) or config.tls or config.insecure):
        raise ConfigError(
            f"listen: {config.listen_host} can be reached from other machines; "
            "give --tls-cert and --tls-key, or --insecure to send tokens and witnesses in the clear"
        )
    _check_intervals(config)
    _check_outward(config)
    keeps_s = (config.keep_raw_s, config.keep_minute_s, config.keep_ten_minutes_s, config.keep_hour_s)
    if list(keeps_s) != sorted(keeps_s) or config.keep_raw_s < KEEP_RAW_MIN_S:
        raise ConfigError(
            f"{KEEP_RAW_MIN_S:g} <= keep_raw_s <= keep_minute_s <= keep_ten_minutes_s <= keep_hour_s must hold, "
            f"since each tier is made from the one before; not {', '.join(f'{keep_s:.0f}' for keep_s in keeps_s)}"
        )
    if config.public_url and not config.public_url.startswith(("http://", "https://")):
        raise ConfigError(f"public_url: {config.public_url!r} must begin with http:// or https://")


def _check_outward(config: Config) -> None:
    """Whom the hub restarts, and whom it tells."""
    try:
        policy.rule(config.ssh_recover_labels, config.ssh_recover_per_hour)
    except ValueError as error:
        raise ConfigError(f"ssh_recover_labels: {error}") from None
    try:
        targets.Allowed.parse(config.alert_private_hosts)
    except ValueError as error:
        raise ConfigError(f"alert_private_hosts: {error}") from None
    if config.deadman_url and not config.deadman_url.startswith(("http://", "https://")):
        raise ConfigError("deadman_url must begin with http:// or https://")  # it may hold a secret: not shown


def _check_intervals(config: Config) -> None:
    """What agents are told must be what the wire allows, and leave room between being late and being lost."""
    for name in ("heartbeat_s", "readings_s", "sample_s"):
        if getattr(config, name) < INTERVAL_MIN_S:
            raise ConfigError(f"{name} must be at least {INTERVAL_MIN_S:g}, not {getattr(config, name):g}")
    if not config.heartbeat_s < config.stale_after_s < config.lost_after_s:
        raise ConfigError(
            f"heartbeat_s < stale_after_s < lost_after_s must hold, not {config.heartbeat_s:g}, "
            f"{config.stale_after_s:g}, {config.lost_after_s:g}"
        )
