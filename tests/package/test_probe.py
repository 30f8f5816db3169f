"""isthmus probe: what it finds, and that nothing a framework does can stop it."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from isthmus.__main__ import main
from isthmus.probe import probe
from isthmus.probe.child import MARK
from isthmus.probe.frameworks import FRAMEWORKS
from isthmus.probe.page import html_page
from isthmus.probe.table import WIDTH, back_of, memory_of, text_table, way_of

ROOT = Path(__file__).resolve().parents[2]


def only(name: str, **options: object) -> dict:
    (row,) = probe([name], **options)["frameworks"]
    return row


def test_numpy():
    row = only("numpy")
    assert row["status"] == "ok", row
    assert row["in"]["shared"]
    assert row["in"]["writable"]
    assert row["out"]["shared"]
    assert row["out"]["writable"]
    assert row["back"] == {"same": True}
    assert 0 <= row["in"]["ns"] < 1e6  # 0 where noise hides what a call costs beside one that does nothing


# Two of these cannot live in one process, which is what the child processes are for.
@pytest.mark.parametrize("name", [name for name in FRAMEWORKS if name != "numpy"])
def test_framework(name):
    row = only(name)
    if row["status"] in ("absent", "unusable"):
        pytest.skip(row["reason"])
    assert row["status"] == "ok", row
    assert row["in"]["shared"], row
    # MLX says that it copies, and is not made to.
    assert row["out"]["shared"] or row["out"]["reason"], row
    if row["version"] in versions_tested():
        assert documented(name) == [way_of(row), memory_of(row["in"]), memory_of(row["out"]), back_of(row["back"])]


def versions_tested() -> set[str]:
    """Those that the table of docs/frameworks.md is of; a version's local part ("+cpu") changes nothing."""
    pinned = (ROOT / "requirements" / "tested.txt").read_text()
    return set(re.findall(r"(?m)^[^#\s]+==([^;\s]+)", pinned))


def documented(name: str) -> list[str]:
    """The cells of the framework's row in docs/frameworks.md."""
    page = (ROOT / "docs" / "frameworks.md").read_text()
    table = page.split("## What the probe shows")[1].split("\n## ")[0]
    (cells,) = re.findall(rf"(?m)^\| {re.escape(name)} \| (.*) \|$", table)
    return cells.replace("`", "").split(" | ")


def test_the_page_has_every_framework():
    for name in FRAMEWORKS:
        assert name == "cupy" or len(documented(name)) == 4


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_immutable_memory_stays_read_only(name):
    row = only(name)
    if row["status"] in ("absent", "unusable"):
        pytest.skip(row["reason"])
    assert row["in"]["writable"] is False
    assert row["out"]["writable"] is False


def test_absent(monkeypatch):
    monkeypatch.setattr("isthmus.probe.parent._is_installed", lambda module: False)
    row = only("torch")
    assert (row["status"], row["reason"]) == ("absent", "not installed")


def told(step: str, **found: object) -> str:
    return f"print({MARK + json.dumps({'version': '9', 'step': step, **found})!r}, flush=True)\n"


IN = {"way": "numpy's struct", "shared": True, "writable": True, "ns": 5.0}


def test_a_crash_is_reported_with_what_was_found_before():
    row = only("numpy", child=told("out", **{"in": IN}) + "import os, signal; os.kill(os.getpid(), signal.SIGABRT)")
    assert row["status"] == "crashed"
    assert row["reason"] == "SIGABRT while a tensor was handed to it"
    assert row["in"] == IN


def test_a_crash_before_anything():
    row = only("numpy", child="import sys; sys.exit('no such luck')")
    assert row["status"] == "crashed"
    assert row["reason"] == "exit code 1 before it began: no such luck"


def test_half_a_line_is_not_read():
    row = only(
        "numpy", child=told("in") + f"print({MARK!r} + '{{\"step\": ', end='', flush=True); import os; os.abort()"
    )
    assert row["reason"] == "SIGABRT while its array was imported"


def test_a_framework_that_hangs():
    row = only("numpy", child=told("import") + "import time; time.sleep(60)", timeout=2)
    assert row["status"] == "timeout"
    assert row["reason"] == "no answer within 2 s (while it was imported)"


def test_what_the_framework_prints_is_no_answer():
    row = only("numpy", child="print('Welcome!')\n" + told("end", **{"in": IN}) + "print('Bye')")
    assert row["status"] == "ok"


def test_a_failure_is_a_row():
    row = only("numpy", child=told("end", **{"in": IN, "out": {"error": "ValueError: no"}}))
    assert (row["status"], row["reason"]) == ("failed", "out: ValueError: no")


@pytest.fixture
def report() -> dict:
    absent = {"name": "cupy", "version": None, "status": "absent", "reason": "not installed"}
    crashed = {"name": "mlx", "version": "1.2.3", "status": "crashed", "reason": "SIGSEGV while it was imported"}
    good = {
        "name": "torch",
        "version": "2.15.0",
        "status": "ok",
        "reason": None,
        "in": IN,
        "out": {"shared": True, "writable": False, "ns": 1234.5},
        "back": {"same": True},
    }
    copies = {
        **good,
        "name": "<i>",
        "in": {**IN, "shared": False},
        "out": {"shared": False, "reason": "it copies & so on"},
    }
    return {
        "isthmus": "0.1.0",
        "python": "3.11",
        "machine": "Linux",
        "elements": 1000,
        "frameworks": [good, copies, crashed, absent],
    }


def test_the_table(report):
    shown = text_table(report)
    assert max(map(len, shown.splitlines())) <= WIDTH
    assert re.search(r"(?m)^torch +2\.15\.0 +numpy's struct +shared rw +5 +shared ro +1,234 +same$", shown)
    assert re.search(r"(?m)^<i> .*COPIED +5 +would copy +- +same$", shown)
    assert re.search(r"(?m)^cupy +- +not installed +- +- +- +- +-$", shown)
    assert re.search(r"(?m)^mlx +1\.2\.3 +crashed +- ", shown)
    assert "mlx: crashed: SIGSEGV while it was imported" in shown
    assert "<i>: it copies & so on" in shown


def test_the_page_needs_nothing_but_itself(report):
    page = html_page(report)
    assert not re.search(r"https?://|<script|<link|src=", page)
    assert "&lt;i&gt;" in page
    assert "it copies &amp; so on" in page
    picture = ElementTree.fromstring(re.search(r"<svg.*?</svg>", page, re.DOTALL)[0])
    widths = [float(bar.get("width")) for bar in picture.iter("rect") if bar.get("height") == "15"]
    assert len(widths) == 3
    assert widths[1] == max(widths)


def test_the_page_without_anything_to_show(report):
    report["frameworks"] = report["frameworks"][-1:]
    assert "<svg" not in html_page(report)


def test_json_and_html(capsys, tmp_path):
    page = tmp_path / "probe.html"
    assert main(["probe", "numpy", "--json", "--quiet", "--html", str(page)]) == 0
    captured = capsys.readouterr()
    assert [row["name"] for row in json.loads(captured.out)["frameworks"]] == ["numpy"]
    assert captured.err == ""
    assert "<svg" in page.read_text()
