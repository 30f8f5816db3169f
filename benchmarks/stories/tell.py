# SPDX-License-Identifier: Apache-2.0
"""The process of a story: `python -m stories.tell LIBRARY TITLE`, or with --hostile every hostile object,
each in a fork; with --answer its answer to one question."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys

from stories import answers, hostile, life
from stories.libraries import Library, load
from stories.verdict import BrokenStory, Verdict, of_process, report

SECONDS = 20


def forked(library: Library, case: hostile.Case) -> tuple[int, str, bool]:
    """Exit status, what was written, and whether it ran out of time."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            os.write(writer, report(case(library)).encode())
        except BaseException as error:  # told as it is: the story is broken
            os.write(writer, repr(error).encode())
            os._exit(1)
        os._exit(0)
    os.close(writer)
    timed_out = not select.select([reader], [], [], SECONDS)[0]
    if timed_out:
        os.kill(child, signal.SIGKILL)
    said = os.read(reader, 1 << 16).decode()
    os.close(reader)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said, timed_out


def tell_hostile(library: Library) -> None:
    """A line of group, name and verdict for each case, between tabs."""
    for group, name, case in hostile.cases(library):
        try:
            verdict = of_process(*forked(library, case))
        except BrokenStory as broken:
            raise BrokenStory(f"{library.name}: {group}: {name}: {broken}") from None
        print(f"{group}\t{name}\t{report(verdict)}", flush=True)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # crashes are expected, their dumps are not wanted
    told = load(sys.argv[1])
    if sys.argv[2] == "--hostile":
        tell_hostile(told)
    elif sys.argv[2] == "--answer":
        print(report(Verdict("right", answers.answer(told, sys.argv[3]))), flush=True)
    else:
        print(report(life.STORIES[sys.argv[2]](told)), flush=True)
