"""What tools/run_tests.py says of tests that failed: the last lines of a long log have to tell which, and why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import run_tests

# As CTest 3.22 and later write it.
CTEST = """<?xml version="1.0" encoding="UTF-8"?>
<testsuite name="Linux-c++" tests="3" failures="1" disabled="0" skipped="1" hostname="" time="1">
  <testcase name="Copy.Rows" classname="Copy.Rows" time="0.1" status="run"><system-out>fine</system-out></testcase>
  <testcase name="Copy.Large" classname="Copy.Large" time="0.1" status="notrun"><skipped message=""/></testcase>
  <testcase name="Trim.Twice" classname="Trim.Twice" time="0.1" status="fail">
    <failure message=""/><system-out>first line
expected 1, found 2</system-out>
  </testcase>
</testsuite>
"""


def summed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *names: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["run_tests.py", "--sum", *names])
    return run_tests.main(), capsys.readouterr().out


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_tests, "RESULTS", tmp_path / "results")


def test_a_failed_ctest_is_named_in_the_sum(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ctest.xml").write_text(CTEST)
    run_tests.save("sanitize", run_tests.read_junit(tmp_path / "ctest.xml", 8))
    status, out = summed(capsys, monkeypatch, "sanitize")
    assert status == 1
    assert "sanitize failed: Trim.Twice" in out
    assert "expected 1, found 2" in out
    assert "Copy" not in out
    assert out.splitlines()[-1] == "1 passed, 1 failed, 1 skipped"


def test_a_failed_pytest_and_one_that_cannot_be_set_up_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_two.py").write_text(
        "import pytest\n"
        "@pytest.fixture\ndef broken(): raise OSError('no room')\n"
        "def test_one(): pass\n"
        "def test_two():\n" + "    x = 1\n" * 40 + "    assert x == 'the reason'\n"
        "def test_three(broken): pass\n"
    )
    report = tmp_path / "pytest.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}", "test_two.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True)
    run_tests.save("test", run_tests.read_junit(report, done.returncode))
    status, out = summed(capsys, monkeypatch, "test")
    assert status == 1
    assert "test failed: test_two::test_two" in out
    assert "the reason" in out
    assert "test failed: test_two::test_three" in out
    assert "no room" in out
    assert "test_one" not in out
    assert len(out.splitlines()) < 2 * run_tests.LINES_OF_A_FAILURE + 6
    assert out.splitlines()[-1] == "1 passed, 2 failed, 0 skipped"


def test_the_files_that_took_longest_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = "".join(
        f'<testcase classname="tests.life.test_{n}{group}" name="one" time="{n + 0.25}"/>'
        for n in range(20)
        for group in ("", ".TestGroup")
    )
    (tmp_path / "pytest.xml").write_text(f'<testsuites><testsuite tests="40">{cases}</testsuite></testsuites>')
    run_tests.save("test", run_tests.read_junit(tmp_path / "pytest.xml", 0))
    status, out = summed(capsys, monkeypatch, "test")
    assert status == 0
    told = out.splitlines()[0]
    assert told.startswith("[isthmus] test: 40 passed, 0 failed, 0 skipped; longest: tests.life.test_19 38 s, tests")
    assert told.count(" s,") + 1 == run_tests.LONGEST


def test_a_runner_that_dies_is_a_failure_with_a_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run_tests.save("docs", run_tests.read_junit(tmp_path / "none.xml", -9))
    status, out = summed(capsys, monkeypatch, "docs", "lint")
    assert status == 1
    assert "docs failed: none.xml was not written: the runner ended with -9" in out
    assert "lint failed: it ended before its tests were counted" in out
