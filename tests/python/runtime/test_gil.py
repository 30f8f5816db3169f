"""Threads, the end of the interpreter, and forks: tensors may be dropped anywhere and at any time."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time

import at_once
import numpy as np
import pytest

import isthmus_test_ext as ext

SANITIZED = "ISTHMUS_SANITIZER" in os.environ

# What a child imports: one producer per protocol that needs nothing but NumPy.
PRODUCERS = """
import array, ctypes, sys, threading, time
import numpy as np
import isthmus_test_ext as ext

class Method:
    def __init__(self):
        self.array = np.arange(8, dtype=np.float32)
    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

class Legacy(Method):
    def __dlpack__(self):
        return self.array.__dlpack__()

class Interface(Method):
    @property
    def __array_interface__(self):
        return self.array.__array_interface__

def producers():
    spoken = [Method(), Legacy(), Interface()]
    return [np.arange(8), b"bytes", bytearray(8), array.array("f", [1]), *spoken, (ctypes.c_int * 3)()]
"""


def test_import_without_the_gil_is_refused() -> None:
    if not ext.checks_gil:
        pytest.skip("only debug builds look")
    a = np.zeros(3)
    before = sys.getrefcount(a)
    code, text = ext.import_without_gil(a)
    assert code == "bad_thread"
    assert "GIL" in text
    assert ext.import_after_release(a) == "bad_thread"
    assert sys.getrefcount(a) == before


OBJECTS = {
    "numpy": "np.zeros(4, np.float32)",
    "method": "producers()[4]",
    "bytes": "bytearray(8)",
    "tensor": "ext.owned('vector')",
    "torch": "torch.zeros(4)",
    "jax": "jax.numpy.zeros(4)",
    "no tensor": "object()",
}


@pytest.mark.parametrize("first", [True, False], ids=["first of all", "later"])
@pytest.mark.parametrize("kind", OBJECTS)
def test_every_call_without_the_gil(child, kind: str, first: bool) -> None:
    """Each takes the GIL, or says that it wants it: what reads an array of NumPy's alone may do without."""
    if kind in ("torch", "jax"):
        pytest.importorskip(kind)
    child(
        PRODUCERS
        + f"""
if "{kind}" in ("torch", "jax"):
    import {kind if kind in ("torch", "jax") else "sys"}
x = {OBJECTS[kind]}
def call(name, framework="tensor"):
    return ext.without_gil(name, x, framework, on_thread)
for on_thread in (False, True):
    if not {first} and "{kind}" != "no tensor":
        ext.own(x)
        ext.tensor_of(x)
    before = sys.getrefcount(x)
    for _ in range(3):
        for name in ("from_py", "from_py, copied", "borrow_py"):
            code = call(name)
            assert code == "bad_thread" or (code == "" and "{kind}" in ("numpy", "torch")), (name, code)
        assert sys.getrefcount(x) == before
        for framework in ("tensor", "numpy", "capsule", "capsule_legacy", "jax", "torch", "mlx"):
            for name in ("to_py", "to_py, given"):
                code = call(name, framework)
                assert code == "bad_thread", (name, framework, code)
        assert call("to_py_like") == "bad_thread"
        assert call("Tree::from_py") == "bad_thread"
        if "{kind}" not in ("no tensor", "method"):  # a capsule is taken once
            assert call("Tree::to_py") == "bad_thread"
        assert call("PyOwner") == "bad_thread"
        assert call("announce_write") == "", call("announce_write")
        wanted = "" if "{kind}" != "no tensor" else "not_a_tensor"
        assert call("empty_like") == wanted, call("empty_like")
        assert call("empty_like, on a device") == "", call("empty_like, on a device")
        assert call("empty_like, refused") == ("bad_layout" if wanted == "" else wanted)
        try:
            call("set_python_error")
        except ext.Error as error:
            assert not on_thread and error.code == "bad_dtype", error
        else:
            assert on_thread  # that thread's own error, which ends with it
    assert sys.getrefcount(x) == before
"""
    )


def test_a_tree_of_null_is_no_tensor() -> None:
    assert ext.null_tree() == "not_a_tensor"


@pytest.mark.parametrize("make", [lambda: np.arange(8), lambda: bytearray(8), lambda: memoryview(b"12345678")])
def test_storm_of_native_threads(make) -> None:
    x = make()
    before = sys.getrefcount(x)
    assert ext.storm(x, 8, 500) == 4000
    assert sys.getrefcount(x) == before


