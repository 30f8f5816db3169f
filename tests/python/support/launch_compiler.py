"""What CMake puts in front of the compiler in builds of the tests: the libraries that many of them bring along,
nanobind's and Isthmus's own, are compiled once.

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
#: The folders of CMake's that hold the objects of such a library, each below a folder of its target's name.
OURS = ("/isthmus_core.dir/", "/isthmus_python.dir/")


def main() -> None:
    command = sys.argv[1:]
    places = {flag: command[command.index(flag) + 1] for flag in PLACES if flag in command}
    made = places.get("-o", "")
    sources = compiling.package_folder("nanobind") if "/nanobind-static.dir/" in made else None
    if any(folder in made for folder in OURS):
        sources = Path(command[-1]).parent
        command.insert(-1, "-O0")  # a quarter of the time, whatever the target says
    if "-c" not in command or sources is None:
        os.execvp(command[0], command)
    for flag in places:
        at = command.index(flag)
        del command[at : at + 2]
    command = [word for word in command if word != "-MD"]
    shutil.copy(compiling.compiled("part.o", command, sources) / "part.o", places["-o"])
    if "-MF" in places:
        Path(places["-MF"]).write_text(f"{places['-MT']}:\n")  # what it is made of does not change during a test


if __name__ == "__main__":
    main()
