"""Memory of a GPU: streams, events and captures, each case in a process of its own, over stand-ins for the drivers of
CUDA and ROCm, and over a real GPU where the machine has one."""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import processes
import pytest
from fork_server import ForkServer

ext = pytest.importorskip("isthmus_test_ext")

HERE = Path(__file__).resolve().parent
SUPPORT = HERE.parent / "support"
# The name that Isthmus looks for among the loaded libraries, and how the stand-in is built under it.
LIBRARIES = {"cuda": ("libcuda.so.1", ()), "rocm": ("libamdhip64.so", ("-DHIP",))}
# torch over the stand-in of CUDA: by its stable shims, and as older versions are asked.
TORCH = {
    "torch": {},
    "torch_exchange": {"ISTHMUS_NO_TORCH_SHIMS": "1"},
    "torch_method": {"ISTHMUS_NO_TORCH_SHIMS": "1", "ISTHMUS_TEST_NO_EXCHANGE_API": "1"},
}
FOLDER = Path(ext.__file__).parent


IMPORTS = f"sys.path.insert(0, {str(HERE)!r}); import run_case"
SERVER = ForkServer(f"import sys; {IMPORTS}", processes.environment(FOLDER))


def run_case(*arguments: str, server: ForkServer = SERVER) -> subprocess.CompletedProcess[str]:
    return server.run("import run_case, sys; run_case.main(sys.argv[1:])", *arguments, timeout=120)


@functools.cache
def torch_over(library: str, standin: str, driver: str) -> ForkServer:
    """Processes with torch and the driver's stand-in, which is there before torch looks for a driver."""
    preload = os.pathsep.join(filter(None, [os.environ.get("LD_PRELOAD"), standin]))
    # What torch has made is left out of the collections at a process's end, which take most of a second otherwise.
    return ForkServer(
        f"import ctypes, gc, sys; ctypes.CDLL({library!r}, ctypes.RTLD_GLOBAL); import torch; {IMPORTS}; gc.freeze()",
        processes.environment(FOLDER, LD_PRELOAD=preload, **TORCH[driver]),
    )


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """build(soname, source, *flags): a small shared library of the tests; its path."""
    folder = tmp_path_factory.mktemp("standin")

    def build(soname: str, source: Path, *flags: str, compiler: str = "cc") -> str:
        path = folder / soname
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            if shutil.which(compiler) is None:
                pytest.skip(f"no {compiler} to build the stand-in with")
            command = [compiler, "-shared", "-fPIC", "-O1", f"-Wl,-soname,{path.name}", *flags, "-o", path, source]
            done = subprocess.run(command, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        return str(path)

    return build


@pytest.fixture(scope="session")
def gpu() -> str:
    """The name of the real driver; without a GPU the test is skipped. Asked in another process:
    the driver stays loaded."""
    code = "import ctypes; raise SystemExit(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip("no GPU: " + (done.stderr.strip().splitlines() or [f"cuInit() failed with {done.returncode}"])[-1])
    return "libcuda.so.1"


@pytest.mark.parametrize(("driver", "name"), [line.split() for line in run_case().stdout.splitlines()])
def test_case(driver: str, name: str, request: pytest.FixtureRequest) -> None:
    if driver == "gpu":
        library = request.getfixturevalue("gpu")
    else:
        build = request.getfixturevalue("build")
        soname, flags = LIBRARIES["rocm" if driver == "rocm" else "cuda"]
        library = build(soname, SUPPORT / "driver_standin.c", *flags)
        if driver in TORCH:
            standin = build("torch_stream_standin.so", SUPPORT / "torch_stream_standin.c")
    if driver in TORCH and importlib.util.find_spec("torch") is not None:
        done = run_case(driver, library, name, server=torch_over(library, standin, driver))
    else:
        done = run_case(driver, library, name)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"


def test_the_cases_are_there() -> None:
    done = run_case()
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) > 60


@pytest.mark.parametrize("kind", LIBRARIES)
def test_a_library_without_the_functions_is_no_driver(build: Callable[..., str], kind: str, tmp_path: Path) -> None:
    source = tmp_path / "empty.c"
    source.write_text("int nothing_of_a_driver;\n")
    code = f"""
import ctypes
import isthmus_test_ext as ext

ctypes.CDLL({build(f"empty/{LIBRARIES[kind][0]}", source)!r}, ctypes.RTLD_GLOBAL)
t = ext.pages([4], device=({2 if kind == "cuda" else 10}, 0))
assert ext.borrow(ext.tensor_of(t, stream=7), stream=8)["stream"] == 8
"""
    processes.run_python(code, FOLDER, timeout=120)


@pytest.mark.parametrize("kind", LIBRARIES)
def test_a_driver_may_come_late(build: Callable[..., str], kind: str) -> None:
    """The host's producers are not kept waiting for one that nobody loaded; the first that may need it finds it."""
    library = build(LIBRARIES[kind][0], SUPPORT / "driver_standin.c", *LIBRARIES[kind][1])
    code = f"""
import sys
sys.path[:0] = [{str(HERE)!r}, {str(SUPPORT)!r}]
from driver import Driver
from producers import HostMethod, Method
import isthmus_test_ext as ext

host = HostMethod()
for _ in range(3):
    assert ext.borrow(host)["device"] == "cpu"
d = Driver({kind!r}, {library!r})
x = Method(d, d.stream())
with d.capture(x.stream):
    assert ext.borrow(x)["device"] == "{kind}:0"
assert x.asked == [{{"max_version": (1, 3), "stream": -1, "copy": False}}], x.asked
d.check()
"""
    processes.run_python(code, FOLDER, timeout=120)
