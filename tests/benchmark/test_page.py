# ruff: noqa: RUF001  the times sign is meant
"""The benchmark's page is made of the figures that are stored beside it, and in the order in which it is read."""

from __future__ import annotations

import html
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "benchmark"
sys.path.insert(0, str(ROOT / "benchmarks"))

import chart  # noqa: E402
import day  # noqa: E402
import page  # noqa: E402
import questions  # noqa: E402
import report  # noqa: E402

sys.path.pop(0)

RESULTS = json.loads((FOLDER / "results.json").read_text())
ENVIRONMENT = json.loads((FOLDER / "environment.json").read_text())
PAGE = page.page(RESULTS, ENVIRONMENT)


def test_the_files_are_those_of_the_stored_figures(tmp_path: Path) -> None:
    for name in ("results.json", "environment.json"):
        (tmp_path / name).write_text((FOLDER / name).read_text())
    report.write_page(tmp_path)
    for name in ("index.html", "exchange.svg"):
        assert (tmp_path / name).read_text() == (FOLDER / name).read_text(), "run benchmarks/report.py"


def test_the_readme_says_what_the_figures_say(tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text()
    (tmp_path / "README.md").write_text(readme)
    report.write_readme(RESULTS, tmp_path / "README.md")
    assert (tmp_path / "README.md").read_text() == readme, "run benchmarks/report.py"


def test_the_order_is_that_of_a_reader() -> None:
    parts = ["<svg", "Which is fastest for my framework?", "What does safety cost?", "Every row", "How it was measured"]
    places = [PAGE.index(part) for part in [*parts, "What Isthmus promises"]]
    assert places == sorted(places)


def test_every_row_is_on_the_page() -> None:
    for row in {result["row"] for result in RESULTS}:
        assert f"<h3>{html.escape(row)}" in PAGE, row


@pytest.mark.parametrize("group", [day.GROUP, "a group of no title"])
def test_no_group_is_left_out(group: str) -> None:
    """A group that is new is on the page, also before it has a title."""
    row = {"row": "a new row", "group": group, "library": "isthmus", "version": "1", "ns": 5.0}
    assert "<h3>a new row" in page.page([*RESULTS, row], ENVIRONMENT)


def test_tables_are_narrow() -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", questions.html(RESULTS))
    assert rows
    assert max(len(re.findall("<t[dh]>", row)) for row in rows) <= 5


def test_a_row_says_what_the_figures_say() -> None:
    def result(library: str, ns: float) -> dict[str, object]:
        return {"row": "numpy → C++, owned", "group": "in", "library": library, "version": "1", "ns": ns}

    found = [result("isthmus", 20.0), result("slow", 50.0), result("slower", 90.0), result("floor", 10.0)]
    shown = questions.html(found)
    assert "50 ns <small>slow</small>" in shown
    assert "2.5 × faster" in shown
    assert "1.5 × slower" in questions.html([result("isthmus", 30.0), result("fast", 20.0)])
    assert "equal" in questions.html([result("isthmus", 20.5), result("same", 20.0)])


@pytest.mark.parametrize("row", chart.PANELS)
def test_the_chart_has_the_fastest_libraries_and_no_lower_bound(row: str) -> None:
    members = chart.members_of(RESULTS, row)
    assert "isthmus" in {member["library"] for member in members}
    assert not {"floor", "stable shims in C", "exchange API in C", "libtorch in C++"} & {m["library"] for m in members}
    assert [m["ns"] for m in members] == sorted(m["ns"] for m in members)


def test_the_chart_is_a_small_picture_whose_bars_are_as_long_as_their_logarithms() -> None:
    picture = chart.svg(RESULTS)
    assert len(picture) < 20_000
    root = ElementTree.fromstring(picture)
    bars = [
        float(b.get("width", "0"))
        for b in root.iter("{http://www.w3.org/2000/svg}rect")
        if b.get("class") in ("ours", "peer")
    ]
    times = [member["ns"] for row in chart.PANELS for member in chart.members_of(RESULTS, row)]
    assert len(bars) == len(times)
    by_time = [bar for _, bar in sorted(zip(times, bars, strict=True))]
    assert by_time == sorted(by_time)


def test_the_page_closes_what_it_opens() -> None:
    class Tags(HTMLParser):
        def __init__(self) -> None:
            super().__init__()
            self.open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag not in ("meta", "rect", "p", "th", "td", "tr"):
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            if tag not in ("p", "th", "td", "tr", "rect"):
                assert self.open.pop() == tag

    tags = Tags()
    tags.feed(PAGE)
    assert tags.open == []


@pytest.mark.parametrize(
    ("ours", "theirs", "doubt"), [([19, 21], [30, 40], False), ([19, 31], [30, 40], True), ([45, 50], [30, 46], True)]
)
def test_a_row_in_doubt_is_marked(
    ours: list[float], theirs: list[float], doubt: bool, capsys: pytest.CaptureFixture
) -> None:
    def result(library: str, interval: list[float]) -> dict[str, object]:
        return {"row": "numpy → C++, owned", "group": "in", "library": library, "version": "1", "ns": min(interval),
                "median_95": interval}  # fmt: skip

    # The floor is no competitor, and neither is a slower peer.
    found = [
        result("isthmus", ours),
        result("fast", theirs),
        result("floor", ours),
        result("slow", [ours[0] + 90, 200]),
    ]
    assert ("in doubt" in page.row_html("numpy → C++, owned", found)) == doubt
    report.show(found)
    shown = capsys.readouterr().out
    assert ("in doubt" in shown) == doubt
    assert f"{ours[0]} to {ours[1]}" in shown
