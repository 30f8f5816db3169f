"""What the tests of the edges of life share: extensions built by the README's own line, and processes that may die."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

isthmus = pytest.importorskip("isthmus")

EXT = Path(__file__).resolve().parent / "ext"
CXX = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++") or "c++"
#: A copy of include/ to test in place of the installed one.
INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())


def includes() -> list[str]:
    # Behind the copy comes the installed one, for dlpack.h.
    python = subprocess.run([sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True, check=True)
    return [f"-I{INCLUDE}", *python.stdout.split()]


@pytest.fixture(scope="session")
def compile_extension(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """compile_extension(source, *flags, name="life", include=…): an extension as the README builds one, its folder; once for
    the same arguments."""
    made: dict[tuple[str, ...], Path] = {}

    def build(source: str, *flags: str, name: str = "life", include: Path | None = None) -> Path:
        key = (source, name, str(include), *flags)
        if key not in made:
            folder = tmp_path_factory.mktemp(name)
            first = [f"-I{include}"] if include else []
            command = [CXX, "-std=c++20", "-O2", "-shared", "-fPIC", *first, *includes(), f"-DMODULE={name}", *flags]
            done = subprocess.run([*command, EXT / source, "-o", folder / f"{name}.so"], capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            made[key] = folder
        return made[key]

    return build


@pytest.fixture(scope="session")
def compile_program(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """compile_program(source, *flags): a program that embeds this Python."""

    def build(source: str, *flags: str) -> Path:
        library = Path(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("LDLIBRARY") or "no")
        if not library.exists() or ".so" not in library.name:
            pytest.skip("this Python has no shared library to embed")
        out = tmp_path_factory.mktemp(Path(source).stem) / Path(source).stem
        command = [CXX, "-std=c++20", "-O2", *includes(), f'-DPYTHON="{sys.executable}"', *flags, EXT / source, "-o", out]
        command += [library, f"-Wl,-rpath,{library.parent}", "-pthread"]
        done = subprocess.run([*map(str, command)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return out

    return build


@pytest.fixture(scope="session")
def life(compile_extension: Callable[..., Path]) -> Path:
    """The folder of the extension `life`."""
    return compile_extension("life.cpp")


@pytest.fixture
def child() -> Callable[..., str]:
    """child(code, *folders, timeout=…): Python code in a process of its own, with the modules of these folders; it must end
    well and in time. What it printed."""

    def run(code: str, *folders: Path, timeout: float = 60, **environment: str) -> str:
        path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", textwrap.dedent(code)],
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # with whatever it forks
        )
        try:
            printed, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # faulthandler tells where every thread is
            time.sleep(0.5)
            end_group(process.pid)
            printed, _ = process.communicate()
            pytest.fail(f"not done in {timeout} s\n{printed}")
        finally:
            end_group(process.pid)
        assert process.returncode == 0, f"exit status {process.returncode}\n{printed}"
        return printed

    return run


def end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
