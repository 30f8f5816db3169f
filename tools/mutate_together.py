"""tools/mutate.py --together: all guards switchable in one build, each taken away in the tests in which it fired.

A guard leaves under a condition. Its loss changes nothing in a test during which the condition was never true, so one
run of all tests records which guards fire in which test (tools/mutate_pytest.py),
and each guard is then tried in those alone.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from guards import ROOT, Guard, without
from workshop import Mirror, Workshop, mirror_of

#: What the header that every other includes gets: which guards ISTHMUS_MUTATE_REMOVED takes away ("3,17"), and a byte
#: for each that fired, in the file ISTHMUS_MUTATE_FIRED, which all modules of all processes share.
COMMON = "include/isthmus/core/config.h"
SWITCH = """
#include <cstdlib>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
struct IsthmusMutants {
    bool removed[@COUNT@] = {};
    unsigned char* fired = nullptr;
    IsthmusMutants() noexcept {
        const char* list = std::getenv("ISTHMUS_MUTATE_REMOVED");
        for (char* end = nullptr; list != nullptr && *list != 0; list = *end == ',' ? end + 1 : end)
            if (const long number = std::strtol(list, &end, 10); end != list && number >= 0 && number < @COUNT@)
                removed[number] = true;
            else
                std::abort();
        const char* path = std::getenv("ISTHMUS_MUTATE_FIRED");
        const int file = path != nullptr ? open(path, O_RDWR | O_CLOEXEC) : -1;
        if (file < 0) return;
        if (void* map = mmap(nullptr, @COUNT@, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0); map != MAP_FAILED)
            fired = static_cast<unsigned char*>(map);
        close(file);
    }
};
__attribute__((visibility("hidden"), noinline, cold)) inline bool isthmus_mutant_stays_now(int number) {
    static const IsthmusMutants mutants;
    if (mutants.fired != nullptr) mutants.fired[number] = 1;
    return !mutants.removed[number];
}
constexpr bool isthmus_mutant_stays(int number) {
    return __builtin_is_constant_evaluated() || isthmus_mutant_stays_now(number);
}
"""

#: All that uses the bridge, with the package itself.
BRIDGE = Mirror(
    (
        "isthmus_test_ext", "isthmus_module", "isthmus_object", "isthmus_c",
        "isthmus_nanobind_test_ext", "isthmus_pybind11_test_ext",
        "isthmus_torch_nanobind_test_ext", "isthmus_torch_pybind11_test_ext",
        "isthmus_operators_test_ext", "isthmus_operators_nanobind_test_ext", "isthmus_operators_pybind11_test_ext",
        "isthmus_torch_stable_ext", "isthmus_torch_test_ext",
    ),
    (),
    ("tests/python", "tests/casters", "tests/operators", "tests/torch", "tests/package", "tests/life",
     "tests/frameworks/test_matrix.py", "tests/allocations"),
)  # fmt: skip
#: How many tests of a guard its first process gets. The next gets those that took so many seconds together.
FIRST = 6
SECONDS = 30


class Fired(NamedTuple):
    seconds: float
    guards: frozenset[int]


@dataclass
class Record:
    """Which guards fired in which test, and which outside of all tests: as modules were imported, or at the end."""

    tests: dict[str, Fired] = field(default_factory=dict)
    outside: set[int] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)

    def tests_of(self, number: int) -> list[str]:
        """Those in which the guard fired, all when it fired outside; the quickest of each test function come first. The
        others of their files come last: they may see what was asked once, in one of those, and kept."""
        fired = [test for test, seen in self.tests.items() if number in self.outside or number in seen.guards]
        files = {test.split("::")[0] for test in fired}
        return self.by_function(fired) + self.by_function(
            [test for test in self.tests.keys() - set(fired) if test.split("::")[0] in files]
        )

    def by_function(self, tests: list[str]) -> list[str]:
        count: dict[str, int] = defaultdict(int)
        ranked = []
        for seconds, test in sorted((self.tests[test].seconds, test) for test in tests):
            function = test.split("[")[0]
            ranked.append((count[function], seconds, test))
            count[function] += 1
        return [test for *_, test in sorted(ranked)]

    def batches(self, number: int) -> Iterator[list[str]]:
        tests = self.tests_of(number)
        if tests[:FIRST]:
            yield tests[:FIRST]
        rest, left = [], float(SECONDS)
        for test in tests[FIRST:]:
            left -= self.tests[test].seconds
            if left > 0:
                rest.append(test)
        if rest:
            yield rest


def switchable(guards: list[Guard]) -> dict[str, str]:
    """The text of the files with a switch in each guard, by its place in the list."""
    changed = {COMMON: (ROOT / COMMON).read_text()}
    for number, guard in enumerate(guards):
        text = changed.get(guard.file) or (ROOT / guard.file).read_text()
        changed[guard.file] = without(guard, text, f"isthmus_mutant_stays({number})")
    changed[COMMON] += SWITCH.replace("@COUNT@", str(max(len(guards), 1)))
    return changed


def pytest_of(workshop: Workshop) -> list[object]:
    command = [
        workshop.python,
        "-m",
        "pytest",
        "-p",
        "mutate_pytest",
        "-p",
        "no:cacheprovider",
        "-o",
        "faulthandler_timeout=0",
    ]
    return [*command, "-o", f"pythonpath={workshop.build / 'ext'}"]


def record(workshop: Workshop, count: int, jobs: int) -> Record:
    """One run of all tests, in which nothing is taken away."""
    folder = workshop.build / "fired"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    command = [*pytest_of(workshop), "-q", "-n", jobs, "--dist", "loadfile", *BRIDGE.folders]
    done = workshop.run(command, timeout=3600, ISTHMUS_MUTATE_RECORD=str(folder), ISTHMUS_MUTATE_COUNT=str(count))
    if done.returncode not in (0, 1):
        workshop.check(done, "the tests of")
    return read_record(folder)


def read_record(folder: Path) -> Record:
    found = Record()
    for file in folder.glob("*.jsonl"):
        for test, outcome, seconds, fired in map(json.loads, file.read_text().splitlines()):
            if outcome == "passed":
                found.tests[test] = Fired(seconds, frozenset(fired))
            elif outcome == "failed":
                found.failed.append(test)
            elif not test:
                found.outside.update(fired)
    for file in folder.glob("*.fired"):
        found.outside.update(number for number, byte in enumerate(file.read_bytes()) if byte)
    return found


def failure_in(workshop: Workshop, found: Record, tests: list[str], removed: list[int]) -> str:
    """The first of the tests that fails without these guards, or "" when none does."""
    files = sorted({test.split("::")[0] for test in tests})
    chosen = workshop.build / f"tests-{'-'.join(map(str, removed[:4]))}-{len(removed)}.txt"
    chosen.write_text("\n".join(tests))
    seconds = sum(found.tests[test].seconds for test in tests)
    done = workshop.run(
        [*pytest_of(workshop), "-v", "-x", "-p", "no:xdist", *files], timeout=60 + 5 * seconds,
        ISTHMUS_MUTATE_TESTS=str(chosen), ISTHMUS_MUTATE_REMOVED=",".join(map(str, removed)),
    )  # fmt: skip
    chosen.unlink()
    if done.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    begun = re.findall(r"^(tests/\S+::\S+)", done.stdout, re.MULTILINE)  # the last one is where it crashed
    if not failed and not begun and removed and failure_in(workshop, found, tests, []):
        sys.exit(f"pytest could not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    ending = "hang in " if done.returncode == 124 else "crash in " if done.returncode < 0 else ""
    return ending + (failed[1] if failed else begun[-1] if begun else "the import of its modules")


def judge(workshop: Workshop, found: Record, guard: Guard, number: int) -> str:
    """ "killed by TEST", "survived", or "not reached"."""
    mirror = mirror_of(guard.file)
    assert mirror is not None, guard.file
    if mirror.programs:
        failed = workshop.first_failure(mirror, ISTHMUS_MUTATE_REMOVED=str(number))
        return f"killed by {failed}" if failed else "survived"
    verdict = "not reached"
    for tests in found.batches(number):
        if failed := failure_in(workshop, found, tests, [number]):
            return f"killed by {failed}"
        verdict = "survived"
    return verdict


def culprits(workshop: Workshop, found: Record, test: str, removed: list[int]) -> list[int]:
    """Which of the guards, taken away, makes the test fail, which fails when all are.
    Several when it needs them together."""
    while len(removed) > 1:
        half = len(removed) // 2
        for part in (removed[:half], removed[half:]):
            if failure_in(workshop, found, [test], part):
                removed = part
                break
        else:
            break
    return removed


def confirm(workshop: Workshop, found: Record, survivors: list[int], jobs: int) -> dict[int, str]:
    """All tests once more, with all survivors taken away at once: the verdicts of those that are seen only so, where an
    earlier test of the same process had met the guard (what is asked once,
    and kept) or the tests of a guard were too many."""
    seen: dict[int, str] = {}
    left = list(survivors)
    while left:
        command = [*pytest_of(workshop), "-q", "-n", jobs, "--dist", "loadfile", "--maxfail", 12, *BRIDGE.folders]
        done = workshop.run(command, timeout=3600, ISTHMUS_MUTATE_REMOVED=",".join(map(str, left)))
        failed = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        before = len(left)
        for test in filter(found.tests.get, failed):
            while left and failure_in(workshop, found, [test], left):
                guilty = culprits(workshop, found, test, left)
                if len(guilty) == 1:
                    seen[guilty[0]] = f"killed by {test}"
                left = [number for number in left if number not in guilty]
        if len(left) == before:  # where any failed, it wants the tests before it too
            print("\n".join(f"fails without all survivors, but not alone: {test}" for test in failed))
            break
    return seen


def together(workshop: Workshop, guards: list[Guard], jobs: int) -> Iterator[tuple[int, str, float]]:
    """(the guard's number, its verdict, seconds), as they are found; a number may come again with a better verdict."""
    mirrors = {mirror for guard in guards if (mirror := mirror_of(guard.file))}
    found = Record()
    for mirror in {mirror if mirror.programs else BRIDGE for mirror in mirrors}:
        workshop.check(workshop.build_tests(mirror), "building")
        if mirror is not BRIDGE and (failed := workshop.first_failure(mirror)):
            sys.exit(f"{failed} fails without any change: nothing can be learnt")
    if any(not mirror.programs for mirror in mirrors):
        workshop.check(workshop.install(), "installing")
        start = time.monotonic()
        found = record(workshop, len(guards), jobs)
        print(f"{len(found.tests)} tests recorded in {time.monotonic() - start:.0f} s", flush=True)
        for test in found.failed:
            print(f"left out, since it fails without any change: {test}", flush=True)
        if failed := failure_in(workshop, found, sorted(found.tests)[:FIRST], []):
            sys.exit(f"{failed} fails without any change: nothing can be learnt")
    survivors: list[int] = []
    reached = found.outside.union(*(fired.guards for fired in found.tests.values()))

    def one(number: int) -> tuple[int, str, float]:
        start = time.monotonic()
        return number, judge(workshop, found, guards[number], number), time.monotonic() - start

    with ThreadPoolExecutor(jobs) as pool:
        for done in as_completed([pool.submit(one, number) for number in range(len(guards))]):
            number, verdict, seconds = done.result()
            if verdict == "survived" and number in reached:
                survivors.append(number)
            yield number, verdict, seconds
    for number, verdict in confirm(workshop, found, survivors, jobs).items():
        yield number, verdict, 0.0
