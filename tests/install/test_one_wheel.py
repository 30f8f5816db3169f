"""examples/one_wheel: one file for every Python, whose own tests run on the Python of this run. `make test-pythons`
builds it once and names it in ISTHMUS_ONE_WHEEL, so that every interpreter gets the same file."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import compiling
import pytest
import readmes

pytest.importorskip("isthmus")
pytest.importorskip("numpy")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the module is not instrumented"),
    pytest.mark.skipif(
        bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="no stable ABI without the GIL before 3.15"
    ),
]

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "one_wheel"
COMMANDS = readmes.texts(EXAMPLE, "sh")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the README's command builds; or what it built on another Python."""
    if named := os.environ.get("ISTHMUS_ONE_WHEEL"):
        return Path(named)
    for package in ("nanobind", "scikit_build_core"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install -r requirements/test.txt")
    if shutil.which("cmake", path=readmes.PATH) is None:
        pytest.skip("cmake is not installed")
    folder = tmp_path_factory.mktemp("build") / "one_wheel"
    shutil.copytree(EXAMPLE, folder)
    readmes.shell(COMMANDS[0], folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that it is installed in."""
    if importlib.util.find_spec("nanobind_backend") is None:
        pytest.skip("nanobind-backend is not installed: pip install -r requirements/test-lite.txt")
    folder = tmp_path_factory.mktemp("site")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def test_it_is_one_file_for_all(wheel: Path) -> None:
    assert wheel.name.startswith("segments-1.0-cp310-abi3-")
    with zipfile.ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if ".dist-info/" not in name]
        metadata = archive.read("segments-1.0.dist-info/METADATA").decode()
    assert sorted(files) == ["segments/__init__.py", "segments/_segments.abi3.so"]
    assert {"isthmus>=0.1", "nanobind-backend>=1"} <= set(re.findall(r"(?m)^Requires-Dist: (.*)$", metadata))


def test_its_tests_pass(site: Path, tmp_path: Path) -> None:
    """The last line of the README, in a folder that has the wheel alone."""
    shutil.copytree(EXAMPLE / "tests", tmp_path / "tests")
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    _, command = COMMANDS[1].splitlines()
    assert command == "python -m pytest -q tests"
    said = readmes.shell(f"{command} -p no:cacheprovider -o addopts= -rs", tmp_path, PYTHONPATH=path)
    passed = re.search(r"(\d+) passed", said)
    assert passed, said
    assert int(passed[1]) >= 10


def test_it_does_what_the_readme_shows(site: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    path = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH"))))
    readmes.run_sessions(EXAMPLE, tmp_path, PYTHONPATH=path)


@pytest.mark.parametrize("missing", ["isthmus", "nanobind_backend"])
def test_without_a_package_the_import_says_what_to_install(missing: str, site: Path) -> None:
    program = f"""
import sys
sys.path.insert(0, {str(site)!r})
sys.modules[{missing!r}] = None
try:
    import segments
except ImportError as error:
    assert "pip install" in str(error), error
else:
    raise AssertionError
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_abi3audit_finds_nothing(site: Path) -> None:
    compiling.audit(site / "segments" / "_segments.abi3.so")
