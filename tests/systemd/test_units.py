"""The units, judged by systemd itself. Its exit code misses typos, so stderr has to be empty too."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "systemd"
PROGRAM = "/opt/provewire/bin/provewire"
NAMES = {
    "provewire-hub.service": "provewire-hub.service",
    "provewire-agent.service": "provewire-agent.service",
    "provewire-worker@.service": "provewire-worker@host.service",
}

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="systemd-analyze is missing: apt-get install systemd"
)


def prepared(name: str, folder: Path, text: str | None = None) -> Path:
    """The unit with an existing program in its place, under an instance's name if it is a template."""
    text = (UNITS / name).read_text() if text is None else text
    path = folder / NAMES[name]
    path.write_text(text.replace(PROGRAM, "/bin/true"))
    return path


def verify(path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(path)], capture_output=True, text=True, check=False, timeout=60
    )


def options(name: str) -> configparser.SectionProxy:
    class Folding(dict[str, str]):
        """systemd allows a key more than once; here the values are joined."""

        def __setitem__(self, key: str, value: str) -> None:
            if isinstance(value, list) and isinstance(self.get(key), list):
                self[key].extend(value)
            else:
                super().__setitem__(key, value)

    parser = configparser.RawConfigParser(strict=False, dict_type=Folding)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string((UNITS / name).read_text())
    return parser["Service"]


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_a_unit_is_accepted_without_a_word(name: str, tmp_path: Path) -> None:
    done = verify(prepared(name, tmp_path))
    assert (done.returncode, done.stderr) == (0, "")


@needs_systemd
@pytest.mark.parametrize("name", NAMES)
def test_a_typo_would_be_seen(name: str, tmp_path: Path) -> None:
    text = (UNITS / name).read_text().replace("UMask=", "Umasc=")
    done = verify(prepared(name, tmp_path, text))
    assert "Umasc" in done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_a_unit_restarts_for_ever_but_not_after_a_configuration_fault(name: str) -> None:
    service = options(name)
    assert service["Type"] == "notify"
    assert service["Restart"] == "always"
    assert service["RestartPreventExitStatus"] == "64"
    assert "StartLimitIntervalSec=0" in (UNITS / name).read_text()


def test_stopping_the_agent_leaves_workers_alone() -> None:
    assert options("provewire-agent.service")["KillMode"] == "process"
    agent = (UNITS / "provewire-agent.service").read_text()
    worker = (UNITS / "provewire-worker@.service").read_text()
    for binding in ("BindsTo=", "PartOf=", "Requires="):
        assert binding not in agent
        assert binding not in worker


def test_stopping_a_worker_waits_for_its_proof() -> None:
    assert options("provewire-worker@.service")["TimeoutStopSec"] == "infinity"


def variables(name: str) -> dict[str, str]:
    """What the unit's ``Environment=`` lines set."""
    lines = [line for line in (UNITS / name).read_text().splitlines() if line.startswith("Environment=")]
    return dict(pair.split("=", 1) for line in lines for pair in line.removeprefix("Environment=").split())


def test_agent_and_workers_share_a_folder_and_the_hub_has_its_own_beside_it() -> None:
    agent, hub = (variables(f"provewire-{name}.service")["PROVEWIRE_DATA_DIR"] for name in ("agent", "hub"))
    worker = options("provewire-worker@.service")
    assert f"--dir {agent}/workers/%i" in worker["ExecStart"]
    assert Path(hub).parent == Path(agent).parent
    assert hub != agent
    for name, folder in (("hub", hub), ("agent", agent), ("worker@", agent)):
        # One inside the other would leave the inner one to whoever owns the outer one.
        assert f"/var/lib/{options(f'provewire-{name}.service')['StateDirectory']}" == folder


def test_a_worker_may_write_where_its_kernels_are_kept() -> None:
    worker = options("provewire-worker@.service")
    assert f"{variables('provewire-worker@.service')['XDG_CACHE_HOME']}/provewire" == "/var/cache/provewire"
    assert worker["CacheDirectory"] == "provewire"
    assert worker["PrivateTmp"] == "yes"
