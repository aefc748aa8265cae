"""Ways in by SSH, and what goes through them, in a real browser: one node and many; with a real sshd, key and agent."""

import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.world import Watched, World, world
from tests.e2e.node_world import NodeWorld, needs_node_world
from tests.e2e.rig import until
from tests.e2e.wheels import Wheels

SOON = {"PROVEWIRE_STALE_AFTER_S": "4", "PROVEWIRE_LOST_AFTER_S": "8", "PROVEWIRE_HEARTBEAT_S": "1"}
DONE_MS = 90_000.0
"""For what logs in at a node."""
OLDER, NEWER = "0.0.1", "0.0.2"


@pytest.fixture(scope="module")
def fleet(browser: Browser) -> Iterator[World]:
    """A hub with three made-up nodes that have labels."""
    with (
        world(browser, **SOON) as made,
        made.swarm(2, name="rented", labels={"provider": "vast", "region": "ro"}),
        made.swarm(1, name="own", labels={"provider": "own"}),
    ):
        yield made


@pytest.fixture(scope="module")
def node(fleet: World) -> NodeWorld:
    """A node with an sshd, which lets nobody in yet and takes the hub's key from its agent."""
    node = NodeWorld(fleet.rig, "zk-real")
    node.authorized_keys.write_text("# no line end")
    return node.join(fleet.hub, "--allow-key-install")


def id_of(fleet: World, name: str) -> str:
    return str(fleet.hub.nodes()[name]["id"])


def public_of(fleet: World) -> str:
    return (fleet.hub.folder / "ssh" / "id_ed25519.pub").read_text().strip()


def lines(node: NodeWorld) -> list[str]:
    return node.authorized_keys.read_text().splitlines()


def section(page: Page, heading: str) -> Locator:
    return page.locator("section").filter(has=page.get_by_role("heading", name=heading, exact=True))


def count_is(page: Page, shown: int) -> None:
    expect(page.locator(".toolbar .count")).to_have_text(re.compile(rf"^{shown} of "))


def chosen(seen: Watched, action: str) -> Locator:
    """The dialog of an action on all nodes that are listed."""
    seen.page.get_by_label("Choose all that are listed").check()
    seen.page.get_by_role("button", name=action).click()
    return seen.page.get_by_role("dialog")


def test_labels_filter_what_is_listed(fleet: World) -> None:
    with fleet.open() as seen:
        page = seen.page
        label = page.get_by_role("combobox", name="Label", exact=True)
        expect(label.locator("option", has_text="provider=vast (2)")).to_be_attached()
        label.select_option("provider=vast")
        count_is(page, 2)
        assert "label%3Aprovider%3Dvast" in page.url  # an address to send to somebody
        expect(page.locator(".fleet tbody")).to_contain_text("provider=vast region=ro")
        label.select_option("provider=own")
        count_is(page, 1)
        label.select_option("")
        expect(page.get_by_role("searchbox", name="Search nodes")).to_have_value("")
        page.get_by_role("searchbox", name="Search nodes").fill("-label:provider")
        expect(page.locator(".fleet tbody")).not_to_contain_text("rented")


def test_a_target_is_set_on_the_page_and_nonsense_is_refused(fleet: World) -> None:
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIL0V7C0+Tn3Y4mJVVGOSVhH0dXsm6ym2Kbtbvp+FwZ5x"
    with fleet.open(f"/nodes/{id_of(fleet, 'own-0000')}", "operator") as seen:
        ways = section(seen.page, "Way in by SSH")
        expect(ways).to_contain_text("none is set")
        ways.get_by_role("button", name="Set the target").click()
        ways.get_by_label("Target").fill("user@host:not-a-port")
        ways.get_by_role("button", name="Save").click()
        expect(ways.get_by_role("alert")).to_contain_text("port")
        ways.get_by_label("Target").fill("ssh -p 9 root@127.0.0.1")
        ways.get_by_label("Host keys").fill("ssh-ed25519 AAAA")
        ways.get_by_role("button", name="Save").click()
        expect(ways.get_by_role("alert")).to_be_visible()
        ways.get_by_label("Host keys").fill(key)
        assert seen.axe() == []
        ways.get_by_role("button", name="Save").click()
        expect(ways).to_contain_text("root@127.0.0.1:9 (by operator)")
        expect(ways.get_by_role("alert")).to_have_count(0)
        ways.get_by_role("button", name="Try the login now").click()
        expect(ways.locator(".attempts details").first).to_contain_text("Connection refused", timeout=DONE_MS)
        seen.go("#/alerts")
        alert = seen.page.get_by_role("article").filter(has_text="Connection refused")
        alert.get_by_role("link", name="own-0000").click()
        expect(ways).to_contain_text("root@127.0.0.1:9")
    told = fleet.hub.call("GET", f"nodes/{id_of(fleet, 'own-0000')}/ssh")
    assert [one["key"] for one in told["host_keys"]] == [key]


