#!/usr/bin/env python3
"""The suite's own test: guards of the headers are removed one at a time, and each must turn a test red.

Usage:
    tools/mutate.py --build DIR --python PYTHON [--list] [--only REGEX] [--sample N [--seed S]] [--together] [--report FILE]

A guard is a statement that leaves a function (return, throw, continue) under a condition on one line. It is found by its shape,
so that it need not be listed by file. A copy of the repository is built once in the build folder; for each guard its
condition is made false there, what depends on that header is built again, and the tests run that mirror its folder, until
the first that fails. With --together all guards are made switchable by an environment variable in one build, which then
runs once per guard: minutes instead of hours, but blind to what only a static_assert sees. A guard whose loss no test sees is
printed at the end; tools/mutants.txt names those that are no loss, a line each with the reason. The exit status is 1 when
another one survives.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tools" / "mutants.txt"

#: What a guard does: it leaves.
LEAVES = re.compile(r"^\s*(?:return\b|throw\b|continue;|break;)")
IF = re.compile(r"^(?P<indent>\s*)(?:else )?if \(")
#: A condition that declares a variable, which nothing can be put before.
DECLARES = re.compile(r"(?:const )?[\w:]+(?:<.*>)?[\s*&]+\w+\s*=[^=]")

#: What the header that every other includes gets when guards are switchable: which one ISTHMUS_MUTANT takes away, at run time.
COMMON = "include/isthmus/core/config.h"
SWITCH = """
#include <cstdlib>
inline int isthmus_mutant_chosen() {
    static const int chosen = [] {
        const char* text = std::getenv("ISTHMUS_MUTANT");
        return text != nullptr ? std::atoi(text) : -1;
    }();
    return chosen;
}
constexpr bool isthmus_mutant_is(int number) {
    return !__builtin_is_constant_evaluated() && isthmus_mutant_chosen() == number;
}
"""


@dataclass(frozen=True)
class Mirror:
    """The tests that see a header: what is built, which of it is run, and pytest's folders."""

    targets: tuple[str, ...]
    programs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()


def adapter(name: str) -> Mirror:
    return Mirror((f"isthmus_{name}_tests",), (f"isthmus_{name}_tests",))


#: By the first part of a header's path, or its name without suffix, that is named here.
MIRRORS = {
    "core": adapter("core"),
    "python": Mirror(("isthmus_test_ext",), (), ("tests/python", "tests/life")),
    "eigen": adapter("eigen"),
    "mdspan": adapter("mdspan"),
    "opencv": adapter("opencv"),
    "xtensor": adapter("xtensor"),
    "torch": Mirror(("isthmus_torch_stable_ext", "isthmus_torch_test_ext"), (), ("tests/torch",)),
}


@dataclass
class Guard:
    file: str
    line: int
    text: str
    start: int  # of the condition, in the line
    end: int

    @property
    def key(self) -> str:
        """What names it when lines move: the file's name and the statement."""
        return f"{Path(self.file).name}: {self.text}"


def condition_of(line: str) -> tuple[int, int] | None:
    """Where the condition of an if begins and ends; None when it does not end on the line."""
    found = IF.match(line)
    if found is None:
        return None
    depth, start = 1, found.end()
    for i in range(start, len(line)):
        depth += {"(": 1, ")": -1}.get(line[i], 0)
        if depth == 0:
            return start, i
    return None


def guards_of(path: Path, root: Path) -> list[Guard]:
    lines = path.read_text().splitlines()
    guards = []
    for number, line in enumerate(lines):
        where = condition_of(line)
        if where is None or line.lstrip().startswith("//") or "constexpr" in line or ";" in line[where[0] : where[1]]:
            continue
        rest = line[where[1] + 1 :].strip()
        following = lines[number + 1] if number + 1 < len(lines) else ""
        if LEAVES.match(rest) or (rest in ("", "{") and LEAVES.match(following)):
            text = " ".join((line.strip() + " " + (following.strip() if rest in ("", "{") else "")).split())
            guards.append(Guard(str(path.relative_to(root)), number, text, *where))
    return guards


