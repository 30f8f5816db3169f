"""What an extension shows to the rest of its process: the error class, which C++ must know again,
and nothing of its state.

Two extensions are two programs in one process. A symbol that the dynamic linker may merge makes one of them run on the
other's tables, statics and code, which are of another version, compiler or set of flags.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import isthmus

pytestmark = pytest.mark.skipif(not shutil.which("nm"), reason="nm is not installed")

#: What may be seen: isthmus::Error, its members and its run-time type information.
ALLOWED = re.compile(r"^(?:(?:typeinfo|typeinfo name|vtable) for )?isthmus::(?:\w+::)?Error(?:$|::)")
#: Members of templates that libstdc++ declares visible whatever they are made for: code alone, where nothing is
#: inlined. nm cannot put into words the names that GCC 16 gives to those with constraints.
OF_STD = re.compile(r"^(?:(?:(?:[\w:*& ]+|decltype \(.*\)) )?std::|_ZN?K?St)")
#: The registry of shared memory is one per process on purpose (src/shared/registry.h).
SHARED = re.compile(
    r"isthmus::(?:\w+::)?shared::(?:impl::(?:registry2_of_process|pool2_of_process|making_one|registry\(\))|Pool::process\(\))(?:$|::\w+$|::\{lambda)"
)


def visible(library: Path) -> list[tuple[str, str]]:
    """(kind, name) of each dynamic symbol that the library defines."""
    done = subprocess.run(["nm", "-D", "-C", "--defined-only", library], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines()]
    return [(row[1], row[2]) for row in rows if len(row) == 3]


def ours(symbols: list[tuple[str, str]]) -> list[str]:
    shown = [(kind, name) for kind, name in symbols if "isthmus" in name and not ALLOWED.match(name)]
    return [
        f"{kind} {name}" for kind, name in shown if not (kind == "W" and OF_STD.match(name)) and not SHARED.search(name)
    ]


#: Builds of test_many_extensions.py too; those without optimisation show more, for nothing is inlined.
FLAGS = [(), ("-O0",), ("-DNDEBUG", "-O1"), ("-O0", "-fno-gnu-unique"), ("-O0", "-std=c++23")]


@pytest.mark.parametrize(
    ("source", "flags"),
    [*(("life.cpp", flags) for flags in FLAGS), *(("exports.cpp", flags) for flags in FLAGS[:2])],
    ids=lambda value: value if isinstance(value, str) else " ".join(value) or "as it is",
)
def test_it_shows_nothing_without_the_flag_for_it(compile_extension, source: str, flags: tuple[str, ...]) -> None:
    """The README's line, but for -fvisibility=hidden."""
    name = source.removesuffix(".cpp")
    symbols = visible(compile_extension(source, *flags, name=name) / f"{name}.so")
    assert f"PyInit_{name}" in [symbol for _, symbol in symbols]
    assert [name for kind, name in symbols if kind == "u" and "isthmus" in name and not SHARED.search(name)] == []
    assert ours(symbols) == []


def test_the_error_class_is_shown(compile_extension) -> None:
    """Thrown by one shared object and caught by another of the same version, it is one type."""
    symbols = visible(compile_extension("exports.cpp", name="exports") / "exports.so")
    assert any(re.fullmatch(r"typeinfo for isthmus::(?:\w+::)?Error", name) for _, name in symbols)


@pytest.mark.parametrize("binder", ["pybind11", "nanobind"])
def test_the_casters_show_nothing(compile_extension, binder: str) -> None:
    module = pytest.importorskip(binder)
    if binder == "pybind11":
        flags = ["-O0", f"-isystem{module.get_include()}"]
    else:  # a part of it is compiled with each module
        ext = Path(module.include_dir()).parent / "ext" / "robin_map" / "include"
        combined = Path(module.source_dir()) / "nb_combined.cpp"
        flags = ["-O0", f"-isystem{module.include_dir()}", f"-isystem{ext}", str(combined)]
    folder = compile_extension(f"caster_{binder}.cpp", *flags, name="caster")
    assert ours(visible(folder / "caster.so")) == []


def test_the_installed_libraries_show_nothing() -> None:
    """The package's own module, and the C library, whose interface is C alone."""
    folder = Path(isthmus.__file__).parent
    libraries = [*folder.rglob("_isthmus*.so"), *folder.rglob("libisthmus.so")]
    assert libraries
    for library in libraries:
        shown = [
            entry for entry in ours(visible(library)) if not re.match(r"T (?:PyInit_|isthmus_)\w+(?:@@\w+)?$", entry)
        ]
        assert shown == [], library.name
