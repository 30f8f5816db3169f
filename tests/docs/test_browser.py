"""The site as a reader sees it, in Chromium: on a phone and a desktop no page is wider than the window and no code is
cut off, every link leads somewhere, and every page is reached by links. The pictures are in build/docs/screens."""

from __future__ import annotations

import functools
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import browser as browsers
import pytest

ROOT = Path(__file__).resolve().parents[2]
SCREENS = ROOT / "build/docs/screens"
#: A phone and a desktop, in pixels.
WIDTHS = (390, 1280)
SITES = sorted(page.parent for page in (ROOT / "build/site").glob("*/index.html"))
PAGES = sorted(SITES[-1].rglob("*.html")) if SITES else []
#: Pages of which each width and theme has a picture.
PICTURED = ("index", "guides", "casters", "install", "frameworks", "examples/with_nanobind", "reference/cpp/tensors")

MEASURED = """(() => {
  const shown = e => e.offsetParent !== null;
  const name = e => (e.className || e.tagName) + ": " + e.textContent.trim().slice(0, 60);
  const code = [...document.querySelectorAll("pre")].filter(shown);
  const clipped = code.filter(e => e.scrollWidth > e.clientWidth + 1);
  return {
    width: document.documentElement.scrollWidth,
    clipped: clipped.map(name),
    links: [...document.querySelectorAll("a[href]")].map(a => [a.getAttribute("href"), a.href, !!a.closest("article")]),
    ids: [...document.querySelectorAll("[id]")].map(e => e.id),
    pictures: [...document.images].filter(i => i.complete && i.naturalWidth === 0).map(i => i.src),
    blocks: code.length,
    dark: getComputedStyle(document.body).backgroundColor,
  };
})()"""


def name(page: Path) -> str:
    return str(page.relative_to(SITES[-1]).with_suffix(""))


@pytest.fixture(scope="module")
def browser() -> Iterator[browsers.Browser]:
    program = browsers.find()
    if program is None:
        pytest.skip("no Chromium is installed (Debian: apt install chromium)")
    if not PAGES:
        pytest.skip("the site is not built: make docs")
    with browsers.opened(program) as found:
        yield found


@pytest.fixture(scope="module")
def measured(browser: browsers.Browser) -> dict[tuple[str, int], dict[str, Any]]:
    """Each page at each width, with the light theme."""
    browser.prefer("light")
    found = {}
    for page in PAGES:
        browser.open(page, WIDTHS[0])
        for width in WIDTHS:
            browser.resize(width)
            found[name(page), width] = browser.evaluate(MEASURED)
    return found


def test_no_page_is_wider_than_its_window(measured: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert {page: facts["width"] for page, facts in measured.items() if facts["width"] > page[1]} == {}


def test_no_code_is_cut_off(measured: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert sum(facts["blocks"] for facts in measured.values()) > 400
    assert {page: facts["clipped"] for page, facts in measured.items() if facts["clipped"]} == {}


def test_every_picture_is_shown(measured: dict[tuple[str, int], dict[str, Any]]) -> None:
    assert {page: facts["pictures"] for page, facts in measured.items() if facts["pictures"]} == {}


def test_every_link_leads_somewhere(measured: dict[tuple[str, int], dict[str, Any]]) -> None:
    ids = {page: set(facts["ids"]) for (page, width), facts in measured.items() if width == WIDTHS[-1]}
    dead = []
    for (page, width), facts in measured.items():
        if width != WIDTHS[-1]:
            continue
        for written, address, in_text in facts["links"]:
            target = urllib.parse.urlsplit(address)
            if target.scheme != "file":
                continue
            path = Path(urllib.parse.unquote(target.path))
            anchor = urllib.parse.unquote(target.fragment)
            there = ids.get(name(path)) if path.suffix == ".html" and path.is_relative_to(SITES[-1]) else None
            if not path.exists() or (anchor and there is not None and anchor not in there):
                dead.append(f"{page}: {written}")
            if in_text and written == "#":
                dead.append(f"{page}: a link in the text leads to the page itself")
    assert dead == []


def test_every_page_is_reached_from_the_first(measured: dict[tuple[str, int], dict[str, Any]]) -> None:
    @functools.cache
    def linked(page: str) -> set[str]:
        paths = (Path(urllib.parse.urlsplit(link[1]).path) for link in measured[page, WIDTHS[-1]]["links"])
        return {name(path) for path in paths if path in PAGES}

    reached, new = set(), {"index"}
    while new:
        reached |= new
        new = {target for page in new for target in linked(page)} - reached
    assert {name(page) for page in PAGES} - reached == {"search"}  # by its field


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_of_both_themes(browser: browsers.Browser, scheme: str) -> None:
    browser.prefer(scheme)
    for page in PICTURED:
        browser.open(SITES[-1] / f"{page}.html", WIDTHS[0])
        for width in WIDTHS:
            browser.resize(width)
            red, green, blue = (int(n) for n in browser.evaluate(MEASURED)["dark"].strip("rgba()").split(",")[:3])
            assert (red + green + blue < 3 * 80) == (scheme == "dark"), page
            browser.screenshot(SCREENS / f"{page.replace('/', '-')}-{width}-{scheme}.png")


@pytest.mark.parametrize("words", ["read-only", "stream", "lifetime"])
def test_a_search_shows_guides_first(browser: browsers.Browser, words: str) -> None:
    browser.open(SITES[-1] / "search.html", WIDTHS[-1])
    found = browser.evaluate(
        f"(() => {{ Search.performSearch({words!r}); "
        f"return Search._performSearch(...Search._parseQuery({words!r})).reverse().slice(0, 5).map(r => r[0]); }})()"
    )
    assert found
    assert not any(page.startswith("reference/") for page in found), found


def test_the_probes_page_fits_a_phone(browser: browsers.Browser, tmp_path: Path) -> None:
    probe = pytest.importorskip("isthmus.probe")
    cell = {"shared": True, "ns": 120.0, "writable": True, "copied": False, "way": "numpy's struct", "address": 1}
    names = ("numpy", "torch", "onnxruntime", "tensorflow")
    rows = [
        {"name": name, "version": "2.4.6", "status": "ok", "way": "the (cuda) array interface", "in": cell, "out": cell,
         "back": {"same": True}} for name in names
    ]  # fmt: skip
    report = {"frameworks": rows, "isthmus": "0.1.0", "python": "3.11", "machine": "x86_64", "elements": 1000}
    (tmp_path / "probe.html").write_text(probe.html_page(report))
    for width in WIDTHS:
        browser.open(tmp_path / "probe.html", width)
        assert browser.evaluate(MEASURED)["width"] <= width
