"""``--observe`` on a card in production: what the real process, and its NVML child, load."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from agent.identity import Enrolled, load_key, save_enrolled
from tests.agent.small_hub import HUB_ID, SmallHub, running_hub
from tests.agent.virtual_time import eventually
from wire.frames import Stream

ROOT = Path(__file__).parents[2]
AGENT_ID = "01890a5d-ac96-774b-bcce-b302099a0001"
AUDIT = """
import os, sys
seen = open(os.environ["SEEN"], "a", buffering=1)
def hook(event, args):
    if event in ("import", "ctypes.dlopen", "subprocess.Popen"):
        seen.write(f"{event} {args[0] if event != 'subprocess.Popen' else args[1]}\\n")
sys.addaudithook(hook)
"""
"""As ``sitecustomize``: every Python process below notes what it imports, opens as a library, and starts."""


@pytest.fixture
async def hub() -> AsyncIterator[SmallHub]:
    async with running_hub() as running:
        yield running


async def test_it_loads_no_cuda_starts_no_worker_and_says_only_what_it_sees(hub: SmallHub, tmp_path: Path) -> None:
    data, seen = tmp_path / "d", tmp_path / "seen"
    data.mkdir()
    (tmp_path / "sitecustomize.py").write_text(AUDIT)
    hub.agents[AGENT_ID] = load_key(data).public
    save_enrolled(data, Enrolled(agent_id=AGENT_ID, hub_id=HUB_ID, hub_key=hub.public_key.hex(), hub_url=hub.url))
    environ = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}", "SEEN": str(seen), "PROVEWIRE_LOG": "json"}
    argv = [sys.executable, "-m", "cli.main", "agent", "--observe", "--local", "off", "--data-dir", str(data)]
    agent = await asyncio.create_subprocess_exec(*argv, env=environ, cwd=ROOT, stderr=subprocess.DEVNULL)
    try:
        await hub.opened()
        await eventually(lambda: "libnvidia-ml" in seen.read_text(), "the child to look for NVML", 60.0)
        await eventually(lambda: any(told.host for _, told in hub.statuses), "readings", 60.0)
        children = psutil.Process(agent.pid).children(recursive=True)
        assert all("agent.sensors.nvml_child" in child.cmdline() for child in children)
    finally:
        agent.terminate()
        async with asyncio.timeout(30):
            code = await agent.wait()
    assert code == 0
    assert hub.hellos[0].capabilities == ["observe"]
    assert not hub.events(Stream.JOBS)
    loaded = seen.read_text()
    for word in ("pycuda", "libcuda", "nvrtc", "prover.backends", "kernels", "prover.worker.main", "aiohttp"):
        assert word not in loaded, word
    assert not (data / "workers").exists()
