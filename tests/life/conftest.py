"""What the tests of the edges of life share: extensions built without -fvisibility=hidden,
and processes that may die."""

from __future__ import annotations

import contextlib
import functools
import os
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import embedding
import processes
import pytest
from compiling import CXX, compiled, library_objects

isthmus = pytest.importorskip("isthmus")

EXT = Path(__file__).resolve().parent / "ext"
#: A copy of include/ to test in place of the installed one.
INCLUDE = os.environ.get("ISTHMUS_TEST_INCLUDE", isthmus.get_include())
#: Flags that say nothing to the library.
OF_SOURCE = ("-DMODULE=", "-DPYTHON=", "-isystem")
#: As the library's own build has it: what an extension does not call is left out.
PARTS = ("-ffunction-sections", "-fdata-sections")


@functools.cache
def includes() -> list[str]:
    # Behind the copy comes the installed one, for dlpack.h.
    python = subprocess.run([sys.executable, "-m", "isthmus", "--includes"], capture_output=True, text=True, check=True)
    # Some look at internals, which lie beside the headers: "src/bridge/runtime/object_owner.h".
    internals = Path(INCLUDE, "isthmus") if Path(INCLUDE, "isthmus", "src").is_dir() else Path(INCLUDE).parent
    return [f"-I{INCLUDE}", *python.stdout.split(), f"-I{internals}"]


def linked(name: str, command: list[str], source: str, link: list[str], include: str | Path = INCLUDE) -> Path:
    """The folder with the file `name`, of EXT/source, the sources among the command's flags and the library, all built
    alike; what only the linker is to know (-rdynamic, -Wl,…) compiles nothing again, and what only the source is to
    know (-D…) not the library."""
    for_linker = [flag for flag in command if flag.startswith(("-Wl,", "-rdynamic"))]
    more = [flag for flag in command if flag.endswith(".cpp")]
    compile_ = [flag for flag in command if flag not in (*for_linker, *more)]
    alike = [flag for flag in compile_ if not flag.startswith(OF_SOURCE)]
    objects = [compiled("part.o", [*compile_, "-c", path], EXT) / "part.o" for path in (EXT / source, *more)]
    objects += library_objects(alike, include)
    return compiled(name, [CXX, *objects, *for_linker, "-Wl,--gc-sections", *link])


@pytest.fixture(scope="session")
def compile_extension() -> Callable[..., Path]:
    """compile_extension(source, *flags, name="life", include=…): the folder of an extension that is built as
    in the README, but without -fvisibility=hidden, which is the hard case."""

    def build(source: str, *flags: str, name: str = "life", include: Path | None = None) -> Path:
        first = [f"-I{include}"] if include else []
        command = [CXX, "-std=c++20", "-O2", *PARTS, "-fPIC", *first, *includes(), f"-DMODULE={name}", *flags]
        return linked(f"{name}.so", command, source, ["-shared"], include or INCLUDE)

    return build


@pytest.fixture(scope="session")
def compile_program() -> Callable[..., Path]:
    """compile_program(source, *flags): a program that embeds this Python."""

    def build(source: str, *flags: str) -> Path:
        link = embedding.link_flags()
        if link is None:
            pytest.skip("this Python has no shared library to embed")
        # With -fPIC, which a program does not need, the library is the extensions'.
        command = [CXX, "-std=c++20", "-O2", *PARTS, "-fPIC", *includes(), f'-DPYTHON="{sys.executable}"', *flags]
        program = Path(source).stem
        return linked(program, command, source, [*link, "-pthread"]) / program

    return build


@pytest.fixture(scope="session")
def life(compile_extension: Callable[..., Path]) -> Path:
    """The folder of the extension `life`."""
    return compile_extension("life.cpp")


@pytest.fixture(scope="session")
def in_packages() -> Callable[..., None]:
    """in_packages(folder, library, *names): copies of an extension in packages of these names:
    shared objects of their own."""

    def copy(folder: Path, library: Path, *names: str) -> None:
        for name in names:
            (folder / name).mkdir()
            (folder / name / "__init__.py").touch()
            shutil.copy(library, folder / name)

    return copy


@pytest.fixture
def child() -> Callable[..., str]:
    """child(code, *folders, timeout=…, stack=…): Python code in a process of its own, with the modules of these folders
    and those that the tests share, its threads with stacks of so many bytes; it must end well and in time.
    What it printed."""

    def run(code: str, *folders: Path, timeout: float = 60, stack: int | None = None, **environment: str) -> str:
        process = subprocess.Popen(
            [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", textwrap.dedent(code)],
            env=processes.environment(*folders, processes.SUPPORT, **environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,  # with whatever it forks
            preexec_fn=stack and functools.partial(limit_stack, stack),
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


def limit_stack(size: int) -> None:
    """For the main thread of what is executed next, and by default for its others."""
    resource.setrlimit(resource.RLIMIT_STACK, (size, resource.getrlimit(resource.RLIMIT_STACK)[1]))


def end_group(leader: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)
