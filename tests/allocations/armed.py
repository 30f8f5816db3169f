"""The sweep's own process: calls of one world, each forked for every allocation that is to fail in it."""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import calls

#: Of calls whose loss is measured, and how many each has.
ROUNDS, PER_ROUND, MANY = 3, 8, 200
#: How often such a loss is measured anew, each time after more calls.
CACHES_FILLED = 8
#: Seconds of the processor that a call may take, and seconds that all those of one process may.
CALL_LIMIT, LIMIT = 1.5, 60

library = ctypes.PyDLL(None)
library.failing_call.restype = ctypes.py_object
library.failing_call.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_long, ctypes.c_int]
library.failing_seen.restype = ctypes.c_long
library.failing_live.restype = ctypes.c_long
library.failing_place.argtypes = [ctypes.c_char_p, ctypes.c_long]
library.failing_tell_of_death.argtypes = [ctypes.c_int]
CALL = ctypes.cast(library.PyObject_CallNoArgs, ctypes.c_void_p).value


#: The file and the function in which the last call has raised.
raised = [""]


def raising(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}!{trace.tb_frame.f_code.co_name}" if trace else ""


def armed(call: Callable, n: int, lasting: bool) -> str:
    """How a call ends whose n-th allocation fails. Free lists are emptied first, or the n-th were another each time."""
    gc.collect()
    signal.setitimer(signal.ITIMER_PROF, CALL_LIMIT)
    try:
        return told(library.failing_call(CALL, call, n, lasting))
    except BaseException as error:
        raised[0] = raising(error)
        if isinstance(error, MemoryError):
            return "MemoryError"
        return f"raises {class_of(error)}: {without_addresses(str(error))}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def class_of(error: BaseException) -> str:
    """Of an error of isthmus with its bases: they are made with the first one."""
    cls = type(error)
    return cls.__name__ if cls.__module__ != "isthmus" else "/".join(base.__name__ for base in cls.__mro__[:-2])


def without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)


def told(value: object) -> str:
    """Of a result what is the same each time."""
    if isinstance(value, str):
        return without_addresses(repr(value))
    if isinstance(value, (int, float, bool, type(None), bytes)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(told, value))})"
    return type(value).__name__


def place() -> str:
    buffer = ctypes.create_string_buffer(16000)
    library.failing_place(buffer, len(buffer))
    return buffer.value.decode(errors="replace")


#: (file, place) -> the function there.
functions: dict[tuple[str, str], str] = {}


@functools.cache
def files_on_path() -> dict[str, str]:
    """By their names: those of modules that only a forked process has imported are among them."""
    return {
        file: os.path.join(folder, file) for folder in filter(os.path.isdir, sys.path) for file in os.listdir(folder)
    }


def named(trace: str) -> str:
    """The trace with the names of hidden functions, which the files' own symbols have."""
    files = files_on_path() | {os.path.basename(file): file for file in mapped_files()}
    places: dict[str, list[str]] = {}
    hidden = re.findall(r"^(\S+)!\?\+(0x[0-9a-f]+)$", trace, re.MULTILINE)
    for file, place in hidden:
        if (file, place) not in functions:
            places.setdefault(file, []).append(place)
    for file, at in places.items():
        command = ["addr2line", "-a", "-i", "-f", "-C", "-e", files.get(file, file), *at]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        blocks = re.split(r"^0x[0-9a-f]+\n", done.stdout, flags=re.MULTILINE)[1:]
        for place, block in zip(at, blocks, strict=False):
            functions[file, place] = block.splitlines()[-2]  # the function itself, into which the others were inlined
    for file, place in hidden:
        trace = trace.replace(f"{file}!?+{place}", f"{file}!{functions.get((file, place), '?')}+{place}")
    return trace


def mapped_files() -> list[str]:
    with open("/proc/self/maps") as maps:
        return [line.split(maxsplit=5)[5].strip() for line in maps if "/" in line]


