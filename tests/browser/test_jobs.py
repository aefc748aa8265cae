"""Jobs and circuits in a real browser: registered, handed in, proved, downloaded, and accepted by snarkjs.

The node is real, and so is every file.
"""

import http.client
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.site import HOSTILE, asked_for, is_text_only
from tests.browser.world import PHONE, WAIT_MS, World
from tests.e2e.conftest import SNARKJS
from tests.e2e.rig import CIRCUITS, DEADLINE_S, Agent

expect.set_options(timeout=WAIT_MS)
PROVED_MS = DEADLINE_S * 1000
ZKEY, WTNS = CIRCUITS / "merkle8.zkey", CIRCUITS / "merkle8.wtns"


@pytest.fixture(scope="module")
def node(hub: World) -> Agent:
    return hub.rig.agent("node-a").join(hub.hub)


@pytest.fixture(scope="module")
def circuit(hub: World) -> str:
    """Registered from the page, by an operator."""
    with hub.open("/circuits", "operator") as watched:
        page = watched.page
        expect(page.get_by_text("None is registered yet.")).to_be_visible()
        page.get_by_role("button", name="Register a circuit").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Proving key").set_input_files(ZKEY)
        expect(dialog.get_by_label("Name")).to_have_value("merkle8")
        expect(dialog).to_contain_text("It is at the hub")
        dialog.get_by_role("button", name="Register it").click()
        card = page.get_by_role("article", name="merkle8")
        expect(card).to_contain_text("1 contribution, as its file says")
        expect(card).to_contain_text("every node")
        assert watched.axe() == []
    return str(hub.hub.call("GET", "circuits/merkle8")["id"])


def hand_in(page: Page, wtns: Path | dict[str, str | bytes], label: str = "") -> None:
    page.get_by_role("button", name="Hand in a job").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Witness").set_input_files(wtns)  # type: ignore[arg-type]  # a path or a payload
    dialog.get_by_label("Label").fill(label)
    expect(dialog).to_contain_text("at the hub")
    dialog.get_by_role("button", name="Hand it in").click()


@pytest.mark.usefixtures("node", "circuit")
def test_a_job_goes_from_the_page_to_a_proof_that_snarkjs_accepts(hub: World, tmp_path: Path) -> None:
    with hub.open("/", "operator", accept_downloads=True) as watched:
        page = watched.page
        page.keyboard.press("g")
        page.keyboard.press("j")
        expect(page.get_by_role("heading", name="Jobs", exact=True)).to_be_visible()
        hand_in(page, WTNS, f"block 17 {HOSTILE}\x1b[2J"[:128])
        verdict = page.locator(".verdict")
        expect(verdict).to_contain_text("done", timeout=PROVED_MS)
        expect(page.locator("h1 .label")).to_contain_text(f"block 17 {HOSTILE}"[:100])
        is_text_only(page)
        bars = page.get_by_role("table", name="What took how long")
        for phase in ("waits in the queue", "attempt 1 on node-a", "msm_a", "verify"):
            expect(bars).to_contain_text(phase)
        assert watched.axe() == []
        for name in ("proof.json", "public.json", "verification_key.json"):
            with page.expect_download() as waited:
                page.get_by_role("link", name=name).click()
            waited.value.save_as(tmp_path / name)
        page.keyboard.press("g")
        page.keyboard.press("j")
        row = page.locator("table.jobs tbody tr").first
        expect(row).to_contain_text("done")
        page.keyboard.press("j")
        expect(row.get_by_role("link", name="merkle8")).to_be_focused()
        is_text_only(page)
        assert watched.axe() == []
    if SNARKJS.exists():
        names = [str(tmp_path / name) for name in ("verification_key.json", "public.json", "proof.json")]
        argv = ["node", str(SNARKJS), "groth16", "verify", *names]
        said = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)
        assert said.returncode == 0, said.stdout
        assert "OK!" in said.stdout


