"""Every public header compiles after the macros that Qt, X11, Windows and others leave in a program."""

from __future__ import annotations

import functools
import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
from compiling import CXX
from header_programs import CUDA_MDSPAN, PROGRAMS, ROOT, folders_of, platforms

MACROS = Path(__file__).parent / "macros" / "crowded.h"


@functools.cache
def includes_of_others() -> list[str]:
    """What Isthmus's files include of others: a program has those before its own macros, as Qt and X11 want it."""
    files = [path for folder in ("include", "src") for path in sorted((ROOT / folder).rglob("*.*"))]
    found = {name for path in files for name in re.findall(r"(?m)^ *# *include <([^>]+)>", path.read_text())}
    return sorted(name for name in found if not name.startswith("isthmus/"))


def prelude(program: str) -> str:
    """Python.h first, as it must be; a header that is not on the include path is left out."""
    others = [f"#if __has_include(<{name}>)\n#include <{name}>\n#endif\n" for name in includes_of_others()]
    python = "#include <Python.h>\n" if "python.h" in program or "_MODULE" in program or "torch.h" in program else ""
    python += CUDA_MDSPAN if "mdspan.h" in program else ""
    leave_out = () if python else ("<Python.h>", "<frameobject.h>", "<structmember.h>")
    return python + "".join(text for text in others if not any(name in text for name in leave_out))


def compile_(text: str, folders: list[Path], flags: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    source = tmp_path / "program.cpp"
    source.write_text(text)
    system = [platforms.dlpack(), sysconfig.get_path("include"), *folders]
    command = [
        CXX,
        "-std=c++20",
        "-fsyntax-only",
        *flags,
        f"-I{ROOT / 'include'}",
        *[f"-isystem{folder}" for folder in system],
    ]
    return subprocess.run([*command, source], capture_output=True, text=True, timeout=300)


def test_every_public_header_is_in_a_program() -> None:
    folder = ROOT / "include"
    public = {
        str(path.relative_to(folder)) for pattern in ("*.h", "c/*.h") for path in (folder / "isthmus").glob(pattern)
    }
    programs = "".join(program for program, _, _ in PROGRAMS.values())
    assert public - set(re.findall(r"#include <([^>]+)>", programs)) == set()


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_after_the_macros_of_others(name: str, tmp_path: Path) -> None:
    program, _, flags = PROGRAMS[name]
    done = compile_(prelude(program) + f'#include "{MACROS}"\n' + program, folders_of(name), flags, tmp_path)
    assert done.returncode == 0, done.stderr[:6000]


def test_no_file_uses_the_name_of_such_a_macro(tmp_path: Path) -> None:
    """Also where it would do no harm by chance: what is `near` today is nothing at all there."""
    words = re.findall(r"(?m)^#define (\w+)(?!\()\b", MACROS.read_text())
    program, _, flags = PROGRAMS["bridge, header-only"]
    poisoned = f"#undef linux\n#undef unix\n#pragma GCC poison {' '.join(words)}\n"
    done = compile_(prelude(program) + poisoned + program, [], flags, tmp_path)
    assert done.returncode == 0, done.stderr[:6000]
