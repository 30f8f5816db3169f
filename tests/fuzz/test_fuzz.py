"""The fuzz targets: every seed and every case once found, then a short search where libFuzzer is there,
the same each time."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
SPEC = importlib.util.spec_from_file_location("isthmus_fuzz_run", HERE / "run.py")
assert SPEC is not None
assert SPEC.loader is not None
fuzz = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(fuzz)

# A change is judged by what it changes, so no search of the suite is random. Each input of `moves` runs Python.
RUNS = {target: 400 if target == "moves" else 20_000 for target in fuzz.TARGETS}


def dlpack_is_found() -> bool:
    return any((Path(flag) / "dlpack" / "dlpack.h").is_file() for flag in fuzz.include_flags([]))


pytestmark = [
    pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the fuzz targets bring sanitizers of their own"),
    pytest.mark.skipif(not dlpack_is_found(), reason="dlpack/dlpack.h is not among this environment's packages"),
]


@pytest.mark.slow
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_known_inputs(target: str, tmp_path: Path) -> None:
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    if fuzz.link_flags(target) is None:
        pytest.skip("this Python has no shared library to embed")
    inputs = fuzz.write_seeds(target, tmp_path / "corpus")
    quick_to_compile = ["-O0", "-g1"]  # a third of the time, and the inputs are few
    flags = [
        *quick_to_compile,
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
        *fuzz.include_flags([]),
    ]
    fuzz.compile_target(compiler, target, tmp_path / "replay", flags, ("replay.cpp",))
    done = subprocess.run([tmp_path / "replay", *inputs], capture_output=True, text=True, env=fuzz.environment(target))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(inputs)} inputs" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_search(target: str, tmp_path: Path) -> None:
    command = [sys.executable, HERE / "run.py", "--runs", str(RUNS[target]), "--build", tmp_path, target]
    done = subprocess.run(command, capture_output=True, text=True)
    if "skipped" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, done.stdout + done.stderr
    assert "good" in done.stdout
    assert f"stat::number_of_executed_units: {RUNS[target]}" in done.stdout