@pytest.mark.usefixtures("node", "circuit")
def test_a_failure_is_told_whole(hub: World) -> None:
    wrong = bytearray(WTNS.read_bytes())
    wrong[-40] ^= 1  # of the last wire's value: it fits the circuit's shape and does not satisfy it
    with hub.open("/jobs", "operator") as watched:
        page = watched.page
        page.get_by_role("button", name="Hand in a job").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Witness").set_input_files(ZKEY)
        expect(dialog).to_contain_text("at the hub")
        dialog.get_by_role("button", name="Hand it in").click()
        expect(dialog.get_by_role("alert")).to_contain_text(".wtns")
        dialog.get_by_role("button", name="Close").click()
        hand_in(page, {"name": "wrong.wtns", "mimeType": "application/octet-stream", "buffer": bytes(wrong)})
        expect(page.locator(".verdict")).to_contain_text("failed", timeout=PROVED_MS)
        expect(page.locator(".top pre")).to_contain_text("the proof does not verify")
        expect(page.locator(".top figcaption")).to_contain_text("code 4")


@pytest.mark.usefixtures("node", "circuit")
def test_a_circuit_goes_to_nodes_of_ours_only_and_a_job_that_waits_is_cancelled(hub: World) -> None:
    hub.hub.upload(WTNS.read_bytes())
    with hub.open("/circuits", "admin") as watched:
        page = watched.page
        page.get_by_role("button", name="Which nodes").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Labels").fill("owner")
        dialog.get_by_role("button", name="Save").click()
        expect(dialog.get_by_role("alert")).to_contain_text('"owner" is no label')
        dialog.get_by_label("Labels").fill("owner=us")
        dialog.get_by_role("button", name="Save").click()
        expect(page.get_by_role("article", name="merkle8")).to_contain_text("owner=us")
        page.get_by_role("link", name="Hand in a job").click()
        dialog.get_by_label("Witness").set_input_files(WTNS)
        expect(dialog).to_contain_text("It was at the hub already")
        dialog.get_by_role("button", name="Hand it in").click()
        expect(page.locator(".verdict")).to_contain_text("queued")
        expect(page.locator(".facts")).to_contain_text("owner=us")
        why = "It goes only to nodes labelled owner=us; of 1 node that could take a job none is."
        expect(page.locator(".top")).to_contain_text(why)
        job = page.evaluate("location.hash").rsplit("/", 1)[1]
        watched.go("#/jobs")
        expect(page.locator(".tally")).to_contain_text("1 queued, the oldest for")
        expect(page.locator(".tally")).to_contain_text(why)
        page.get_by_role("button", name="queued", exact=True).click()
        expect(page.locator("table.jobs tbody tr")).to_have_count(1)
        page.locator("table.jobs tbody a").first.click()
        page.get_by_role("button", name="Cancel it").click()
        expect(dialog).to_contain_text("It leaves the queue.")
        dialog.get_by_role("button", name="Cancel it").click()
        expect(dialog).to_contain_text("The job is cancelled.")
        assert watched.axe() == []
        dialog.get_by_role("button", name="Close").click()
        expect(page.locator(".verdict")).to_contain_text("cancelled")
    assert hub.hub.job(job)["state"] == "cancelled"
    hub.hub.call("PATCH", "circuits/merkle8", {"node_labels": {}})


@pytest.mark.usefixtures("node")
def test_who_may_only_look_hands_nothing_in(hub: World, circuit: str) -> None:
    job = hub.hub.submit()
    hub.hub.wait_job(job)
    for view in ("/jobs", f"/jobs/{job}", "/circuits", "/ssh"):
        with hub.open(view, "viewer", viewport=PHONE, is_mobile=True, has_touch=True) as watched:
            page = watched.page
            expect(page.locator("h1")).to_be_visible()
            expect(page.locator("main .frame, main .panel, main .waterfall").first).to_be_visible()
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
            assert watched.axe() == [], view
            for name in ("Hand in a job", "Cancel it", "Register a circuit", "Which nodes", "Rotate it"):
                assert page.get_by_role("button", name=name).count() == 0, name
            for method, path in (
                ("POST", "jobs"),
                ("POST", f"jobs/{job}/cancel"),
                ("POST", "circuits"),
                ("PATCH", f"circuits/{circuit}"),
                ("PUT", f"artifacts/{'0' * 64}"),
            ):
                assert asked_for(page, method, f"/api/v1/{path}") == http.client.FORBIDDEN, path
