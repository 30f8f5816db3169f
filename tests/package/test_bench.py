"""isthmus bench and the clock under it."""

from __future__ import annotations

import json
import time

from isthmus.__main__ import main
from isthmus.timing import nanoseconds


def test_nanoseconds():
    assert 2e6 < nanoseconds(lambda seconds: time.sleep(seconds), 0.002, rounds=1, spend_ms=4) < 50e6


def test_bench(capsys):
    assert main(["bench", "--rounds", "1", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    rows = {(row["exchange"], row["by"]): row for row in report["rows"]}
    assert rows["numpy -> tensor", "isthmus.from_dlpack"]["ns"] >= 0
    assert rows["tensor -> numpy", "t.to('numpy')"]["ns"] >= 0
    assert not [row for row in report["rows"] if "isthmus" in row["by"] and "error" in row]


def test_bench_in_words(capsys):
    assert main(["bench", "--rounds", "1"]) == 0
    assert "numpy -> tensor" in capsys.readouterr().out
