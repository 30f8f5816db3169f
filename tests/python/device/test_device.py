"""Memory of a GPU: streams, events and captures, each case in a process of its own, over stand-ins for the drivers of CUDA
and ROCm, and over a real GPU where the machine has one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ext = pytest.importorskip("isthmus_test_ext")

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
# The name that Isthmus looks for among the loaded libraries, and how the stand-in is built under it.
LIBRARIES = {"cuda": ("libcuda.so.1", ()), "rocm": ("libamdhip64.so", ("-DHIP",))}
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, [str(Path(ext.__file__).parent), os.environ.get("PYTHONPATH")])),
}


def run_case(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore", str(HERE / "run_case.py"), *arguments]
    return subprocess.run(command, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """build(soname, source, *flags): a small shared library of the tests; its path."""
    folder = tmp_path_factory.mktemp("standin")

    def build(soname: str, source: Path, *flags: str, compiler: str = "cc") -> str:
        path = folder / soname
        if not path.exists():
            if shutil.which(compiler) is None:
                pytest.skip(f"no {compiler} to build the stand-in with")
            command = [compiler, "-shared", "-fPIC", "-O1", f"-Wl,-soname,{soname}", *flags, "-o", path, source]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return str(path)

    return build


@pytest.fixture(scope="session")
def gpu() -> str:
    """The name of the real driver; without a GPU the test is skipped. Asked in another process: the driver stays loaded."""
    code = "import ctypes; raise SystemExit(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no GPU: " + (done.stderr.strip().splitlines() or [f"cuInit() failed with {done.returncode}"])[-1])
    return "libcuda.so.1"


@pytest.mark.parametrize(("driver", "name"), [line.split() for line in run_case().stdout.splitlines()])
def test_case(driver: str, name: str, request: pytest.FixtureRequest) -> None:
    preload = {}
    if driver == "gpu":
        library = request.getfixturevalue("gpu")
    else:
        build = request.getfixturevalue("build")
        soname, flags = LIBRARIES["rocm" if driver == "rocm" else "cuda"]
        library = build(soname, SUPPORT / "driver_standin.c", *flags)
        if driver == "torch":
            standin = build("torch_stream_standin.so", SUPPORT / "torch_stream_standin.c")
            preload["LD_PRELOAD"] = os.pathsep.join(filter(None, [os.environ.get("LD_PRELOAD"), standin]))
    done = run_case(driver, library, name, **preload)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


def test_the_cases_are_there() -> None:
    done = run_case()
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 60
