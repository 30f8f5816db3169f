"""Many extensions in one process: of one build, of several builds and versions, loaded in any way."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest
from compiling import CLANG

import isthmus

MANY = 40


@pytest.fixture(scope="module", params=["default", "hidden"])
def many(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, compile_extension, in_packages
) -> Path:
    """Forty shared objects, the module `life` in as many packages: e00.life … e39.life; built with everything visible
    that a header does not hide, and with -fvisibility=hidden."""
    life = compile_extension("life.cpp", *(["-fvisibility=hidden"] if request.param == "hidden" else []))
    folder = tmp_path_factory.mktemp("many")
    in_packages(folder, life / "life.so", *(f"e{i:02}" for i in range(MANY)))
    return folder


IMPORT = """
import ctypes, importlib, os, sys, threading, time
from elsewhere import elsewhere
memory = ctypes.create_string_buffer(8)
class Owner:
    alive = 0
    __array_interface__ = {"shape": (8,), "typestr": "|u1", "data": (ctypes.addressof(memory), False), "version": 3}
    def __init__(self): Owner.alive += 1
    def __del__(self): Owner.alive -= 1
"""

USE_ALL = f"""{IMPORT}
extensions = [importlib.import_module(f"e{{i:02}}.life") for i in range({MANY})]
assert len({{e.__file__ for e in extensions}}) == {MANY}
for e in extensions:
    assert e.own(b"bytes")
"""


def test_they_exchange_everything(child, many) -> None:
    """Objects of each in the next, the list of one over all, dropped everywhere."""
    out = child(
        f"""{USE_ALL}
import isthmus
isthmus.live.enable()
held = []
for i, e in enumerate(extensions):
    other = extensions[(i * 7 + 3) % {MANY}]
    first = e.keep(Owner())
    t = e.export(first, "tensor")
    number = other.keep(t)
    assert other.export(number, "tensor") is t
    held.append((e, first, other, number))
    del t
assert len(isthmus.live()) == {MANY}
for n, (e, first, other, number) in enumerate(held):
    other.drop(number)
    (e.drop, e.drop_without_gil, e.drop_on_thread)[n % 3](first)
while Owner.alive: time.sleep(0.001)
deadline = time.monotonic() + 20
while isthmus.live() and time.monotonic() < deadline: time.sleep(0.001)
assert isthmus.live() == []
print("well")""",
        many,
    )
    assert out == "well\n"


def test_the_list_after_hooks_of_the_end(child, many) -> None:
    """A hook that runs after all of ours uses each extension once more, and asks for the list."""
    out = child(
        f"""
import atexit
@atexit.register
def late():
    for e in extensions:
        e.own(b"bytes")
    for e in extensions:
        e.live(True)
        number = e.empty()
        assert e.live(None) == [(1, "float32", "C++")]
        e.drop(number)
        assert e.live(None) == []
        e.live(False)
    print("well", flush=True)
{USE_ALL}""",
        many,
    )
    assert out == "well\n"


def test_threads_that_drop_after_the_end(child, many) -> None:
    """The door stays shut whichever extension is used again by a late hook."""
    code = f"""
import atexit
@atexit.register
def late():
    for e in extensions:
        e.own(b"bytes")
{USE_ALL}
class Late:
    def __del__(self, extensions=extensions, time=time):
        for e in extensions:
            e.own(b"bytes")
        time.sleep(0.2)
sys.modules["late"] = Late()
for e in extensions:
    for delay in range(0, 400_000, 10_000):
        e.drop_later(e.keep(Owner()), delay)
print("main is done", flush=True)"""
    for _ in range(3):
        assert child(code, many) == "main is done\n"


def test_the_interpreter_has_room_for_others(child, many) -> None:
    """Py_AtExit has 32 slots in all, and forty extensions of ours take none; atexit, of which each takes one,
    has no end."""
    out = child(
        f"""
import atexit, ctypes
before = atexit._ncallbacks()
{USE_ALL}
hooks = atexit._ncallbacks() - before
function = ctypes.CFUNCTYPE(None)(lambda: None)  # kept
free = 0
libc = ctypes.CDLL(None)
while free < 32 and ctypes.pythonapi.Py_AtExit(libc.sched_yield) == 0:
    free += 1
print(hooks, free)""",
        many,
    )
    hooks, free = map(int, out.split())
    assert hooks <= MANY
    assert free >= 31


def test_errors_of_one_are_errors_of_all(child, many) -> None:
    out = child(
        f"""{USE_ALL}
