"""The README's first program is compiled by its own command, and its session gives the output that it shows."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import readmes

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text()


class AnyAddress(doctest.OutputChecker):
    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return super().check_output(*(re.sub(r"0x[0-9a-f]+", "0x0", text) for text in (want, got)), optionflags)


def test_the_first_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (tmp_path / "first.cpp").write_text(readmes.texts(REPOSITORY, "cpp")[1])
    # "python" in the command is this one, and nothing is optimised, which takes half the time.
    compile_it, *_ = readmes.texts(REPOSITORY, "sh")
    command = f'python() {{ "{sys.executable}" "$@"; }}; g++() {{ command g++ "$@" -O0; }}; {compile_it}'
    subprocess.run(["bash", "-euc", command], cwd=tmp_path, check=True)

    monkeypatch.syspath_prepend(tmp_path)
    session = doctest.DocTestParser().get_doctest(
        readmes.texts(REPOSITORY, "pycon")[0], {}, "README.md", "README.md", 0
    )
    shown: list[str] = []
    results = doctest.DocTestRunner(AnyAddress()).run(session, out=shown.append)
    assert results.attempted
    assert not results.failed, "".join(shown)


@pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")
def test_the_nanobind_module_in_a_new_project(tmp_path: Path) -> None:
    for package in ("nanobind", "scikit_build_core", "numpy"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install -r requirements/test.txt")
    command = re.search(r"`(python -m isthmus new first)`", README)[1]  # type: ignore[index]
    readmes.shell(command, tmp_path)
    (tmp_path / "first" / "first.cpp").write_text(readmes.texts(REPOSITORY, "cpp")[0])
    packages = os.pathsep.join(filter(None, ("site", os.environ.get("PYTHONPATH"))))
    install = "python -m pip install --no-deps --no-build-isolation --no-index --target site ."
    readmes.shell(install, tmp_path / "first", PYTHONPATH=packages)
    use = "import first, numpy as np; x = np.zeros((2, 3), np.float32); first.invert(x); assert (x == 1).all()"
    readmes.shell(f"python -c '{use}'", tmp_path / "first", PYTHONPATH=packages)


@pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")
def test_the_build_with_cmake(tmp_path: Path) -> None:
    if shutil.which("cmake", path=readmes.PATH) is None:
        pytest.skip("cmake is not installed")
    (tmp_path / "first.cpp").write_text(readmes.texts(REPOSITORY, "cpp")[1])
    (tmp_path / "CMakeLists.txt").write_text(readmes.texts(REPOSITORY, "cmake")[0])
    commands = readmes.texts(REPOSITORY, "sh")[2]
    readmes.shell(commands, tmp_path)
    assert (tmp_path / re.search(r"build/\S+\.so", commands)[0]).is_file()  # type: ignore[index]
