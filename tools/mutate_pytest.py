"""tools/mutate.py's plugin for pytest: it records which guards fire in which test, or runs the tests of a list,
in order.

ISTHMUS_MUTATE_RECORD names the folder where every process of pytest leaves a file of what fired, a line for each test
that passed or failed; a line without a test's name has what fired between the tests.
ISTHMUS_MUTATE_TESTS names the list.
"""

from __future__ import annotations

import json
import mmap
import os
import time
from collections.abc import Generator
from pathlib import Path

import pytest

FOLDER = os.environ.get("ISTHMUS_MUTATE_RECORD")
LIST = os.environ.get("ISTHMUS_MUTATE_TESTS")


class Recorder:
    """Made before any extension is imported: they and the processes that tests start find the bytes in the
    environment."""

    def __init__(self, folder: Path) -> None:
        name = os.environ.get("PYTEST_XDIST_WORKER", "main")
        fired = folder / f"{name}.fired"
        fired.write_bytes(bytes(int(os.environ["ISTHMUS_MUTATE_COUNT"])))
        os.environ["ISTHMUS_MUTATE_FIRED"] = str(fired)
        with fired.open("r+b") as file:
            self.bytes = mmap.mmap(file.fileno(), 0)
        self.lines = (folder / f"{name}.jsonl").open("w")
        self.outcome = ""

    def write(self, test: str, outcome: str, seconds: float) -> None:
        fired = [number for number, byte in enumerate(self.bytes[:]) if byte]
        self.bytes[:] = bytes(len(self.bytes))
        if fired or test:
            print(json.dumps([test, outcome, round(seconds, 3), fired]), file=self.lines, flush=True)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self.write("", "", 0)
        self.outcome, start = "passed", time.monotonic()
        result = yield
        self.write(item.nodeid, self.outcome, time.monotonic() - start)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.outcome = report.outcome


class Selection:
    def __init__(self, tests: list[str]) -> None:
        self.place = {test: place for place, test in enumerate(tests)}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = sorted(
            (item for item in items if item.nodeid in self.place), key=lambda item: self.place[item.nodeid]
        )


recorder = Recorder(Path(FOLDER)) if FOLDER else None


def pytest_configure(config: pytest.Config) -> None:
    if recorder:
        config.pluginmanager.register(recorder)
    if LIST:
        config.pluginmanager.register(Selection(Path(LIST).read_text().splitlines()))
