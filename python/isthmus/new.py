"""``isthmus new``: a project to start from, with its build, its source and its test."""

from __future__ import annotations

import argparse
import keyword
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from . import _isthmus

if TYPE_CHECKING:
    from argparse import _SubParsersAction

KINDS = ("nanobind", "bare", "operators")
BUILDS = ("scikit-build-core", "meson")
TEMPLATES = Path(__file__).resolve().parent / "templates"

#: Said of CMake's builds; meson's link the library that the wheel carries.
FIRST_BUILD = "\nThe first build also compiles Isthmus, in about a minute; `build` keeps it for the next one.\n"
#: Targets that CMake keeps for itself.
_TARGETS = {"all", "clean", "help", "install", "package", "test"}
_USED = {"isthmus", "nanobind", "numpy", "pytest", "torch"}


def check_name(name: str) -> None:
    """Raises ValueError for a name that a module, a C++ function and a target of CMake cannot have."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name) or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is not the name of a module: letters, digits and underscores, a letter first")
    if name in _TARGETS or name in _USED or name in sys.stdlib_module_names:
        raise ValueError(f"{name!r} is taken: by Python's library, a package that the project uses, or CMake")


def files_of(name: str, kind: str, build: str) -> dict[str, str]:
    """The files of a project, by their names."""
    minor = ".".join(_isthmus.__version__.split(".")[:2])
    binder = ["nanobind"] if kind == "nanobind" else []
    requires = [f"isthmus=={minor}.*", *(f"{one}>=2.7" for one in binder)]
    tool = "meson-python" if build == "meson" else build
    values = {
        "NAME": name,
        "MINOR": minor,
        "REQUIRES": ", ".join(f'"{one}"' for one in requires),
        "BUILD_TOOLS": " ".join([tool, *binder]),
        "FIRST_BUILD": "" if build == "meson" else FIRST_BUILD,
    }
    bound = ".nanobind" if binder else ""
    templates = {
        "pyproject.toml": f"pyproject.{build}.toml",
        f"{name}.cpp": f"{kind}.cpp",
        f"test_{name}.py": "test.operators.py" if kind == "operators" else "test.py",
        "README.md": "README.md",
    }
    if build == "meson":
        templates["meson.build"] = f"meson{bound}.build"
    else:
        templates["CMakeLists.txt"] = f"CMakeLists{bound}.txt"
    return {
        file: re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], (TEMPLATES / f"{template}.in").read_text())
        for file, template in templates.items()
    }


def create(name: str, kind: str = KINDS[0], build: str = BUILDS[0], parent: Path | None = None) -> Path:
    """Writes the project into the folder `name` of `parent`, whole or not at all. FileExistsError if it is there."""
    check_name(name)
    folder = (parent or Path.cwd()) / name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} is there already, and nothing of it is overwritten: choose another name")
    made = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=folder.parent))
    try:
        for file, text in files_of(name, kind, build).items():
            (made / file).write_text(text)
        made.chmod(0o755)
        made.rename(folder)  # onto an empty folder, or none
    except OSError:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return folder


def run(options: argparse.Namespace) -> int:
    try:
        folder = create(options.name, options.kind, options.build)
    except (OSError, ValueError) as error:
        print(f"isthmus new: {error}", file=sys.stderr)
        return 1
    commands = re.findall(r"(?ms)^```sh\n(.*?)^```", (folder / "README.md").read_text())[0]
    print(f"{options.name}/: {', '.join(sorted(path.name for path in folder.iterdir()))}\n")
    print(f"cd {options.name}\n{commands}", end="")
    return 0


def add_command(commands: _SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "new",
        help="write a project to start from, with its build, its source and its test",
        description="Write a project into the folder NAME: pyproject.toml, the build, one C++ source and one test, "
        "which passes once the project is installed. Nothing is overwritten.",
    )
    parser.add_argument("name", metavar="NAME", help="the name of the module and of the folder")
    parser.add_argument("--kind", choices=KINDS, default=KINDS[0], help="how the function is bound (%(default)s)")
    parser.add_argument("--build", choices=BUILDS, default=BUILDS[0], help="what builds it (%(default)s)")
    parser.set_defaults(run=run)
