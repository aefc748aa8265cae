"""What breaks on the hub's own side while every node is well: each named, before anybody needs a way in."""

import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hub.ssh.selfcheck import DESCRIPTORS_SHARE
from tests.e2e.page import no_page, page
from tests.e2e.rig import Hub, Rig, until
from tests.hub.ssh.sshd import free_port, make_key, needs_sshd

pytestmark = needs_sshd

NAMED = {
    "identity_refused": "the hub's key was replaced: SHA256:",
    "host_key_unknown": "was gone; it was written anew from the pinned host keys",
    "control_path_unusable": "for control sockets, was gone; made anew",
    "ssh_missing": "cannot be started: No such file or directory",
}
BANNER = "document.querySelector('.banners').innerText"


def problems(hub: Hub) -> dict[str, str]:
    told: dict[str, Any] = hub.call("GET", "incidents")
    assert told["lost"] == 0
    return {one["cause"]: one["sentence"] for one in told["problems"]}


def break_everything(hub: Hub, program: Path, runtime: Path) -> None:
    identity = hub.folder / "ssh" / "id_ed25519"
    another = make_key(program.with_name("another"))
    shutil.copyfile(another, identity)
    shutil.copyfile(f"{another}.pub", f"{identity}.pub")
    (hub.folder / "ssh" / "known_hosts").unlink()
    shutil.rmtree(runtime)
    program.unlink()


@contextmanager
def few_files(hub: Hub) -> Iterator[None]:
    """The hub has so many files open as it may have, but for a few."""
    assert hub.process is not None
    pid = hub.process.pid
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    taken = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - counted
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (int(taken / DESCRIPTORS_SHARE), before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


async def test_each_fault_of_the_hubs_own_side_is_named_while_every_node_is_well(rig: Rig) -> None:
    program, runtime = rig.folder / "ssh", rig.folder / "r"
    program.symlink_to(str(shutil.which("ssh")))
    hub = rig.hub(
        PROVEWIRE_SSH_PROGRAM=str(program), PROVEWIRE_SSH_RUNTIME_DIR=str(runtime), PROVEWIRE_SSH_EXAMINE_S="1"
    )
    agent = rig.agent().start(hub, "--observe", "--token-file", str(hub.enroll_token(rig.folder)))
    node = hub.wait_node(agent.name)
    host_key = " ".join(make_key(rig.folder / "host").with_suffix(".pub").read_text().split()[:2])
    body = {"target": f"root@127.0.0.1:{free_port()}", "host_keys": [host_key]}
    hub.call("PUT", f"nodes/{node['id']}/ssh", body)
    until(lambda: hub.call("GET", "incidents")["examined_at_ms"], "the hub to look at its own side")
    assert problems(hub).keys().isdisjoint(NAMED)
    if reason := no_page():
        pytest.skip(reason)
    async with page(hub) as browser:
        break_everything(hub, program, runtime)
        for words in NAMED.values():
            await browser.until(f"{BANNER}.includes({words!r})")
        with few_files(hub):  # too few for new connections at times, but the page has one
            await browser.until(f"{BANNER}.includes('The hub has no file descriptors left')")
    told = problems(hub)
    assert {cause: words for cause, words in NAMED.items() if words not in told.get(cause, "")} == {}
    assert "out_of_descriptors" in told
    assert told.keys().isdisjoint({"key_unreadable", "key_missing"})
    assert hub.nodes()[agent.name]["state"] == "online"
    assert runtime.is_dir()
    assert host_key in (hub.folder / "ssh" / "known_hosts").read_text()
