"""tools/newest_pythons.py and the choice of versions of `make test-pythons`, without root or a chroot."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import newest_pythons
import test_pythons

STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "$LOG"
"""


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`mount` and `chroot` that write down what they were asked for; `unshare` runs the rest, as it would."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name, last in {"mount": "", "chroot": "", "unshare": 'shift; exec "$@"\n'}.items():
        (programs / name).write_text(STAND_IN + last)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LOG", str(tmp_path / "log"))
    return tmp_path / "log"


def lines(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if not line.startswith("unshare")]


def test_proc_is_mounted_before_the_command(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "with a space"
    subprocess.run(newest_pythons.inside(folder, "make", "PYTHONS=3.15 3.14"), check=True)
    assert lines(log) == [f"mount -t proc proc {folder}/proc", f"chroot {folder} make PYTHONS=3.15 3.14"]
    assert log.read_text().startswith("unshare --mount ")


def test_one_that_is_mounted_already_is_taken(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.ismount", lambda path: path == tmp_path / "proc")
    subprocess.run(newest_pythons.inside(tmp_path, "make"), check=True)
    assert lines(log) == [f"chroot {tmp_path} make"]


def test_without_proc_nothing_runs(log: Path, tmp_path: Path) -> None:
    (tmp_path / "programs" / "mount").write_text(STAND_IN + "echo mount: permission denied >&2; exit 32\n")
    with pytest.raises(SystemExit, match=r"cannot mount /proc in .* CAP_SYS_ADMIN\): mount: permission denied"):
        newest_pythons.check_mounts(tmp_path)
    assert [line.split()[0] for line in lines(log)] == ["mount"]


def test_the_copy_is_what_git_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not shutil.which("git"):
        pytest.skip("git is not installed")

    def git(*arguments: str) -> None:
        subprocess.run(["git", *arguments], cwd=tree, check=True, capture_output=True)

    tree = tmp_path / "tree"
    (tree / "tests").mkdir(parents=True)
    monkeypatch.setattr(newest_pythons, "ROOT", tree)
    for name in ("tests/same", "tests/other", "tests/gone"):
        (tree / name).write_text("before")
    git("init")
    git("add", ".")
    copy = newest_pythons.copy_tree(tmp_path)
    (copy / "build").mkdir()
    (copy / "build" / "made").touch()
    for name in ("same", "other"):
        os.utime(copy / "tests" / name, (1, 1))
    (tree / "tests" / "other").write_text("after")
    os.utime(tree / "tests" / "other", (1, 1))
    (tree / "tests" / "gone").unlink()
    newest_pythons.copy_tree(tmp_path)
    assert sorted(path.name for path in copy.rglob("*") if path.is_file()) == ["made", "other", "same"]
    assert (copy / "tests" / "other").read_text() == "after"
    # What is built of a file is made again by its time: by that of the copy, as another branch's file may be older.
    assert (copy / "tests" / "same").stat().st_mtime == 1
    assert (copy / "tests" / "other").stat().st_mtime > 1e9


def test_versions_are_chosen_in_the_order_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"3.13": "a", "3.14": "b", "3.15": "c"}
    monkeypatch.setattr(test_pythons, "interpreters", lambda: found)
    assert list(test_pythons.chosen(["3.15", "3.13"])) == ["3.15", "3.13"]
    assert test_pythons.chosen([]) == found
    with pytest.raises(SystemExit, match=r"no CPython 3.16 here, only 3.13, 3.14, 3.15; ISTHMUS_PYTHONS"):
        test_pythons.chosen(["3.14", "3.16"])