def without(guard: Guard, text: str, never: str = "false") -> str:
    """The file with `never` put before the guard's condition, which is still compiled."""
    lines = text.split("\n")
    line = lines[guard.line]
    lines[guard.line] = f"{line[: guard.start]}{never} && ({line[guard.start : guard.end]}){line[guard.end :]}"
    return "\n".join(lines)


class Workshop:
    """A copy of the repository, built once and then again and again in part."""

    def __init__(self, build: Path, python: Path, timeout: float) -> None:
        self.source, self.build, self.python, self.timeout = build / "source", build / "build", python, timeout
        shown = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, shown.split("\0")):
            if (ROOT / name).is_file():
                (self.source / name).parent.mkdir(parents=True, exist_ok=True)
                target = self.source / name
                if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
                    shutil.copy2(ROOT / name, target)
        configure = ["cmake", "--preset", "dev", "-B", self.build, f"-DPython_EXECUTABLE={python}"]
        self.check(self.run([*configure, "-DISTHMUS_CHECK_HEADERS=OFF"], timeout=600), "configuring")

    def run(self, command: list[object], timeout: float | None = None, mutant: int = -1) -> subprocess.CompletedProcess[str]:
        # The headers of the copy are those that tests compile themselves.
        environment = {**os.environ, "ISTHMUS_TEST_INCLUDE": str(self.source / "include"), "ISTHMUS_MUTANT": str(mutant)}
        try:
            return subprocess.run([*map(str, command)], cwd=self.source, env=environment, capture_output=True, text=True,
                                  timeout=timeout or self.timeout)  # fmt: skip
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess([], 124, "", "not done in time")

    @staticmethod
    def check(done: subprocess.CompletedProcess[str], what: str) -> None:
        if done.returncode:
            sys.exit(f"{what} the unchanged copy failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")

    def build_tests(self, mirror: Mirror) -> subprocess.CompletedProcess[str]:
        return self.run(["cmake", "--build", self.build, "--target", *mirror.targets], timeout=1800)

    def first_failure(self, mirror: Mirror, mutant: int = -1) -> str:
        """The first test that fails, or "" when none does."""
        for program in mirror.programs:
            done = self.run([self.build / program, "--gtest_fail_fast", "--gtest_brief=0"], mutant=mutant)
            if done.returncode:
                failed = re.search(r"^\[  FAILED  \] (\w\S*\.[^\s,]+)", done.stdout, re.MULTILINE)
                running = re.findall(r"^\[ RUN      \] (\S+)", done.stdout, re.MULTILINE)  # where it crashed
                return str(failed[1] if failed else [program, *running][-1])
        if mirror.folders:
            command = [self.python, "-m", "pytest", "-q", "-x", "-n", "auto", "-p", "no:cacheprovider"]
            done = self.run([*command, "-o", f"pythonpath={self.build / 'ext'}", *mirror.folders], mutant=mutant)
            if done.returncode:
                failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
                return failed[1] if failed else "pytest"
        return ""


def mirror_of(file: str) -> Mirror | None:
    parts = [Path(part).stem for part in Path(file).parts]
    return next((MIRRORS[part] for part in parts if part in MIRRORS), None)


def equivalents() -> dict[str, str]:
    """Key → why its loss is none: lines "file: statement  # reason"."""
    if not EQUIVALENT.exists():
        return {}
    rows = (line.rsplit("  # ", 1) for line in EQUIVALENT.read_text().splitlines() if line and not line.startswith("#"))
    return {row[0].strip(): row[1] for row in rows if len(row) == 2}


def choose(only: str, sample: int, seed: int) -> list[Guard]:
    known = equivalents()
    headers = sorted((ROOT / "include").rglob("*.h"))
    guards = [guard for path in headers for guard in guards_of(path, ROOT) if guard.key not in known and mirror_of(guard.file)]
    guards = [guard for guard in guards if re.search(only, f"{guard.file}:{guard.line + 1}: {guard.text}")]
    if sample and sample < len(guards):
        guards = sorted(random.Random(seed).sample(guards, sample), key=lambda guard: (guard.file, guard.line))
    return guards