def test_storm_of_python_threads() -> None:
    arrays = [np.arange(i + 1) for i in range(20)] + [bytearray(i + 1) for i in range(20)]
    before = [sys.getrefcount(x) for x in arrays]
    numbers: list[int] = []
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for i in range(200):
                x = arrays[(seed * 7 + i) % len(arrays)]
                assert ext.borrow(x)["size"] == len(x)
                number = ext.keep(x)
                if i % 3 == 0:
                    numbers.append(number)
                elif i % 3 == 1:
                    ext.drop_without_gil(number)
                else:
                    ext.drop_on_thread(number, bool(i % 2))
        except BaseException as error:
            failures.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures
    for number in numbers:
        ext.drop(number)
    del threads
    gc.collect()
    assert [sys.getrefcount(x) for x in arrays] == before


def test_types_looked_at_by_many_threads() -> None:
    """Each thread makes types of its own, whose entries push each other out of the cache."""
    failures = []

    def work() -> None:
        try:
            for i in range(200):
                a = np.full(3, i)
                kind = type("Kind", (), {"__dlpack__": lambda self, a=a, **keywords: a.__dlpack__(**keywords)})
                assert ext.own(kind())["data"] == a.ctypes.data
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_tensors_in_statics(child) -> None:
    child(
        PRODUCERS
        + """
for x in producers():
    ext.keep_until_exit(x)
    ext.keep(x)
"""
    )


@pytest.mark.parametrize("framework", ["torch", "jax"])
def test_tensors_of_frameworks_in_statics(child, framework: str) -> None:
    pytest.importorskip(framework)
    make = {"torch": "torch.ones(3)", "jax": "jax.numpy.ones(3, jax.numpy.bfloat16), jax.numpy.ones(3)"}[framework]
    child(f"""
        import {framework}, isthmus_test_ext as ext
        for x in ({make},):
            ext.keep_until_exit(x)
            ext.keep(x)
            ext.drop_later(ext.keep(x), 1000)
        del x
    """)


@pytest.mark.parametrize("round_", range(12))
def test_daemon_threads_that_import_while_the_interpreter_ends(child, round_: int) -> None:
    child(
        PRODUCERS
        + f"""
sys.setswitchinterval(1e-5)
def work():
    everything = producers()
    while True:
        for x in everything:
            ext.own(x)
            ext.borrow(x)
            ext.drop_without_gil(ext.keep(x))
            ext.drop_on_thread(ext.keep(x), False)
for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep({0.005 * (round_ % 6) + 0.01})
"""
    )


@pytest.mark.parametrize("round_", range(8))
def test_native_threads_that_drop_while_the_interpreter_ends(child, round_: int) -> None:
    child(
        PRODUCERS
        + f"""
for delay in range(0, 60_000, 500):
    for x in producers():
        ext.drop_later(ext.keep(x), delay)
time.sleep({0.002 * round_})
"""
    )


@pytest.mark.parametrize("framework", ["torch", "jax"])
@pytest.mark.parametrize("round_", range(3))
def test_daemon_threads_with_frameworks(child, framework: str, round_: int) -> None:
    """JAX ends the process when one of its own functions wants the GIL back too late (`memoryview(x)` on a daemon
    thread does); so its arrays are only dropped there."""
    pytest.importorskip(framework)
    make = {"torch": "torch.ones(3)", "jax": "jax.numpy.ones(3)"}[framework]
    child(f"""
        import {framework}, threading, time, sys, isthmus_test_ext as ext
        x = {make}
        sys.setswitchinterval(1e-5)
        def work():
            number = ext.keep(x)
            while True:
                if "{framework}" == "torch":
                    ext.own(x)
                    ext.borrow(x)
                ext.drop_on_thread(ext.share(number), False)
        for _ in range(3):
            threading.Thread(target=work, daemon=True).start()
        for delay in range(0, 40_000, 1_000):
            ext.drop_later(ext.keep({make}), delay)
        time.sleep({0.01 * (round_ + 1)})
    """)


