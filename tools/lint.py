#!/usr/bin/env python3
"""Run every linter over the tracked files and count them: clang-format, clang-tidy, ruff (check and format), mypy.

Usage:
    tools/lint.py [--venv DIR] [--build DIR] [--fix]

clang-tidy needs the compile commands of a configured build folder.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path

import run_tests

ROOT = run_tests.ROOT
GCC_ALONE = ("--param=", "-fno-reorder-blocks-and-partition", "-malign-data=")


def tracked(*patterns: str) -> list[str]:
    shown = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
                           cwd=ROOT, capture_output=True, text=True, check=True).stdout  # fmt: skip
    return sorted(name for name in shown.split("\0") if name and (ROOT / name).is_file())


def of_gcc(commands: list[dict[str, str]]) -> list[str]:
    """Leaves out what GCC alone is told, which Clang refuses."""
    words = {word for entry in commands for word in entry["command"].split()}
    return [f"-removed-arg={word}" for word in sorted(words) if word.startswith(GCC_ALONE)]


class Linters:
    def __init__(self, programs: Path, fix: bool) -> None:
        self.programs, self.fix = programs, fix
        self.counts = run_tests.Counts()

    def run(self, title: str, program: str, *arguments: str) -> None:
        start = time.monotonic()
        good = subprocess.run([self.programs / program, *arguments], cwd=ROOT).returncode == 0
        self.counts += run_tests.Counts(int(good), int(not good), failures=[] if good else [title])
        print(f"[isthmus] {title}: {'ok' if good else 'FAILED'} in {time.monotonic() - start:.1f} s", flush=True)

    def clang_format(self) -> None:
        files = tracked("*.h", "*.cpp", "*.c")
        if files:
            self.run("clang-format", "clang-format", *(["-i"] if self.fix else ["--dry-run", "--Werror"]), *files)

    def python(self) -> None:
        self.run("ruff check", "ruff", "check", *(["--fix"] if self.fix else []), ".")
        self.run("ruff format", "ruff", "format", *([] if self.fix else ["--check", "--diff"]), ".")
        if not self.fix and tracked("python/*.py"):
            self.run("mypy", "mypy")

    def clang_tidy(self, build: Path) -> None:
        # The tests misuse things on purpose; the public headers are seen through the sources that include an umbrella.
        ours = {str(ROOT / name) for name in tracked("src/*.cpp", "examples/*.cpp")}
        umbrella = re.compile(r"#include <isthmus/(?:isthmus|python)\.h>")
        ours |= {str(file) for file in (build / "headers").glob("*.cpp") if umbrella.search(file.read_text())}
        commands = json.loads((build / "compile_commands.json").read_text())
        files = sorted({entry["file"] for entry in commands} & ours)
        # Bodies that a unit includes have no command, and are seen with it.
        self.run(f"clang-tidy ({len(files)} files)", "run-clang-tidy.py", "-quiet", "-p", str(build), *of_gcc(commands),
                 "-clang-tidy-binary", str(self.programs / "clang-tidy"),
                 *(f"^{re.escape(file)}$" for file in files))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venv", type=Path, default=Path(".venv"))
    parser.add_argument("--build", type=Path, default=Path("build/dev"))
    parser.add_argument("--fix", action="store_true", help="format, and mend what ruff can mend")
    options = parser.parse_args()
    linters = Linters((ROOT / options.venv / "bin").absolute(), options.fix)
    linters.clang_format()
    linters.python()
    if not options.fix:
        linters.clang_tidy((ROOT / options.build).absolute())
        run_tests.save("lint", linters.counts)
    print(f"lint: {linters.counts}")
    return 1 if linters.counts.failed else 0


if __name__ == "__main__":
    sys.exit(main())
