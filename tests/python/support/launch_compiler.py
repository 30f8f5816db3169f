"""What CMake puts in front of the compiler in builds of the tests: nanobind's own library, which many of them bring along, is
compiled once.

Usage: launch_compiler.py COMPILER ARGUMENT ...
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import compiling

#: Flags, each with a value, that say where CMake wants what: nothing of what is compiled.
PLACES = ("-o", "-MT", "-MF")


def main() -> None:
    command = sys.argv[1:]
    places = {flag: command[command.index(flag) + 1] for flag in PLACES if flag in command}
    nanobind = compiling.package_folder("nanobind")
    if "-c" not in command or "/nanobind-static.dir/" not in places.get("-o", "") or nanobind is None:
        os.execvp(command[0], command)
    for flag in places:
        at = command.index(flag)
        del command[at : at + 2]
    command = [word for word in command if word != "-MD"]
    shutil.copy(compiling.compiled("part.o", command, nanobind) / "part.o", places["-o"])
    if "-MF" in places:
        Path(places["-MF"]).write_text(f"{places['-MT']}:\n")  # what it is made of does not change during a test


if __name__ == "__main__":
    main()
