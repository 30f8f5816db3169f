"""`python -m isthmus new`: the project of each kind is built and installed as its README says, and its test passes."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from pathlib import Path

import pytest
import readmes

isthmus = pytest.importorskip("isthmus")
from isthmus import new  # noqa: E402
from isthmus.__main__ import main  # noqa: E402

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "first_module.md").read_text()
#: What a kind or a build needs: a package, and programs.
NEEDS = {
    "scikit-build-core": ("scikit_build_core", ("cmake",)),
    "meson": ("mesonpy", ("meson", "ninja")),
    "nanobind": ("nanobind", ()),
}


def require(*names: str) -> None:
    for package, programs in (NEEDS[name] for name in names if name in NEEDS):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: pip install -r requirements/test.txt")
        for program in programs:
            if shutil.which(program, path=readmes.PATH) is None:
                pytest.skip(f"{program} is not installed")


@pytest.mark.slow
@pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")
@pytest.mark.parametrize("build", new.BUILDS)
@pytest.mark.parametrize("kind", new.KINDS)
def test_its_test_passes_at_once(kind: str, build: str, tmp_path: Path) -> None:
    require(kind, build)
    pytest.importorskip("numpy")
    name = f"of_{kind}"
    readmes.shell(f"python -m isthmus new {name} --kind {kind} --build {build}", tmp_path)
    folder = tmp_path / name
    tools, install, test = re.findall(r"(?ms)^```sh\n(.*?)^```", (folder / "README.md").read_text())[0].splitlines()
    assert tools.startswith("pip install ")  # the environment of the tests has them
    packages = os.pathsep.join(filter(None, ("site", os.environ.get("PYTHONPATH"))))
    readmes.shell(f"python -m {install}", folder, PIP_TARGET="site", PYTHONPATH=packages)
    said = readmes.shell(f"{test} -q -p no:cacheprovider -o addopts= -rs", folder, PYTHONPATH=packages)
    assert re.search(r"\d passed", said), said
    assert next((folder / "site").glob(f"{name}*.so")).is_file()


def test_the_command_of_the_guide(tmp_path: Path) -> None:
    command = re.findall(r"(?ms)^```sh\n(.*?)^```$", GUIDE)[1]
    said = readmes.shell(command, tmp_path)
    files = {"CMakeLists.txt", "README.md", "mine.cpp", "pyproject.toml", "test_mine.py"}
    assert {path.name for path in (tmp_path / "mine").iterdir()} == files
    assert said.startswith("mine/: CMakeLists.txt, README.md, mine.cpp, pyproject.toml, test_mine.py\n\ncd mine\npip ")


@pytest.mark.parametrize("build", new.BUILDS)
@pytest.mark.parametrize("kind", new.KINDS)
def test_every_place_is_filled(kind: str, build: str) -> None:
    files = new.files_of("mine", kind, build)
    assert len(files) == 5
    assert not any("@" in text for text in files.values())
    assert f'"isthmus=={isthmus.__version__.rpartition(".")[0]}.*"' in files["pyproject.toml"]
    compile(files["test_mine.py"], "test_mine.py", "exec")


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert main(["new", "mine"]) == 0  # an empty folder is filled
    (tmp_path / "mine" / "mine.cpp").write_text("changed")
    capsys.readouterr()
    assert main(["new", "mine", "--kind", "bare"]) == 1
    assert "mine is there already, and nothing of it is overwritten" in capsys.readouterr().err
    assert (tmp_path / "mine" / "mine.cpp").read_text() == "changed"
    (tmp_path / "file").touch()
    assert main(["new", "file"]) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"mine", "file"}


@pytest.mark.parametrize("name", ["a-b", "1st", "", "a b", "../a", "class", "naïve", "_a"])
def test_names_that_no_module_can_have(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not the name of a module"):
        new.create(name, parent=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["json", "test", "install", "nanobind"])
def test_names_that_are_taken(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is taken"):
        new.create(name, parent=tmp_path)


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new, "TEMPLATES", tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        new.create("mine", parent=tmp_path)
    assert not list(tmp_path.iterdir())
