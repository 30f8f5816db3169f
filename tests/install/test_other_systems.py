"""The cheap parts of tools/test_platforms.py: every header for other systems, and a program of the core under an emulator."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import test_platforms as platforms


@pytest.mark.parametrize("name", platforms.CHEAP)
def test_platform(name: str, tmp_path: Path) -> None:
    try:
        platforms.PARTS[name].check(tmp_path)
    except platforms.Missing as missing:
        pytest.skip(str(missing))


def test_what_does_not_compile_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check itself: a header that needs what the system lacks."""
    (tmp_path / "include" / "isthmus").mkdir(parents=True)
    (tmp_path / "include" / "isthmus" / "isthmus.h").write_text("#include <pthread.h>\n#error wanted here\n")
    monkeypatch.setattr(platforms, "INCLUDE", tmp_path / "include")
    try:
        with pytest.raises(platforms.Failed, match="wanted here"):
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
def test_what_is_missing_is_named(missing: str, part: str, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platforms, "zig", tuple)
    there = "/bin/true"
    monkeypatch.setattr(platforms.shutil, "which", lambda name: None if missing in name else there)
    with pytest.raises(platforms.Missing, match=how):
        platforms.PARTS[part].check(tmp_path)


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
    with pytest.raises(platforms.Missing, match=r"no wheel of torch==[0-9.]+ for some_platform; wanted is a network"):
        platforms.torch_include(tmp_path, ("some_platform",))
    assert not (tmp_path / "torch").exists()
