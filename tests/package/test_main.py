"""The command line, and the folders that it names."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import isthmus
from isthmus.__main__ import main


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-m", "isthmus", *arguments], capture_output=True, text=True)


def test_includes():
    done = run("--includes")
    assert done.returncode == 0
    folders = done.stdout.split()
    assert all(folder.startswith("-I") for folder in folders)
    for header in ("isthmus/python.h", "dlpack/dlpack.h", "Python.h"):
        assert any((Path(folder[2:]) / header).is_file() for folder in folders), header


def test_paths_with_spaces_are_quoted(monkeypatch, capsys):
    """One word each to a shell, to Make and to shlex."""
    import isthmus.__main__ as command_line

    folders = ["/a folder/include", "/b"]
    monkeypatch.setattr(isthmus, "get_includes", lambda: folders)
    monkeypatch.setattr(isthmus, "get_cflags", lambda **_: ["-O2", "-I/a folder/include"])
    monkeypatch.setattr(isthmus, "get_ldflags", lambda: ["/a folder/isthmus.o", "-Wl,--gc-sections"])
    for option, words in (
        ("--includes", ["-I/a folder/include", "-I/b"]),
        ("--cflags", ["-O2", "-I/a folder/include"]),
        ("--ldflags", ["/a folder/isthmus.o", "-Wl,--gc-sections"]),
    ):
        assert command_line.main([option]) == 0
        assert shlex.split(capsys.readouterr().out)[: len(words)] == words


def test_flags():
    """Of the compiler and of the linker; test_library.py links with them."""
    said = run("--cflags")
    assert (said.returncode, said.stdout.split()) == (0, isthmus.get_cflags())
    assert set(run("--includes").stdout.split()) < set(isthmus.get_cflags())
    try:
        library = isthmus.get_library()
    except FileNotFoundError as error:
        assert run("--ldflags").stderr.strip() == str(error)
    else:
        assert Path(library).is_file()
        assert run("--ldflags").stdout.split()[: len(isthmus.get_ldflags())] == isthmus.get_ldflags()


def test_a_missing_library_is_told_with_what_to_do(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(isthmus.paths, "_installed", lambda: iter([tmp_path]))
    assert main(["--ldflags"]) == 1
    assert "reinstall it" in capsys.readouterr().err


def test_get_include():
    assert (Path(isthmus.get_include()) / "isthmus" / "isthmus.h").is_file()


def test_cmakedir(capsys):
    try:
        folder = isthmus.get_cmake_dir()
    except FileNotFoundError as error:
        # Not installed: said in words, with an exit code.
        assert main(["--cmakedir"]) == 1
        assert str(error) in capsys.readouterr().err
    else:
        assert (Path(folder) / "isthmusConfig.cmake").is_file()
        assert main(["--cmakedir"]) == 0
        assert capsys.readouterr().out.strip() == folder


def test_version():
    assert run("--version").stdout.strip() == isthmus.__version__


def test_help_without_arguments(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "probe" in shown
    assert "--includes" in shown


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["--nonsense"], ["--includes", "--cmakedir"], ["--cflags", "--ldflags"], ["probe", "nonsense"]],
)
def test_wrong_arguments(arguments, capsys):
    with pytest.raises(SystemExit) as info:
        main(arguments)
    assert info.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_a_reader_that_stops_early():
    command = f"{sys.executable} -m isthmus probe numpy --json --quiet | true"
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("arguments", ["probe numpy --quiet", "doctor", "--version", "--includes", ""])
def test_a_process_without_stdout(arguments):
    done = subprocess.run(
        ["bash", "-c", f"{sys.executable} -m isthmus {arguments} >&-"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


PROGRAM = """
import sys
import isthmus
held = isthmus.empty((4,))
gone = isthmus.empty((5,))
del gone
print("argv", sys.argv[1:])
if sys.argv[1:] == ["fails"]:
    raise ValueError("a failure of the program")
if sys.argv[1:] == ["ends"]:
    sys.exit(3)
"""


@pytest.mark.parametrize(("argument", "code"), [("--works", 0), ("ends", 3), ("fails", 1)])
def test_live_runs_a_program(argument, code, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = run("live", "--trace", str(program), argument)
    assert done.returncode == code
    assert f"argv ['{argument}']" in done.stdout
    assert "1 tensor alive, 16 bytes" in done.stdout
    assert "program.py:4" in done.stdout
    assert ("a failure of the program" in done.stderr) == (argument == "fails")


def test_live_runs_a_module():
    done = run("live", "-m", "isthmus", "--version")
    assert done.returncode == 0
    assert isthmus.__version__ in done.stdout
    assert "0 tensors alive" in done.stdout


def test_live_names_a_file_that_is_missing(capsys):
    with pytest.raises(SystemExit) as info:
        main(["live", "missing.py"])
    assert info.value.code == 2
    assert "found 'missing.py'; expected a file" in capsys.readouterr().err
