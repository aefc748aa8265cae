"""The page: nothing inline, nothing from elsewhere, text stays text; and in a real browser it shows what is."""

import re
import time
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from hub.api import page
from tests.hub.api.browser import MISSING, browser_path, tab
from tests.hub.api.conftest import Web
from wire.engines import EngineJob, EngineJobState, EngineReading, EngineState
from wire.inputs import Heard, JobAssigned
from wire.readings import GpuReading, GpuState, HostReading
from wire.status import JobProgress, NodeStatus, WorkerReading, WorkerState

FOLDER = Path(str(resources.files("hub"))) / "page"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"


class Elements(HTMLParser):
    """Every element with its attributes, and what stands inside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inline = ""
        self._inside = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        del tag
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside in {"script", "style"}:
            self.inline += data


@pytest.mark.parametrize("name", ["index.html", "login.html"])
def test_the_markup_has_no_script_or_handler_and_names_no_other_host(name: str) -> None:
    text = (FOLDER / name).read_text()
    parsed = Elements(text)
    assert "://" not in text
    assert parsed.inline == "" or name == "login.html"  # its one style is named by its digest in the policy
    for tag, attributes in parsed.elements:
        assert not [key for key in attributes if key.startswith("on") or key == "style"], (tag, attributes)
        assert tag not in {"iframe", "object", "embed", "base"}
        for key in ("src", "href", "action"):
            if (target := attributes.get(key)) is not None:
                assert target in {*page.FILES, "/login", "/logout"}, target


@pytest.mark.parametrize("name", ["page.js", "fallback.js", "reach.js"])
def test_the_script_never_makes_markup_or_code_of_text(name: str) -> None:
    text = (FOLDER / name).read_text()
    makes_markup = r"innerHTML|outerHTML\s*=[^=]|insertAdjacentHTML|document\.write|srcdoc|\.style\b"
    makes_code = r"\beval\b|new Function|javascript:|set(?:Timeout|Interval)\([\"'`]"
    assert re.findall(f"{makes_markup}|{makes_code}", text) == []
    assert "://" not in text


def test_the_style_loads_nothing() -> None:
    text = (FOLDER / "page.css").read_text()
    assert "url(" not in text
    assert "@import" not in text


@pytest.mark.parametrize(
    "path", ["/", "/page.js", "/api/v1/nodes", "/api/v1/nothing", "/healthz", "/metrics", "/login"]
)
async def test_every_answer_carries_the_headers_that_fence_it_in(web: Web, path: str) -> None:
    headers = (await web.ask("GET", path)).headers
    policy = {part.split()[0]: part.split()[1:] for part in headers["Content-Security-Policy"].split(";")}
    assert policy["default-src"] == ["'none'"]
    assert policy["frame-ancestors"] == policy["base-uri"] == ["'none'"]
    assert "'unsafe-inline'" not in headers["Content-Security-Policy"]
    assert set(policy.get("script-src", [])) <= {"'self'"}
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Server"] == "provewire"
    assert headers["Cache-Control"]


async def test_the_files_of_the_page_are_served_with_their_types(web: Web) -> None:
    for path, (_, media) in page.FILES.items():
        got = await web.ask("GET", path)
        assert got.status == 200
        assert got.headers["Content-Type"] == f"{media}; charset=utf-8"
        again = await web.ask("GET", path, headers={"If-None-Match": got.headers["ETag"]})
        assert again.status == 304


async def test_a_real_browser_shows_a_node_and_its_job_and_takes_text_for_text(web: Web) -> None:
    program = browser_path()
    if program is None:
        pytest.skip(MISSING)
    await web.register()
    job = (await web.submit())["id"]
    peer = await web.hub.enroll("node-a")
    link = (await web.ask("POST", "/api/v1/login-links")).json["url"]
    async with tab(program) as browser:
        await browser.look(width=1280, height=900)
        await browser.open(link)
        await browser.until("location.pathname === '/' && document.querySelector('#jobs tr')")
        assert "queued" in await browser.ask("document.querySelector('#jobs tr').textContent")
        async with peer.connect(name=HOSTILE[:128]) as connection:
            assigned = (await connection.until(JobAssigned)).frame
            await connection.status(
                NodeStatus(
                    hostname=HOSTILE[:128],
                    host=HostReading(
                        cpu_count=4, cpu_used_ratio=0.5, memory_total_bytes=2**33, memory_used_bytes=2**32
                    ),
                    gpus=[GpuReading("GPU-1", HOSTILE[:128])],
                    workers=[WorkerReading("host", WorkerState.PROVING, 1, HOSTILE)],
                    jobs=[JobProgress(job, assigned.attempt, "msm_a", 1, 4, 0.5)],
                )
            )
            await connection.until(Heard)
            row = "document.querySelector('#nodes tr').textContent"
            await browser.until(f"{row}.includes('msm_a') && {row}.includes('25 %')")
            told = await browser.ask(row)
            assert HOSTILE in told
            assert "CPU 50 % of 4 cores" in told
            assert "online" in told
            await browser.until("document.querySelector('#jobs progress')?.value === 0.25")
            assert await browser.ask("document.querySelectorAll('td img, td script').length") == 0
            assert await browser.ask("document.title") == "Provewire"
            assert await browser.ask("document.querySelector('#link-text').textContent") == "live"
            await browser.look(width=390, height=844, phone=True)
            assert await browser.ask("document.documentElement.scrollWidth <= innerWidth")
        await browser.until(f"{row}.includes('reconnecting')")
        assert "silent for a while" in await browser.ask("document.querySelector('#incident').textContent")
        assert browser.complaints == []


async def test_a_real_browser_shows_cards_in_trouble_an_engines_line_and_a_wrong_clock(web: Web) -> None:
    program = browser_path()
    if program is None:
        pytest.skip(MISSING)
    proving, silent = await web.hub.enroll("proving"), await web.hub.enroll("silent")
    link = (await web.ask("POST", "/api/v1/login-links")).json["url"]
    now_ms = web.clock.time_ms()
    busy = EngineReading(
        engine="cuzk",
        state=EngineState.OK,
        answered_at_ms=now_ms,
        queued=14,
        completed=9,
        failed=1,
        jobs=(EngineJob("1", "porep"), EngineJob("2", "porep"), EngineJob("3", "porep", EngineJobState.DONE)),
    )
    down = EngineReading(engine="cuzk", state=EngineState.DOWN, detail="nobody listens at 127.0.0.1:9821; start it")
    cards = [
        GpuReading("GPU-1", "H200", 2**37, 2**36, utilization_ratio=0.97, temperature_c=71, power_draw_mw=640_000),
        GpuReading("GPU-2", "H200", state=GpuState.LOST, detail="it fell off the bus", xid_count=2, xid_last=79),
    ]
    async with tab(program) as browser, proving.connect(name="proving") as one, silent.connect(name="silent") as two:
        await one.status(NodeStatus(gpus=cards, engines=[busy]))
        await one.until(Heard)
        ahead_ms = web.clock.time_ms() + 90_000
        two.session.send_status(NodeStatus(gpus=[], engines=[down]), time.monotonic(), ahead_ms, time.monotonic_ns())
        await two.flush()
        await two.until(Heard)
        await browser.look(width=1280, height=900)
        await browser.open(link)
        await browser.until("document.querySelectorAll('#nodes tr').length === 2")
        first, second = await browser.ask("[...document.querySelectorAll('#nodes tr')].map((row) => row.textContent)")
        assert re.search(r"cuzk: proving 2 jobs, queue 14, last answer \d+ s ago", first), first
        assert "1 failed of 10" in first
        assert "97 % · 64.0 of 128 GiB · 71 °C · 640 W" in first
        assert "lostit fell off the bus2 XID, last 79" in first
        assert "cuzk: does not run" in second
        assert "nobody listens at 127.0.0.1:9821; start it" in second
        assert re.search(r"its clock is (8\d|90) s ahead", second), second
        said = await browser.ask("document.querySelector('#incident').textContent")
        assert "Trouble with a device or engine: proving, silent." in said
        await browser.look(width=390, height=844, phone=True)
        assert await browser.ask("document.documentElement.scrollWidth <= innerWidth")
        assert browser.complaints == []


async def test_a_real_browser_logs_out_and_in_again_by_the_form(web: Web) -> None:
    program = browser_path()
    if program is None:
        pytest.skip(MISSING)
    link = (await web.ask("POST", "/api/v1/login-links")).json["url"]
    token = web.admin["Authorization"].removeprefix("Bearer ")
    async with tab(program) as browser:
        await browser.open(link)
        await browser.until("document.querySelector('#link-text')?.textContent === 'live'")
        await browser.ask("document.querySelector('header form button').click()")
        await browser.until("location.pathname === '/login' && document.querySelector('#token')")
        await browser.ask(f"document.querySelector('#token').value = {token!r}")
        await browser.ask("document.querySelector('button').click()")
        await browser.until("document.querySelector('#link-text')?.textContent === 'live'")
        assert browser.complaints == []
