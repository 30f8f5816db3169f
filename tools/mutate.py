#!/usr/bin/env python3
"""The suite's own test: the library's guards are removed one at a time, and each must turn a test red.

Usage:
    tools/mutate.py --build DIR --python PYTHON [--list] [--only REGEX] [--sample N [--seed S]] [--report FILE]
                    [--together [--jobs N]]

A guard is a statement that leaves a function (return, throw, continue) under a condition on one line. It is found by
its shape, so that it need not be listed by file. A copy of the repository is built once in the build folder; for each
guard its condition is made false there, what depends on that file is built again, and the tests run that mirror its
folder, until the first that fails. With --together all guards are made switchable by an environment variable in one
build; one run of all tests records which guards fire in which, and each guard is then tried in those tests alone:
hundreds of times quicker, but blind to what only a static_assert sees. A guard whose loss no test sees is printed at
the end; tools/mutants.txt names those that are no loss, a line each with the reason.
The exit status is 1 when another one survives.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from guards import ROOT, Guard, choose, sample_of, stale, without
from mutate_together import switchable, together
from workshop import Workshop, mirror_of


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
                r"^\S*?((?:tests|include|src)/\S+?:\d+):\d+: error: static assertion failed", built.stdout, re.MULTILINE
            )
            return f"killed by {seen[1]}" if seen else "does not compile"
        failed = workshop.first_failure(mirror)
        return f"killed by {failed}" if failed else "survived"
    finally:
        path.write_text(original)


def one_by_one(workshop: Workshop, guards: list[Guard]) -> Iterator[tuple[int, str, float]]:
    """(the guard's place, its verdict, seconds)."""
    for mirror in filter(None, {mirror_of(guard.file) for guard in guards}):
        workshop.check(workshop.build_tests(mirror), f"building {', '.join(mirror.targets)} of")
        if failed := workshop.first_failure(mirror):
            sys.exit(f"{failed} fails without any change: nothing can be learnt")
    for number, guard in enumerate(guards):
        start = time.monotonic()
        yield number, judge(workshop, guard), time.monotonic() - start


def summary(verdicts: list[dict[str, object]]) -> int:
    """Prints what no test sees; the exit status."""
    found = [(str(row["verdict"]), f"{row['file']}:{int(str(row['line'])) + 1}: {row['text']}") for row in verdicts]
    unseen = [row for row in found if row[0] in ("survived", "not reached")]
    for verdict, guard in unseen:
        print(f"{verdict}: {guard}")
    counted = len(found) - sum(verdict == "does not compile" for verdict, _ in found)
    print(f"{counted - len(unseen)} of {counted} guards are seen by a test")
    return 1 if unseen else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build/mutants"))
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--list", action="store_true", help="print the guards and end")
    parser.add_argument("--only", default="", metavar="REGEX", help="guards whose file:line: text matches")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="so many of them, by chance")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", action="store_true", help="one build in which every guard has a switch")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="with --together: so many guards at a time")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for the tests of one guard")
    parser.add_argument("--report", type=Path, help="where the verdicts go, as JSON")
    options = parser.parse_args()

    guards = [guard for guard in choose(options.only) if mirror_of(guard.file)]
    guards = sample_of(guards, options.sample, options.seed)
    if options.list:
        for guard in guards:
            print(f"{guard.place}: {guard.text}")
        for key in stale():
            print(f"tools/mutants.txt names no guard: {key}")
        print(f"{len(guards)} guards")
        return 0

    changed = switchable(guards) if options.together else {}
    workshop = Workshop((ROOT / options.build).absolute(), (ROOT / options.python).absolute(), options.timeout, changed)
    tried = together(workshop, guards, options.jobs) if options.together else one_by_one(workshop, guards)
    verdicts: dict[int, dict[str, object]] = {}
    for number, verdict, seconds in tried:
        verdicts[number] = {**asdict(guards[number]), "verdict": verdict}
        print(f"[{len(verdicts)}/{len(guards)}] {guards[number].place}: {verdict} in {seconds:.0f} s", flush=True)
        if options.report:
            options.report.write_text(json.dumps(list(verdicts.values()), indent=1))
    return summary(list(verdicts.values()))


if __name__ == "__main__":
    sys.exit(main())
