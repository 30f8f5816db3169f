"""What the tests of several folders share."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
EXAMPLES = TESTS.parent / "examples"
# Modules that the tests share.
sys.path.insert(0, str(TESTS / "python" / "support"))

import compiling  # noqa: E402

# torch.compile's compiler keeps 150 MB of precompiled headers for each set of flags, in the system's folder for
# temporary files, which takes longer than to compile the few programs here without.
os.environ.setdefault("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")

modules_when_frozen = 0


def freeze_imports() -> None:
    """What imports made stays until the end: without it a collection takes milliseconds instead of most of a second."""
    global modules_when_frozen
    modules_when_frozen = len(sys.modules)
    gc.collect()
    gc.freeze()


def pytest_collection_finish() -> None:
    freeze_imports()


def pytest_runtest_logstart() -> None:
    """Frameworks are imported by the tests that use them, and the tests after those in the same process would pay."""
    if len(sys.modules) > modules_when_frozen + 50:
        freeze_imports()


@pytest.fixture(scope="session")
def build_example(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """build_example(name, *definitions, missing={what CMake says: why the test is skipped}): the build folder of an
    example, built against the installed package as a user builds it, but not optimised;
    once for each name and definitions."""
    built: dict[tuple[str, ...], Path] = {}
    quick = ("-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_TOOLCHAIN_FILE={compiling.TOOLCHAIN}")

    def build(name: str, *definitions: str, missing: dict[str, str]) -> Path:
        isthmus = pytest.importorskip("isthmus")
        if shutil.which("cmake") is None:
            pytest.skip("cmake is not installed")
        key = (name, *definitions)
        if key in built:
            return built[key]
        folder = tmp_path_factory.mktemp(name)
        places = (f"-Disthmus_DIR={isthmus.get_cmake_dir()}", f"-DPython_EXECUTABLE={sys.executable}")
        configure = ["cmake", "-S", EXAMPLES / name, "-B", folder, *places, *quick, *definitions]
        done = subprocess.run(configure, capture_output=True, text=True, timeout=300)
        for said, why in missing.items():
            if said in done.stderr:
                pytest.skip(why)
        assert done.returncode == 0, done.stdout + done.stderr
        done = subprocess.run(["cmake", "--build", folder], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout + done.stderr
        built[key] = folder
        return folder

    return build