def judge(workshop: Workshop, guard: Guard) -> str:
    """ "killed by TEST" (a static_assert of the tests is one), "does not compile" or "survived"."""
    path = workshop.source / guard.file
    original = path.read_text()
    mirror = mirror_of(guard.file)
    assert mirror is not None, guard.file
    path.write_text(without(guard, original))
    try:
        built = workshop.build_tests(mirror)
        if built.returncode:
            seen = re.search(
                r"^\S*?((?:tests|include)/\S+?:\d+):\d+: error: static assertion failed", built.stdout, re.MULTILINE
            )
            return f"killed by {seen[1]}" if seen else "does not compile"
        failed = workshop.first_failure(mirror)
        return f"killed by {failed}" if failed else "survived"
    finally:
        path.write_text(original)


def switchable(workshop: Workshop, guards: list[Guard]) -> set[int]:
    """Puts a switch before each guard that can have one, in the copy; their numbers."""
    common = workshop.source / COMMON
    common.write_text(common.read_text() + SWITCH)
    able = {n for n, guard in enumerate(guards) if not DECLARES.match(guard.text.split("if (", 1)[1])}
    for n in able:
        path = workshop.source / guards[n].file
        path.write_text(without(guards[n], path.read_text(), f"!isthmus_mutant_is({n})"))
    return able


def judge_switched(workshop: Workshop, guard: Guard, number: int) -> str:
    """As judge() for a guard that has a switch."""
    mirror = mirror_of(guard.file)
    assert mirror is not None, guard.file
    failed = workshop.first_failure(mirror, number)
    return f"killed by {failed}" if failed else "survived"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/mutants"))
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--list", action="store_true", help="print the guards and end")
    parser.add_argument("--only", default="", metavar="REGEX", help="guards whose file:line: text matches")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many of them, by chance")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", action="store_true", help="one build in which every guard has a switch")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for the tests of one guard")
    parser.add_argument("--report", type=Path, help="where the verdicts go, as JSON")
    options = parser.parse_args()

    guards = choose(options.only, options.sample, options.seed)
    if options.list:
        for guard in guards:
            print(f"{guard.file}:{guard.line + 1}: {guard.text}")
        print(f"{len(guards)} guards")
        return 0

    workshop = Workshop((ROOT / options.build).absolute(), (ROOT / options.python).absolute(), options.timeout)
    switched = switchable(workshop, guards) if options.together else set()
    for mirror in filter(None, {mirror_of(guard.file) for guard in guards}):
        if workshop.build_tests(mirror).returncode:
            sys.exit(f"building {', '.join(mirror.targets)} of the unchanged copy failed")
        if failed := workshop.first_failure(mirror):
            sys.exit(f"{failed} fails without any change: nothing can be learnt")
    verdicts = []
    for number, guard in enumerate(guards, 1):
        start = time.monotonic()
        if options.together:
            verdict = judge_switched(workshop, guard, number - 1) if number - 1 in switched else "does not compile"
        else:
            verdict = judge(workshop, guard)
        verdicts.append({**asdict(guard), "verdict": verdict})
        print(
            f"[{number}/{len(guards)}] {guard.file}:{guard.line + 1}: {verdict} in {time.monotonic() - start:.0f} s", flush=True
        )
        if options.report:
            options.report.write_text(json.dumps(verdicts, indent=1))
    survivors = [row for row in verdicts if row["verdict"] == "survived"]
    for row in survivors:
        print(f"survived: {row['file']}:{row['line'] + 1}: {row['text']}")
    counted = [row for row in verdicts if row["verdict"] != "does not compile"]
    print(f"{len(counted) - len(survivors)} of {len(counted)} guards are seen by a test")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