kinds = set()
for e in extensions:
    try:
        e.own(3)
    except TypeError as error:
        kinds.add(type(error))
assert len(kinds) == 1, kinds
print("well")""",
        many,
    )
    assert out == "well\n"


GLOBAL = "import os, sys; sys.setdlopenflags(os.RTLD_GLOBAL | os.RTLD_NOW)\n"


@pytest.mark.parametrize("scope", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_the_live_list_of_two(child, many, scope: str) -> None:
    out = child(
        f"""{GLOBAL if scope == "RTLD_GLOBAL" else ""}{IMPORT}
import isthmus
from e00 import life as one
from e01 import life as other
isthmus.live.enable()
held = [(e, e.keep(Owner())) for e in (one, other)] + [(e, e.empty()) for e in (one, other)]
shown = sorted(t.producer for t in isthmus.live())
assert shown == ["C++", "C++", "__main__.Owner", "__main__.Owner"], shown
for e, number in held:
    e.drop(number)
assert isthmus.live() == [] and Owner.alive == 0
isthmus.live.disable()
print("well")""",
        many,
    )
    assert out == "well\n"


@pytest.mark.parametrize("build", [(), ("-O0",)], ids=["-O2", "-O0"])
@pytest.mark.parametrize("scope", ["RTLD_LOCAL", "RTLD_GLOBAL"])
@pytest.mark.parametrize("first", ["one", "other"])
def test_the_live_list_of_two_without_the_package(
    child, compile_extension, in_packages, tmp_path, first: str, scope: str, build: tuple[str, ...]
) -> None:
    """One switches the list on, and both see the tensors of both."""
    in_packages(tmp_path, compile_extension("life.cpp", *build) / "life.so", "one", "other")
    out = child(
        f"""{GLOBAL if scope == "RTLD_GLOBAL" else ""}{IMPORT}
from one import life as one
from other import life as other
for e in (one, other):
    e.own(b"bytes")
first = {first}
first.live(True)
held = [(e, e.keep(Owner())) for e in (one, other)] + [(e, e.empty()) for e in (one, other)]
for e in (one, other):
    rows = sorted(row[1:] for row in e.live(None))
    assert rows == [("float32", "C++")] * 2 + [("uint8", "__main__.Owner")] * 2, rows
for e, number in held:
    e.drop(number)
assert one.live(None) == other.live(None) == []
first.live(False)
number = one.empty()
assert one.live(None) == other.live(None) == []
print("well")""",
        tmp_path,
    )
    assert out == "well\n"


@pytest.mark.parametrize("scope", ["RTLD_LOCAL", "RTLD_GLOBAL"])
@pytest.mark.parametrize("order", ["first, second", "second, first"])
@pytest.mark.parametrize("inside", ["first", "second"])
def test_a_fork_while_a_thread_of_one_is_inside(child, many, scope: str, inside: str, order: str) -> None:
    """The child has none of its parent's threads, and does not wait for them."""
    out = child(
        f"""{GLOBAL if scope == "RTLD_GLOBAL" else ""}{IMPORT}
from e00 import life as first
from e01 import life as second
entered = threading.Event()
go = threading.Event()
class Slow(Owner):
    def __del__(self):
        entered.set()
        go.wait(20)
for e in ({order}):
    e.own(b"bytes")
{inside}.drop_on_thread(elsewhere(lambda: {inside}.keep(Slow())))
assert entered.wait(20)
pid = os.fork()
if pid == 0:
    import signal
    signal.alarm(10)
    first.own(b"bytes")
    second.drop_without_gil(second.keep(Owner()))
    sys.exit(0)
status = os.waitpid(pid, 0)[1]
go.set()
assert status == 0, status
print("well")""",
        many,
    )
    assert out == "well\n"


