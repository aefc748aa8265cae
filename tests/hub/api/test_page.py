"""How the page is served: nothing inline, nothing from elsewhere, assets for ever, and headers that fence it in."""

import re
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path

import pytest

from hub.api import page
from tests.hub.api.conftest import Web

ROOT = Path(__file__).parents[3]
FOLDER = Path(str(resources.files("hub"))) / "page"
SOURCES = sorted(path for path in (ROOT / "web" / "src").rglob("*.ts*") if path.name != "schema.ts")
needs_page = pytest.mark.skipif(
    not (FOLDER / page.SHELL).exists(), reason="the page is not built: apt-get install nodejs npm, then make page"
)


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
            self.inline += data.strip()


@needs_page
async def test_the_document_has_nothing_inline_and_names_only_what_the_hub_serves(web: Web) -> None:
    parsed = Elements((FOLDER / page.SHELL).read_text())
    assert parsed.inline == ""
    named = []
    for tag, attributes in parsed.elements:
        assert not [key for key in attributes if key.startswith("on") or key == "style"], (tag, attributes)
        assert tag not in {"iframe", "object", "embed", "base"}
        named += [target for key in ("src", "href", "action") if (target := attributes.get(key)) is not None]
    assert len([target for target in named if target.startswith("/assets/")]) == 2
    for target in named:
        assert (await web.ask("GET", target)).status == 200, target


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_no_source_makes_markup_or_code_of_text(path: Path) -> None:
    makes_markup = r"innerHTML|outerHTML\s*=[^=]|insertAdjacentHTML|document\.write|srcdoc|dangerouslySet"
    makes_code = r"\beval\b|new Function|javascript:|set(?:Timeout|Interval)\([\"'`]"
    text = path.read_text()
    assert re.findall(f"{makes_markup}|{makes_code}", text) == []
    assert re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text) == []


@pytest.mark.parametrize(
    "path",
    ["/", "/assets/page.js", "/favicon.svg", "/api/v1/nodes", "/api/v1/nothing", "/healthz", "/metrics", "/login"],
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


@needs_page
async def test_assets_stay_for_ever_and_the_document_is_asked_for_each_time(web: Web) -> None:
    for name, file in web.app[page.PAGE].files.items():
        if name not in {page.SHELL, "favicon.svg", "manifest.webmanifest"} and not name.startswith("assets/"):
            continue
        path = "/" if name == page.SHELL else f"/{name}"
        got = await web.ask("GET", path)
        assert got.status == 200
        assert got.body == file.data
        assert got.headers["Content-Type"] == f"{file.media}; charset=utf-8"
        for_ever = "immutable" in got.headers["Cache-Control"]
        assert for_ever is name.startswith("assets/")
        assert for_ever or "no-cache" in got.headers["Cache-Control"]
        again = await web.ask("GET", path, headers={"If-None-Match": got.headers["ETag"]})
        assert again.status == 304
        assert again.body == b""


@needs_page
async def test_a_stranger_gets_the_files_and_no_more(web: Web) -> None:
    script = next(name for name in web.app[page.PAGE].files if name.endswith(".js"))
    assert (await web.ask("GET", f"/{script}", stranger=True)).status == 200
    assert (await web.ask("GET", "/", stranger=True)).status == 401
    for path in ("/assets/..%2f..%2fkeys.py", "/assets/none.js"):
        assert (await web.ask("GET", path, stranger=True)).status == 404


@needs_page
def test_the_page_is_small() -> None:
    files = page.Page().files.values()
    assert sum(len(file.packed or file.data) for file in files) < 120 * 1024


async def test_without_a_build_the_page_says_how_to_make_it(web: Web) -> None:
    web.app[page.PAGE].files.clear()
    got = await web.ask("GET", "/")
    assert got.status == 503
    assert got.code == "page_not_built"
    assert "make page" in got.json["detail"]