def test_imports_in_callbacks_at_exit(child) -> None:
    """Before and after our own hook, and while modules are torn down."""
    out = child(
        """
        import atexit
        def late(when):
            for x in producers():
                ext.own(x)
                ext.borrow(x)
                try:
                    ext.own("text")
                except TypeError:
                    pass
                ext.drop_on_thread(ext.keep(x), False)
                ext.drop_later(ext.keep(x), 100)
            print(when, flush=True)
        atexit.register(late, "before the bridge was loaded")
        """
        + PRODUCERS.replace("\n", "\n        ")
        + """
        ext.own(np.zeros(3))
        atexit.register(late, "after")
        class Late:
            def __init__(self, late):
                self.late = late
            def __del__(self):
                self.late("in a module's death")
        kept = Late(late)
        sys.modules["kept_to_the_end"] = kept
        """
    )
    assert out.split("\n")[:2] == ["after", "before the bridge was loaded"]


def test_system_exit_from_a_thread_of_imports(child) -> None:
    child(
        PRODUCERS
        + """
threads = [threading.Thread(target=lambda: [ext.repeat_own(x, 2000) for x in producers()]) for _ in range(4)]
for t in threads: t.start()
sys.exit(0)
"""
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork(child) -> None:
    child(
        PRODUCERS
        + """
import os
held = [ext.keep(x) for x in producers()]
for way in range(6):
    pid = os.fork()
    if pid == 0:
        for x in producers():
            ext.own(x)
            ext.drop_on_thread(ext.keep(x), False)
        for number in held:
            (ext.drop if way % 2 else ext.drop_without_gil)(number)
        if way < 2:
            os._exit(0)
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
for number in held:
    ext.drop(number)
"""
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.skipif(SANITIZED, reason="a fork of many threads deadlocks in the sanitizer's own locks")
@pytest.mark.skipif(not at_once.FORKS, reason="a fork of many threads deadlocks in CPython's own locks")
def test_fork_while_threads_drop(child) -> None:
    """The child has one thread, and must not wait at its end for those of its parent."""
    child(
        PRODUCERS
        + """
import os
stop = False
def work():
    everything = producers()
    while not stop:
        for x in everything:
            # On threads that Python knows: a fork while a new one announces itself hangs
            # in CPython's own after-fork code.
            ext.drop_without_gil(ext.keep(x))
threads = [threading.Thread(target=work, daemon=True) for _ in range(2)]
for t in threads: t.start()
begun = time.monotonic()
for i in range(40):
    if i >= 5 and time.monotonic() > begun + 20:
        break  # a busy machine: enough rounds for this time
    pid = os.fork()
    if pid == 0:
        import signal
        signal.alarm(20)
        stop = True
        ext.own(np.zeros(3))
        sys.exit(0)
    status = os.waitpid(pid, 0)[1]
    assert status == 0, f"round {i}: {status}"
stop = True
for t in threads: t.join()
""",
        timeout=90,
    )


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@pytest.mark.skipif(SANITIZED, reason="a sanitizer keeps what is freed")
@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no /proc here")
@pytest.mark.parametrize("kind", ["numpy", "bytes", "method", "refused", "interface", "torch", "jax"])
def test_memory_is_flat(kind: str) -> None:
    count = {"numpy": 1_000_000, "bytes": 1_000_000, "torch": 1_000_000, "method": 200_000, "interface": 200_000}.get(
        kind, 100_000
    )
    if kind == "torch":
        x = pytest.importorskip("torch").ones(3)
    elif kind == "jax":
        x = pytest.importorskip("jax").numpy.ones(3)
    elif kind == "method":
        array = np.zeros(3)
        x = type("Method", (), {"__dlpack__": lambda self, **keywords: array.__dlpack__(**keywords)})()
    elif kind == "interface":
        array = np.zeros(3)
        x = type("Interface", (), {"__array_interface__": property(lambda self: array.__array_interface__)})()
    else:
        x = {"numpy": np.zeros(3), "bytes": b"bytes", "refused": np.zeros(3, ">f4")}[kind]
    wanted = 0 if kind == "refused" else count // 10
    for call in (ext.repeat_own, ext.repeat_borrow):
        assert call(x, count // 10) == wanted
    gc.collect()
    before = resident()
    for call in (ext.repeat_own, ext.repeat_borrow):
        assert call(x, count) == wanted * 10
    gc.collect()
    assert resident() - before < 2_000_000


def test_drop_of_a_large_number_on_one_thread() -> None:
    x = bytearray(8)
    numbers = [ext.keep(x) for _ in range(20_000)]
    start = time.monotonic()
    for number in numbers:
        ext.drop_without_gil(number)
    assert time.monotonic() - start < 30
    x.append(1)
