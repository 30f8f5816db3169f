"""A README that is a tutorial: its code is that of the files beside it, its commands print what it says,
its sessions too."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import compiling

BLOCK = re.compile(r"(?ms)^```(\w+)\n(.*?)^```$")
#: Blocks that are run or compared with what ran; every other one is a part of a file.
RUN = {"sh", "text", "pycon"}
#: This Python and the tools of its environment come first.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
LAUNCHER = Path(__file__).resolve().parent / "launch_compiler.py"


def blocks(folder: Path) -> list[tuple[str, str]]:
    """(language, text) of each block of the folder's README, in their order."""
    return BLOCK.findall((folder / "README.md").read_text())


def texts(folder: Path, wanted: str) -> list[str]:
    """The blocks of one language."""
    return [text for language, text in blocks(folder) if language == wanted]


def strangers(folder: Path) -> list[str]:
    """The blocks of code that are not, word for word but for their indentation, a part of a file of the example."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".md", ".pgm", ".pyc")]
    texts = ["\n" + path.read_text() for path in files]
    code = [text for language, text in blocks(folder) if language not in RUN]
    return [
        block
        for block in code
        if not any("\n" + textwrap.indent(block, " " * n) in t for n in (0, 4, 8) for t in texts)
    ]


def shell(command: str, folder: Path, **environment: str) -> str:
    """What a command prints, with this Python and the tools of its environment; not optimised,
    which takes half the time."""
    settings = {
        "PATH": PATH,
        "CMAKE_BUILD_TYPE": "Debug",
        "SKBUILD_CMAKE_BUILD_TYPE": "Debug",
        "CMAKE_TOOLCHAIN_FILE": str(compiling.TOOLCHAIN),
        "CMAKE_CXX_COMPILER_LAUNCHER": f"{sys.executable};{LAUNCHER}",
        "CFLAGS": "-O0",
        "CXXFLAGS": "-O0",
        # The requirements are installed already: a build asks no registry.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_DEPS": "1",
    }
    done = subprocess.run(
        ["bash", "-euc", command],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, **settings, **environment},
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def shown(wanted: str, printed: str) -> str:
    """Empty where a README shows what was printed ("..." stands for what varies), else how they differ."""
    checker, example = doctest.OutputChecker(), doctest.Example("", wanted)
    good = checker.check_output(wanted, printed, doctest.ELLIPSIS)
    return "" if good else checker.output_difference(example, printed, doctest.ELLIPSIS | doctest.REPORT_NDIFF)


def follow(example: Path, folder: Path, leave_out: str = "\0") -> None:
    """Does what the README says in a copy of the example: builds it, compares what is printed, and runs its sessions.
    Commands in which `leave_out` stands are left out, with what they print."""
    work = folder / example.name
    shutil.copytree(example, work)
    packages = os.pathsep.join(filter(None, ("site", os.environ.get("PYTHONPATH"))))
    environment = {"PIP_TARGET": "site", "PYTHONPATH": packages}
    printed, left_out = "", False
    for language, text in blocks(example):
        if language == "sh":
            left_out = leave_out in text
            printed = "" if left_out else shell(text.replace(" -O2 ", " -O0 "), work, **environment)
        elif language == "text" and not left_out:
            assert shown(text, printed) == ""
    run_sessions(example, work, PYTHONPATH=os.pathsep.join((packages, "build", ".")))


def run_sessions(example: Path, folder: Path, **environment: str) -> None:
    """Runs what the README shows of a session with Python, in a folder with the modules that it imports."""
    session = "\n".join(text for language, text in blocks(example) if language == "pycon")
    if session:
        (folder / "session.txt").write_text(session)
        test = (
            "import doctest, sys; "
            "sys.exit(doctest.testfile('session.txt', False, optionflags=doctest.ELLIPSIS)[0] != 0)"
        )
        shell(f'"{sys.executable}" -c "{test}"', folder, **environment)