@needs_node_world
def test_many_get_the_key_and_are_restarted_and_each_that_cannot_says_why(fleet: World, node: NodeWorld) -> None:
    worker, agent = node.wait_worker(), node.wait_agent(0)
    with fleet.open("/?q=zk-real", "operator") as seen:
        page = seen.page
        page.get_by_role("searchbox", name="Search nodes").fill("name:r")  # zk-real and the rented ones
        count_is(page, 3)
        dialog = chosen(seen, "Install the hub's SSH key")
        expect(dialog).to_contain_text("Would be done to 1 node:")
        expect(dialog).to_contain_text("The agent appends the key over its live session")
        expect(dialog).to_contain_text("Passed over, 2 nodes:")
        assert lines(node) == ["# no line end"], "a preview changes nothing"
        assert seen.axe() == []
        dialog.get_by_role("button", name="Install it: 1 node").click()
        expect(dialog).to_contain_text("1 of 1 done", timeout=DONE_MS)
        expect(dialog.locator(".plan").first.locator(".state")).to_have_attribute("data-severity", "ok")
        assert lines(node) == ["# no line end", public_of(fleet)]
        dialog.get_by_role("button", name="Close").click()

        dialog = chosen(seen, "Restart their agents by SSH")
        expect(dialog).to_contain_text("Workers and cuzk are left alone")
        expect(dialog.locator(".plan").last).to_contain_text("the node has no way in")
        dialog.get_by_role("button", name="Restart them: 1 node").click()
        expect(dialog).to_contain_text("the agent runs as process", timeout=DONE_MS)
        assert node.wait_agent(agent) != agent
        assert node.wait_worker() == worker
        dialog.get_by_role("button", name="Close").click()

        fleet.hub.wait_node(node.name)
        dialog = chosen(seen, "Look after them by SSH")
        dialog.get_by_role("button", name="Look now: 1 node").click()
        expect(dialog).to_contain_text("1 of 1 done", timeout=DONE_MS)
        dialog.get_by_role("button", name="Close").click()
        dialog = chosen(seen, "Install the hub's SSH key")
        expect(dialog).to_contain_text("This can be done to none of them.", timeout=DONE_MS)
        expect(dialog).to_contain_text("there is nothing to do")


@needs_node_world
def test_the_hubs_key_is_rotated_and_the_old_one_leaves_the_node(fleet: World, node: NodeWorld) -> None:
    shutil.copyfile(fleet.hub.folder / "ssh" / "id_ed25519.pub", node.authorized_keys)
    old = public_of(fleet)
    # The way in that leads nowhere would keep the rotation open for ever.
    fleet.hub.call("DELETE", f"nodes/{id_of(fleet, 'own-0000')}/ssh")
    with fleet.open("/ssh", "operator") as seen:
        page = seen.page
        expect(page.locator("pre").first).to_contain_text(old.split()[1])
        page.get_by_role("button", name="Rotate it").click()
        dialog = page.get_by_role("dialog")
        expect(dialog.locator("ol li").first).to_be_visible()
        expect(dialog).to_contain_text("1 node with a way in")
        assert public_of(fleet) == old, "a preview changes nothing"
        assert seen.axe() == []
        dialog.get_by_role("button", name="Rotate it").click()
        expect(dialog.get_by_text("new key proved", exact=True)).to_be_visible(timeout=DONE_MS)
        expect(dialog.get_by_text("old key removed", exact=True)).to_be_visible()
        assert public_of(fleet) != old
        assert lines(node) == [public_of(fleet)]
        dialog.get_by_role("button", name="Close").click()
        expect(page.locator("pre").first).to_contain_text(public_of(fleet).split()[1])
        expect(section(page, "Rotation")).to_contain_text("zk-real")
        assert seen.axe() == []


