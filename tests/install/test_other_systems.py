"""The cheap parts of tools/test_platforms.py: every header for other systems,
and a program of the core under an emulator."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import test_platforms as platforms


@pytest.mark.slow
@pytest.mark.parametrize("name", platforms.CHEAP)
def test_platform(name: str, tmp_path: Path) -> None:
    try:
        platforms.PARTS[name].check(tmp_path)
    except platforms.Missing as missing:
        pytest.skip(str(missing))


def test_what_does_not_compile_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: a header that needs what the system lacks."""
    (tmp_path / "include" / "isthmus").mkdir(parents=True)
    (tmp_path / "include" / "isthmus" / "isthmus.h").write_text("#include <pthread.h>\n#error expected here\n")
    monkeypatch.setattr(platforms, "INCLUDE", tmp_path / "include")
    try:
        with pytest.raises(platforms.Failed, match="expected here"):
            platforms.PARTS["syntax-windows"].check(tmp_path)
    except platforms.Missing as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize(
    ("missing", "part", "how"),
    [
        ("qemu-aarch64", "bridge-aarch64", "apt install qemu-user-static"),
        ("aarch64-linux-gnu-g++", "bridge-aarch64", "apt install g..-aarch64-linux-gnu"),
        ("apt-get", "bridge-aarch64", "a mirror"),
        ("dpkg", "packaged-adapters-macos", "a mirror"),
        ("aarch64-linux-gnu-g++", "torch-aarch64", "apt install g..-aarch64-linux-gnu"),
    ],
)
def test_what_is_missing_is_named(
    missing: str, part: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platforms, "zig", tuple)
    there = "/bin/true"
    monkeypatch.setattr(platforms.shutil, "which", lambda name: None if missing in name else there)
    with pytest.raises(platforms.Missing, match=how):
        platforms.PARTS[part].check(tmp_path)


def test_what_an_emulator_leaves_out_is_there() -> None:
    """A test that is renamed would be run again, and a folder that is gone leaves its reason behind."""
    for name in platforms.NOT_UNDER_QEMU:
        file, *parts = name.split("::")
        assert (platforms.ROOT / file).exists(), name
        assert not parts or f"def {parts[-1]}(" in (platforms.ROOT / file).read_text(), name


def test_a_program_for_another_system_is_one_that_may_be_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the script that stands for the compiler, here in front of this machine's own,
    and an emulator that says its name."""
    folder, root = tmp_path / "bin", tmp_path / "the root"
    folder.mkdir()
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++; Debian, Ubuntu: apt install g++")
    target = platforms.Target("Linux", lambda: (compiler,), lambda: ("/usr/bin/env", "EMULATED=yes"))
    monkeypatch.setattr(platforms, "arm64_emulator", lambda target, root: ("/usr/bin/env", "EMULATED=yes"))
    variables = platforms.arm64_compilers(target, root, folder)
    source = tmp_path / "program.cpp"
    source.write_text(
        "#include <cstdlib>\n#include <iostream>\n"
        'int main(int n, char** words) { std::cout << std::getenv("EMULATED") << n << words[1]; }\n'
    )
    subprocess.run([variables["CXX"], source, "-o", tmp_path / "part"], check=True)
    moved = (tmp_path / "part").rename(tmp_path / "program")
    assert subprocess.run([moved, "two words"], capture_output=True, text=True, check=True).stdout == "yes2two words"
    subprocess.run([variables["CXX"], "-c", source, "-o", tmp_path / "part.o"], check=True)
    assert not (tmp_path / "part.o.elf").exists()


@pytest.mark.parametrize("library", ["nanobind", "pybind11"])
def test_a_binder_that_is_missing_is_named(library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "zig", tuple)
    monkeypatch.setattr(platforms.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(platforms.Missing, match=f"no {library}; pip install {library}"):
        platforms.PARTS[f"{library}-macos"].check(tmp_path)


def test_a_mirror_without_arm64_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms.shutil, "which", lambda _: "/bin/false")
    with pytest.raises(platforms.Missing, match="no packages of arm64"):
        platforms.arm64_python(tmp_path)
    assert not (tmp_path / "root").exists()


def test_a_wheel_of_torch_that_cannot_be_had_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms.sys, "executable", "/bin/false")
    with pytest.raises(platforms.Missing, match=r"no wheel of torch==[0-9.]+ for some_platform; expected is a network"):
        platforms.torch_include(tmp_path, ("some_platform",))
    assert not (tmp_path / "torch").exists()


#: What only some compilers know -> where it may stand beside include/isthmus/core/compiler.h, and why.
OF_COMPILERS = re.compile(r"__(?:attribute__|builtin_\w+|atomic_\w+)|\[\[(?:gnu|clang|msvc)::")
ELSEWHERE = {"include/isthmus/c/isthmus.h": "a header of C's, which includes nothing of C++"}


def test_what_compilers_do_differently_is_in_one_header() -> None:
    sources = [path for folder in ("include", "src") for path in (platforms.ROOT / folder).rglob("*.*")]
    found = {
        str(path.relative_to(platforms.ROOT)): words
        for path in sources
        if (words := OF_COMPILERS.findall(path.read_text()))
    }
    assert found.pop("include/isthmus/core/compiler.h")
    assert set(found) == set(ELSEWHERE), found