def forked(work: Callable[[Callable[[str], None]], None]) -> tuple[int, str]:
    """The wait status of a process that does the work, and what it wrote."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        signal.alarm(LIMIT)
        os.dup2(write, 2)
        library.failing_tell_of_death(2)
        with contextlib.suppress(BaseException):
            work(lambda text: os.write(write, text.encode(errors="replace")) and None)
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        text = pipe.read().decode(errors="replace")
    return os.waitpid(child, 0)[1], text


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def lost(call: Callable, n: int, lasting: bool, calls_in_round: int = PER_ROUND) -> tuple[int, int]:
    """Blocks of memory, and open files, that each of the last rounds has lost."""
    blocks, files = (ctypes.c_long * ROUNDS)(), (ctypes.c_long * ROUNDS)()
    for i in range(ROUNDS):
        for _ in range(calls_in_round):
            armed(call, n, lasting)
        gc.collect()
        blocks[i], files[i] = library.failing_live(), open_files()
    return tuple(min(of[i + 1] - of[i] for i in range(ROUNDS - 1)) for of in (blocks, files))  # type: ignore[return-value]


def levels_left() -> int:
    """How deep calls may go from here."""

    def deeper(level: int) -> int:
        try:
            return deeper(level + 1)
        except RecursionError:
            return level

    return deeper(0)


def said_of_loss(call: Callable, n: int, lasting: bool) -> str:
    levels = levels_left()
    blocks, files = lost(call, n, lasting)
    levels -= levels_left()
    if levels > 0:
        return f"loses {levels} levels of recursion in {ROUNDS * PER_ROUND} calls"
    if files > 0:
        return f"loses {files} files in {PER_ROUND} calls"
    if blocks >= PER_ROUND // 2:  # or free lists and caches were filled, which ends
        for _ in range(CACHES_FILLED):
            blocks, _ = lost(call, n, lasting, MANY)
            if blocks < MANY // 2:
                break
    return f"loses {blocks} blocks in {MANY} calls" if blocks >= MANY // 2 else ""


def sweep_one(make: Callable, warm: bool, n: int, lasting: bool, right: str) -> str:
    """What is wrong with the call when this allocation fails; "" if nothing is."""

    def work(tell: Callable[[str], None]) -> None:
        call = make()
        if warm:
            for _ in range(3):
                armed(call, -1, False)
        said = armed(call, n, lasting)
        where = place()
        if said not in (right, "MemoryError"):
            tell(f"{said}\0{where}")
            return
        tell(f"\1{where}\1")
        again = armed(call, -1, False)
        if again != right:
            tell(f"the next call: {again}\0{where}")
            return
        if warm:
            loss = said_of_loss(call, n, lasting)
            if loss:
                tell(f"{loss}\0{where}at last in:\n{place()}{raised[0]}\n")
                return
        tell("\2")

    status, text = forked(work)
    if status == 0 and text.endswith("\2"):
        return ""
    step = ""
    if text.startswith("\1"):
        _, where, text = text.split("\1", 2)
        step, text = "the next call: ", f"{text}before it one failed in:\n{where}"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        said = (
            "takes too long" if number in (signal.SIGALRM, signal.SIGPROF) else f"dies of {signal.Signals(number).name}"
        )
        return f"{step}{said}\0{text}"
    if os.WEXITSTATUS(status) != 0:
        return f"{step}exits with {os.WEXITSTATUS(status)}\0{text}"
    return text or f"{step}ends the process\0"


def allocations(make: Callable, warm: bool) -> tuple[int, str]:
    """How many allocations a call makes that has all the memory it needs, and how it ends."""

    def work(tell: Callable[[str], None]) -> None:
        call = make()
        if warm:
            for _ in range(3):
                armed(call, -1, False)
        said = armed(call, -1, False)
        tell(f"\3{library.failing_seen()}\0{said}")

    status, text = forked(work)
    assert status == 0, text
    assert "\0" in text, text
    count, said = text.partition("\3")[2].split("\0", 1)
    return int(count), said


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("world")
    parser.add_argument("only", nargs="*")
    parser.add_argument("--at-most", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    table: dict[str, Callable[[], Any]] = calls.load(options.world)
    if not table:
        print(f"{options.world}: not here")
        return 0
    gc.collect()
    gc.freeze()
    failed = 0
    for name, make in table.items():
        if options.only and not any(word in f"{options.world}.{name}" for word in options.only):
            continue
        known = functools.partial(calls.known, options.world, name)
        for warm in (False,) if options.world in calls.ONCE else (False, True):
            count, right = allocations(make, warm)
            step = max(1, -(-count // options.at_most)) if options.at_most else 1
            tried, wrong, traces = 0, {}, {}
            for n in range(0, count + 1, step):
                for lasting in (False, True):
                    outcome = sweep_one(make, warm, n, lasting, right)
                    tried += 1
                    if outcome:
                        said, _, trace = outcome.partition("\0")
                        trace = named(trace)
                        if known(said, trace):
                            continue
                        wrong.setdefault(said, []).append(f"{n}{'…' * lasting}")
                        traces.setdefault(said, trace)
            kind = "warm" if warm else "first"
            bad = sum(map(len, wrong.values()))
            print(f"{options.world}.{name} ({kind}): {count} allocations, {tried} tried, {bad} wrong", flush=True)
            for said, at in wrong.items():
                failed = 1
                print(f"    {said[:300]}: {', '.join(at[:12])}{', …' * (len(at) > 12)}", flush=True)
                if options.verbose:
                    print("        " + traces[said].strip().replace("\n", "\n        "), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
