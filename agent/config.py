"""The agent's settings: read once from options and environment, passed down as one frozen value.

The only reader of the environment on this side. Options win over ``PROVEWIRE_*`` variables, these over defaults.
"""

import ipaddress
import re
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from platformdirs import user_data_dir

from agent.cards import count_cards
from agent.errors import ConfigFault
from agent.logs.limits import BURST, BYTES_PER_DAY, RECORDS_PER_S, Rates
from agent.logs.settings import LogSettings, log_settings
from agent.outbox_bounds import AGE_S_MAX, BYTES_MAX, Bounds
from agent.ssh_settings import SshSettings, ssh_settings
from wire.limits import NAME_CHARS_MAX

SOCKET_PATH_BYTES_MAX = 107
"""What the kernel's ``sockaddr_un`` can hold, less its final zero byte."""
SYSTEM_DATA_DIR = Path("/var/lib/provewire/agent")
"""Of the agent that systemd runs: what its unit says."""
LOCAL_DEFAULT = "127.0.0.1:8471"
PORT_MAX = 65_535
DEVICE = re.compile(r"auto|host|cuda:(0|[1-9][0-9]{0,2})")
SCHEMES = {"http": "http", "https": "https", "ws": "http", "wss": "https"}
CUZK_DEFAULT = "127.0.0.1:9821"
CUZK_GRPC_DEFAULT = "unix:///run/curio/cuzk.sock,127.0.0.1:9820"
"""As its code and as its example file have it."""
TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"", "0", "false", "no", "off"})
WORKERS = ("spawn", "external")


class HubUrl(Struct, frozen=True):
    """Where the hub is: ``http[s]://host[:port][/prefix]`` without a final slash."""

    base: str

    @property
    def websocket(self) -> str:
        """The address the agent dials."""
        return "ws" + self.base.removeprefix("http") + "/agent"

    @property
    def secure(self) -> bool:
        """Whether TLS protects the way."""
        return self.base.startswith("https://")

    @property
    def loopback(self) -> bool:
        """Whether the hub is on this machine."""
        return is_loopback(urlsplit(self.base).hostname or "")


class GrpcAddress(Struct, frozen=True):
    """Where a gRPC server is: a loopback ``host`` and ``port``, or a unix socket's ``path``."""

    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.path:
            return f"unix://{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class CuzkAddresses(Struct, frozen=True):
    """Where a cuzk-daemon of this machine is looked for."""

    http: tuple[str, int] = ("127.0.0.1", 9821)
    grpc: tuple[GrpcAddress, ...] = ()
    """In the order to try."""
    asked: bool = False
    """Whether the operator named it: then it is shown as down where there is none."""


class Config(Struct, frozen=True):
    """Everything the agent is told."""

    data_dir: Path
    hub: HubUrl | None = None
    """None: as saved at enrolment, or as the token says."""
    token_file: Path | None = None
    name: str = "node"
    device: str = "auto"
    cards: int = 0
    """Cards that ``auto`` stands for."""
    observe: bool = False
    """Telemetry only: no worker, no job."""
    local: tuple[str, int] | None = ("127.0.0.1", 8471)
    cuzk: CuzkAddresses | None = None
    """None: no cuzk-daemon is looked for."""
    ca: Path | None = None
    """Certificates to trust beside the system's, PEM."""
    insecure: bool = False
    """Off loopback without TLS. Shown everywhere."""
    allow_key_install: bool = False
    """The hub may let its SSH key in on this node, over the session."""
    spawn_workers: bool = True
    """False: systemd units own the workers."""
    watchdog_s: float = 0.0
    """Half of what systemd's watchdog allows; 0 for no watchdog."""
    environ: Mapping[str, str] = {}
    """Passed on to the workers."""
    readings_s: float = 5.0
    """Between two readings of the host."""
    gpu_readings_s: float = 5.0
    worker_ping_s: float = 2.0
    logs: LogSettings = LogSettings()
    """Which logs are shipped, and how much of them."""
    ssh: SshSettings = SshSettings()
    """What is suggested about this node's sshd."""
    outbox: Bounds = Bounds()
    """What the outbox holds before logs, then readings, then events are dropped."""
    artifact_bytes_max: int = 64 * 1024 * 1024 * 1024
    """One input; a larger one is refused before a byte is fetched."""
    artifacts_keep_bytes: int = 64 * 1024 * 1024 * 1024
    """Inputs kept for later jobs; the least recently used go first."""

    @property
    def socket_path(self) -> Path:
        """Where the local view is served."""
        return self.data_dir / "agent.sock"

    @property
    def reasons_path(self) -> Path:
        """Why there was no session, the last times."""
        return self.data_dir / "reasons.json"

    @property
    def workers_dir(self) -> Path:
        """One folder per device below."""
        return self.data_dir / "workers"

    def worker_dir(self, device: str) -> Path:
        """The folder of one device's worker."""
        return self.workers_dir / device.replace(":", "-")