@needs_node_world
def test_what_would_be_wrong_is_refused_before_anything_is_done(fleet: World, node: NodeWorld) -> None:
    with fleet.open(f"/nodes/{id_of(fleet, node.name)}") as seen:
        mend = section(seen.page, "Put it right")
        dialog = seen.page.get_by_role("dialog")
        mend.get_by_role("button", name="Enrol it anew").click()
        expect(dialog.get_by_role("alert")).to_contain_text("the node is connected")
        dialog.get_by_role("button", name="Close").click()
        mend.get_by_role("button", name="Upgrade it").click()
        expect(dialog.get_by_role("alert")).to_contain_text("an upgrade needs")
        dialog.get_by_role("button", name="Close").click()
        mend.get_by_text("Another way in, and more").click()
        mend.get_by_label("Wheel to upgrade to").fill("/nowhere/provewire-0.0.2-py3-none-any.whl")
        mend.get_by_role("button", name="Upgrade it").click()
        expect(dialog.get_by_role("alert")).to_contain_text("cannot be read: No such file or directory")
        expect(dialog.get_by_role("button", name="Look again")).to_be_visible()
        assert seen.axe() == []


def test_a_node_is_revoked_from_its_view(fleet: World) -> None:
    with fleet.open(f"/nodes/{id_of(fleet, 'rented-0001')}", "operator") as seen:
        page = seen.page
        page.get_by_role("button", name="Revoke", exact=True).click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("It comes back only by a new enrolment")
        dialog.get_by_role("button", name="Leave it").click()
        assert "rented-0001" in fleet.hub.nodes()
        page.get_by_role("button", name="Revoke", exact=True).click()
        dialog.get_by_role("button", name="Revoke it").click()
        expect(dialog).to_contain_text("It is revoked.")
        dialog.get_by_role("button", name="Close").click()
        expect(page.locator(".fleet tbody")).to_contain_text("rented-0000")
        expect(page.locator(".fleet tbody")).not_to_contain_text("rented-0001")
    assert "rented-0001" not in fleet.hub.nodes()


@pytest.mark.long
@pytest.mark.timeout(400)
@needs_node_world
def test_an_agent_is_upgraded_and_then_enrolled_anew_from_the_page(fleet: World, tmp_path: Path) -> None:
    wheel_of = Wheels(tmp_path)
    node = NodeWorld(fleet.rig, "older", wheel=wheel_of(OLDER))
    shutil.copyfile(fleet.hub.folder / "ssh" / "id_ed25519.pub", node.authorized_keys)
    node.join(fleet.hub)
    worker, agent, old_id = node.wait_worker(), node.wait_agent(0), id_of(fleet, "older")
    with fleet.open(f"/nodes/{old_id}") as seen:
        page = seen.page
        mend, dialog = section(page, "Put it right"), page.get_by_role("dialog")
        expect(section(page, "About it")).to_contain_text(OLDER)
        mend.get_by_text("Another way in, and more").click()
        mend.get_by_label("Wheel to upgrade to").fill(str(wheel_of(NEWER)))
        mend.get_by_role("button", name="Upgrade it").click()
        expect(dialog).to_contain_text(f"pip installs provewire {NEWER}")
        dialog.get_by_role("button", name="Upgrade it").click()
        expect(dialog.get_by_text("It printed")).to_be_visible(timeout=DONE_MS)
        expect(dialog).to_contain_text(f"provewire {NEWER} is installed now")
        dialog.get_by_role("button", name="Close").click()
        agent = node.wait_agent(agent)
        expect(section(page, "About it")).to_contain_text(NEWER, timeout=DONE_MS)
        assert node.wait_worker() == worker

        # Its agent hangs, and its identity is of no use any more.
        os.kill(agent, signal.SIGSTOP)
        expect(page.locator(".lights")).to_contain_text("lost, last heard", timeout=DONE_MS)
        expect(page.locator(".then")).to_contain_text("It is not heard. Workers, jobs and cards are as they were at")
        mend.get_by_role("button", name="Enrol it anew").click()
        expect(dialog).to_contain_text("The node becomes a new one with another id")
        expect(dialog).to_contain_text("a new enrolment token")
        dialog.get_by_role("button", name="Enrol it anew").click()
        expect(dialog.locator(".state[data-severity=ok]").first).to_be_visible(timeout=DONE_MS)
        dialog.get_by_role("button", name="Close").click()

        def anew() -> bool:
            nodes = fleet.hub.call("GET", "nodes?limit=500")["nodes"]
            return any(one["name"] == "older" and one["id"] != old_id and one["state"] == "online" for one in nodes)

        until(anew, "the node to be here under another id")
        assert node.wait_worker() == worker
