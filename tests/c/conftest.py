"""Where the tests of the C interface find the library and the headers."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def libisthmus(pytestconfig: pytest.Config) -> Path:
    """The libisthmus of the build under test, else the one in the installed package."""
    # The build's test modules are on the path that pytest is given; the library lies one folder above.
    places = [Path(str(folder)).parent for folder in pytestconfig.getini("pythonpath")]
    package = importlib.util.find_spec("isthmus")
    places += [Path(folder) / "lib" for folder in (package and package.submodule_search_locations) or ()]
    for place in places:
        if (place / "libisthmus.so").exists():
            return (place / "libisthmus.so").absolute()
    return pytest.fail(f"no libisthmus.so in {', '.join(map(str, places))}: build the target isthmus_c first")


@pytest.fixture
def needs():
    """Skips a test where a program is not installed."""

    def needs(*programs: str) -> None:
        for program in programs:
            if shutil.which(program) is None:
                pytest.skip(f"{program} is not installed")

    return needs


@pytest.fixture
def unsanitized() -> None:
    if os.environ.get("ISTHMUS_SANITIZER"):
        pytest.skip(
            "a sanitizer's runtime cannot be loaded into a runtime that has an allocator and signals of its own"
        )


@pytest.fixture(scope="session")
def run_example(libisthmus: Path):
    """Runs an example's script with the library under test, and returns what it printed."""
    import sys

    def run(script: Path, tmp_path: Path) -> str:
        environment = dict(
            os.environ, ISTHMUS_LIB_DIR=str(libisthmus.parent), BUILD_DIR=str(tmp_path), PYTHON=sys.executable
        )
        done = subprocess.run([str(script)], env=environment, capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, f"{script} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    return run
