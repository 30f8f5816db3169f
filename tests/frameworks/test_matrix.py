"""Every framework as producer and as consumer of isthmus.Tensor, one process each: some do not bear each other, and a
crash is a failure of the check that was under way. What is checked stands in in_<framework>.py."""

from __future__ import annotations

import ast
import functools
import json
import subprocess
import sys
from pathlib import Path

import processes
import pytest

ext = pytest.importorskip("isthmus_test_ext")

HERE = Path(__file__).resolve().parent
FRAMEWORKS = sorted(path.stem.removeprefix("in_") for path in HERE.glob("in_*.py"))


def checks_of(framework: str) -> list[str]:
    """Read from the source: nothing is imported here."""
    tree = ast.parse((HERE / f"in_{framework}.py").read_text())
    return [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")]


@functools.cache
def run(framework: str) -> tuple[dict[str, tuple[str, str]], str]:
    """What became of each check; and the reason, where the framework is not there."""
    quiet = {
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",
        "GLOG_minloglevel": "3",
        "JAX_PLATFORMS": "cpu",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-X", "faulthandler", str(HERE / "run_checks.py"), f"in_{framework}"]
    done = subprocess.run(
        command,
        env=processes.environment(Path(ext.__file__).parent, **quiet),
        capture_output=True,
        text=True,
        timeout=900,
    )
    outcome: dict[str, tuple[str, str]] = {}
    absent, under_way, ended = "", "importing it", False
    for line in done.stdout.splitlines():
        if not line.startswith("{"):
            continue
        said = json.loads(line)
        under_way = said.get("begin", under_way)
        absent = said.get("absent", absent)
        ended = ended or "end" in said or bool(absent)
        for kind in ("ok", "skip", "failed"):
            if kind in said:
                outcome[said[kind]] = (kind, said.get("reason") or said.get("text") or "")
    if not ended or done.returncode != 0:
        where = "its own end" if ended else under_way
        text = f"the process ended with {done.returncode} in {where}\n{done.stdout[-2000:]}{done.stderr[-6000:]}"
        for name in checks_of(framework):
            if not ended:
                outcome.setdefault(name, ("failed", text))
        if ended:
            outcome["its end"] = ("failed", text)
    return outcome, absent


@pytest.mark.parametrize(("framework", "check"), [(f, c) for f in FRAMEWORKS for c in checks_of(f)])
def test_framework(framework: str, check: str) -> None:
    outcome, absent = run(framework)
    if absent:
        pytest.skip(f"{framework} is not installed here: {absent}")
    kind, text = outcome[check]
    if kind == "skip":
        pytest.skip(text)
    assert kind == "ok", text


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_process_ends_well(framework: str) -> None:
    outcome, absent = run(framework)
    if absent:
        pytest.skip(f"{framework} is not installed here: {absent}")
    assert "its end" not in outcome, outcome["its end"][1]