def is_loopback(host: str) -> bool:
    """Whether ``host`` can only mean this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def parse_hub(text: str, *, insecure: bool, source: str = "--hub") -> HubUrl:
    """The hub's address from ``http[s]://`` or ``ws[s]://`` text.

    Raises:
        ConfigFault: not such an address, or one off loopback without TLS.
    """
    try:
        parts = urlsplit(text.strip())
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ConfigFault(f"{source} {text!r} is no address: {error}") from None
    if parts.scheme not in SCHEMES or not host:
        raise ConfigFault(f"{source} {text!r} is no address of a hub; it looks like https://hub.example.org")
    if parts.query or parts.fragment or parts.username or parts.password:
        raise ConfigFault(f"{source} must be scheme, host, port and path only; leave out credentials, '?' and '#'")
    if port == 0:
        raise ConfigFault(f"{source} {text!r} has port 0, which nobody can dial")
    path = parts.path.rstrip("/")
    url = HubUrl(base=urlunsplit((SCHEMES[parts.scheme], parts.netloc, path, "", "")))
    if not (url.secure or url.loopback or insecure):
        raise ConfigFault(
            f"{source} {text!r} is not on this machine and has no TLS; use https, or --insecure if you must"
        )
    return url


def parse_local(text: str, source: str = "--local", example: str = LOCAL_DEFAULT) -> tuple[str, int] | None:
    """``HOST:PORT`` on loopback, or ``off``.

    Raises:
        ConfigFault: something else, or not loopback.
    """
    if text == "off":
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > PORT_MAX:
        raise ConfigFault(f"{source} {text!r} must be HOST:PORT or off, for example {example}")
    if not is_loopback(host):
        raise ConfigFault(
            f"{source} {text!r} is not loopback; what is said there has no credentials and stays on this machine"
        )
    return host.strip("[]"), int(port)


def parse_cuzk(http: str | None, grpc: str | None) -> CuzkAddresses | None:
    """Where a cuzk-daemon is looked for, from ``--cuzk`` and ``--cuzk-grpc`` (None: not given).

    Raises:
        ConfigFault: an address that is none, or is not on this machine.
    """
    address = parse_local(http or CUZK_DEFAULT, "--cuzk", CUZK_DEFAULT)
    ways = "" if grpc == "off" else grpc or CUZK_GRPC_DEFAULT
    grpc_addresses = tuple(_grpc_address(way) for way in ways.split(",") if way)
    if address is None:
        return None
    return CuzkAddresses(http=_dialled(address, "--cuzk"), grpc=grpc_addresses, asked=bool(http))


def _dialled(address: tuple[str, int], source: str) -> tuple[str, int]:
    """An address one can dial: by number, so that no name service is asked each second."""
    host, port = address
    if port == 0:
        raise ConfigFault(f"{source} has port 0, which nobody can dial")
    return "127.0.0.1" if host == "localhost" else host, port


def _grpc_address(text: str) -> GrpcAddress:
    path = text.removeprefix("unix://")
    if path != text:
        if not path.startswith("/") or len(path.encode()) > SOCKET_PATH_BYTES_MAX:
            raise ConfigFault(f"--cuzk-grpc {text!r} must name a socket by its whole path: unix:///run/curio/cuzk.sock")
        return GrpcAddress(path=path)
    address = parse_local(text.removeprefix("http://"), "--cuzk-grpc", "127.0.0.1:9820 or unix:///run/curio/cuzk.sock")
    if address is None:
        raise ConfigFault("--cuzk-grpc off stands alone")
    host, port = _dialled(address, "--cuzk-grpc")
    return GrpcAddress(host=host, port=port)


def data_dir_of(option: str | None, environ: Mapping[str, str]) -> Path:
    """The agent's data directory: the option, else ``PROVEWIRE_DATA_DIR``, else under XDG.

    Raises:
        ConfigFault: it is to lie in a home directory, and this user has none.
    """
    text = option or environ.get("PROVEWIRE_DATA_DIR")
    try:
        return (Path(text) if text else Path(user_data_dir("provewire")) / "agent").expanduser().absolute()
    except RuntimeError as error:  # a service's user without a home
        raise ConfigFault(f"--data-dir: this user has no home directory ({error}); give --data-dir") from error


def data_dir_to_ask(option: str | None, environ: Mapping[str, str], system: Path = SYSTEM_DATA_DIR) -> Path:
    """The data directory of the agent that runs here: as told, else the user's own, else that of systemd's unit."""
    own = data_dir_of(option, environ)
    told = option or environ.get("PROVEWIRE_DATA_DIR")
    return system if not told and not own.exists() and system.parent.exists() else own


def check_socket_path(path: Path) -> None:
    """Refuse a socket path the kernel cannot hold.

    Raises:
        ConfigFault: it is too long.
    """
    size_bytes = len(bytes(path))
    if size_bytes > SOCKET_PATH_BYTES_MAX:
        raise ConfigFault(
            f"the socket path {path} has {size_bytes} bytes and the kernel takes {SOCKET_PATH_BYTES_MAX}; "
            "use a shorter --data-dir"
        )


def _flag(environ: Mapping[str, str], variable: str) -> bool:
    text = environ.get(variable, "").strip().lower()
    if text in TRUE:
        return True
    if text in FALSE:
        return False
    raise ConfigFault(f"{variable} is {text!r}; it may be 1 or 0")


def _whole_number(environ: Mapping[str, str], variable: str, default: int, low: int, high: int) -> int:
    text = environ.get(variable, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise ConfigFault(f"{variable} is {text!r}; it must be a whole number from {low} to {high}")
    return int(text)


def _watchdog_s(environ: Mapping[str, str]) -> float:
    text = environ.get("WATCHDOG_USEC", "")
    return int(text) / 2e6 if text.isascii() and text.isdigit() else 0.0


def _logs(
    environ: Mapping[str, str], files: Sequence[str] | None, units: Sequence[str] | None, level: str | None
) -> LogSettings:
    rates = Rates(
        records_per_s=_whole_number(environ, "PROVEWIRE_LOG_RECORDS_PER_S", int(RECORDS_PER_S), 1, 100_000),
        burst=_whole_number(environ, "PROVEWIRE_LOG_BURST", BURST, 1, 1_000_000),
        bytes_per_day=_whole_number(environ, "PROVEWIRE_LOG_BYTES_PER_DAY", BYTES_PER_DAY, 0, 1 << 40),
    )
    return log_settings(
        files or [text for text in environ.get("PROVEWIRE_LOG_FILE", "").split(":") if text],
        units or environ.get("PROVEWIRE_LOG_UNIT", "").replace(",", " ").split(),
        level or environ.get("PROVEWIRE_LOG_SHIP") or "info",
        rates,
    )


def load(
    environ: Mapping[str, str],
    *,
    hub: str | None = None,
    data_dir: str | None = None,
    token_file: str | None = None,
    name: str | None = None,
    device: str | None = None,
    observe: bool = False,
    local: str | None = None,
    cuzk: str | None = None,
    cuzk_grpc: str | None = None,
    log_file: Sequence[str] | None = None,
    log_unit: Sequence[str] | None = None,
    log_ship: str | None = None,
    ssh_address: str | None = None,
    ssh_user: str | None = None,
    ca: str | None = None,
    insecure: bool = False,
    allow_key_install: bool = False,
) -> Config:
    """Settings from parsed options (None: not given) and the environment.

    Raises:
        ConfigFault: one of them cannot be used; the sentence names it.
    """
    directory = data_dir_of(data_dir, environ)
    insecure = insecure or _flag(environ, "PROVEWIRE_INSECURE")
    hub_text = hub or environ.get("PROVEWIRE_HUB")
    device = device or environ.get("PROVEWIRE_DEVICE") or "auto"
    if not DEVICE.fullmatch(device):
        raise ConfigFault(f"--device {device!r} must be auto, host or cuda:N")
    name = name or environ.get("PROVEWIRE_NAME") or socket.gethostname() or "node"
    if len(name) > NAME_CHARS_MAX or not name.isprintable():
        raise ConfigFault(f"--name must be 1 to {NAME_CHARS_MAX} printable characters")
    workers = environ.get("PROVEWIRE_WORKERS") or "spawn"
    if workers not in WORKERS:
        raise ConfigFault(f"PROVEWIRE_WORKERS is {workers!r}; it may be {' or '.join(WORKERS)}")
    bytes_max = _whole_number(environ, "PROVEWIRE_OUTBOX_BYTES", BYTES_MAX, 1 << 20, 1 << 40)
    age_s_max = _whole_number(environ, "PROVEWIRE_OUTBOX_AGE_S", int(AGE_S_MAX), 60, 31_536_000)
    ca = ca or environ.get("PROVEWIRE_CA")
    if ca and not Path(ca).is_file():
        raise ConfigFault(f"--ca {ca}: there is no such file")
    token_file = token_file or environ.get("PROVEWIRE_TOKEN_FILE")
    config = Config(
        data_dir=directory,
        hub=parse_hub(hub_text, insecure=insecure) if hub_text else None,
        token_file=Path(token_file) if token_file else None,
        name=name,
        device=device,
        cards=count_cards(environ),
        observe=observe or _flag(environ, "PROVEWIRE_OBSERVE"),
        local=parse_local(local or environ.get("PROVEWIRE_LOCAL") or LOCAL_DEFAULT),
        cuzk=parse_cuzk(cuzk or environ.get("PROVEWIRE_CUZK"), cuzk_grpc or environ.get("PROVEWIRE_CUZK_GRPC")),
        logs=_logs(environ, log_file, log_unit, log_ship),
        ssh=ssh_settings(
            ssh_address or environ.get("PROVEWIRE_SSH_ADDRESS", ""), ssh_user or environ.get("PROVEWIRE_SSH_USER", "")
        ),
        ca=Path(ca) if ca else None,
        insecure=insecure,
        allow_key_install=allow_key_install or _flag(environ, "PROVEWIRE_ALLOW_KEY_INSTALL"),
        spawn_workers=workers == "spawn",
        outbox=Bounds(bytes_max=bytes_max, age_s_max=age_s_max),
        watchdog_s=_watchdog_s(environ),
        environ=dict(environ),
    )
    check_socket_path(config.socket_path)
    for candidate in devices(config):
        check_socket_path(config.worker_dir(candidate) / "worker.sock")
    return config


def devices(config: Config) -> list[str]:
    """The devices this agent keeps a worker for: one for each card, and the host where there is none."""
    if config.observe:
        return []
    if config.device != "auto":
        return [config.device]
    return [f"cuda:{number}" for number in range(config.cards)] or ["host"]