@pytest.mark.parametrize("scope", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_the_exit_of_two(child, many, scope: str) -> None:
    """Threads of both drop while the interpreter ends; each is waited for, or left behind, by its own state."""
    code = f"""{GLOBAL if scope == "RTLD_GLOBAL" else ""}{IMPORT}
from e00 import life as one
from e01 import life as other
sys.setswitchinterval(1e-5)
def work(e):
    while True:
        e.drop_without_gil(e.keep(Owner()))
        e.drop_on_thread(e.keep(Owner()))
        e.drop(e.keep(Owner()))
for e in (one, other):
    threading.Thread(target=work, args=(e,), daemon=True).start()
    for delay in range(0, 60_000, 500):
        e.drop_later(e.keep(Owner()), delay)
time.sleep(0.02)
print("main is done", flush=True)"""
    for _ in range(4):
        assert child(code, many) == "main is done\n"


def other_version(folder: Path) -> Path:
    """A copy of the headers as another release would have them: of the same ABI,
    with one dtype more before the last."""
    include = folder / "include"
    shutil.copytree(isthmus.get_include(), include)
    changed = 0
    for path in include.rglob("*.[ch]*"):
        text = path.read_text()
        new = re.sub(r'(?m)^(\s*)(\{"float4_e2m1fn", 4, true\},)', r'\1\2\n\1{"newfloat", 7, true},', text)
        if new != text:
            path.write_text(new)
            changed += 1
    assert changed == 1, "the table of DLPack's type codes was not found"
    return include


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory, compile_extension) -> list[Path]:
    newer = other_version(tmp_path_factory.mktemp("newer"))
    return [
        # Nothing is inlined: there is the more that a linker could merge.
        compile_extension("dtypes.cpp", "-O0", name="older"),
        compile_extension("dtypes.cpp", "-O0", name="newer", include=newer),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("order", ["import older, newer", "import newer, older"])
@pytest.mark.parametrize("scope", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_two_versions_keep_their_tables(child, versions, order: str, scope: str) -> None:
    out = child(
        f"""{GLOBAL if scope == "RTLD_GLOBAL" else ""}
{order}
assert newer.parse("newfloat") == (18, 7, 1)
assert newer.name(18, 7) == "newfloat"
assert older.parse("newfloat") is None
assert "18" in older.name(18, 7), older.name(18, 7)
assert older.parse("float32") == newer.parse("float32") == (2, 32, 1)
print("well")""",
        *versions,
    )
    assert out == "well\n"


#: Flags as other tests here write them name the same builds, which are made once.
BUILDS = {
    "visible": [],
    "hidden": ["-fvisibility=hidden"],
    "debug": ["-O0", "-g", "-D_GLIBCXX_ASSERTIONS"],
    "release": ["-DNDEBUG", "-O1"],
    "not_unique": ["-O0", "-fno-gnu-unique"],
    "cxx23": ["-O0", "-std=c++23"],
    "symbolic": ["-Wl,-Bsymbolic"],
}


@pytest.mark.slow
@pytest.mark.parametrize("scope", ["RTLD_LOCAL", "RTLD_GLOBAL"])
def test_builds_of_every_kind_live_together(
    child, compile_extension, in_packages, tmp_path, scope: str, monkeypatch
) -> None:
    """Each of them makes, takes, lists, fails and drops, beside all the others and the package."""
    for name, flags in BUILDS.items():
        in_packages(tmp_path, compile_extension("life.cpp", *flags) / "life.so", name)
    if CLANG:
        monkeypatch.setattr(sys.modules[compile_extension.__module__], "CXX", CLANG)
        in_packages(tmp_path, compile_extension("life.cpp", "-O0") / "life.so", "clang")
    names = [*BUILDS, *(["clang"] if CLANG else [])]
    code = f"""{GLOBAL if scope == "RTLD_GLOBAL" else ""}{IMPORT}
import isthmus
extensions = [importlib.import_module(f"{{name}}.life") for name in {names}]
assert len({{e.__file__ for e in extensions}}) == {len(names)}
isthmus.live.enable()
kinds, held = set(), []
for e in extensions:
    for other in extensions:
        x = Owner()
        held.append((e, e.keep(x)))
        t = e.export(held[-1][1], "tensor")
        assert isthmus.from_dlpack(t) is t
        number = other.keep(t)
        assert other.export(number, "tensor") is t
        del t, x
        other.drop_without_gil(number)
    try:
        e.own(3)
    except TypeError as error:
        kinds.add(type(error))
assert len(kinds) == 1
assert len(isthmus.live()) == len(extensions) ** 2 == Owner.alive
pid = os.fork()
if pid == 0:
    import signal
    signal.alarm(20)
    for e, number in held[::2]:
        e.drop_without_gil(number)
    sys.exit(0)
assert os.waitpid(pid, 0)[1] == 0
for e in extensions:
    for n in range(len(extensions)):
        e.drop_later(e.keep(Owner()), 1000 * n)
print("well", flush=True)"""
    assert child(code, tmp_path) == "well\n"
