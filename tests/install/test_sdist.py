"""The source distribution holds what git has, so that packagers of Isthmus can run its tests."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

pytest.importorskip("scikit_build_core")
REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tracked() -> set[str]:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    done = subprocess.run(["git", "ls-files", "--cached"], cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git repository")
    return {name for name in done.stdout.splitlines() if (REPOSITORY / name).is_file()}


def test_it_holds_what_git_has(tracked: set[str], tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name in [
        *tracked,
        ".venv/decoy",
        "build/decoy",
        "dist/decoy",
    ]:  # a copy: environments and builds take long to walk
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copy(REPOSITORY / name, tree / name) if name in tracked else (tree / name).touch())
    build = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", build, tmp_path], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("isthmus-*.tar.gz")
    with tarfile.open(archive) as files:
        held = {name.split("/", 1)[1] for name in files.getnames() if "/" in name}
    assert {
        "tests/conftest.py",
        "tools/run_tests.py",
        "requirements/test.txt",
        "Makefile",
        "docs/install.md",
    } <= tracked
    missing = {name for name in tracked - held if not name.startswith(".github/")}
    assert not missing
    assert not [name for name in held if name.startswith((".venv", "build/", "dist/"))]


def test_the_citation_names_this_version() -> None:
    version = (
        (REPOSITORY / "include/isthmus/core/config.h").read_text().split('#define ISTHMUS_VERSION "')[1].split('"')[0]
    )
    assert f"\nversion: {version}\n" in (REPOSITORY / "CITATION.cff").read_text()
