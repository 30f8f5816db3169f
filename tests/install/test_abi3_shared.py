"""`<isthmus/shared.h>` in a module of the stable ABI: segments, pools and hand-overs, over the package's registry."""

from __future__ import annotations

import os
from pathlib import Path

import compiling
import processes
import pytest

isthmus = pytest.importorskip("isthmus")
pytest.importorskip("numpy")

pytestmark = [
    pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer"),
    pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="this system has no memfd"),
]

SOURCE = r"""
#include <isthmus/python.h>
#include <isthmus/shared.h>
using namespace isthmus;

namespace {

template <class F>
PyObject* guarded(F&& f) {
    try {
        return f();
    } catch (const Error& error) {
        set_python_error(error);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    return nullptr;
}
PyObject* shown(const Tensor& t) { return to_py(t, Framework::tensor).value(); }

shared::Pool* pool = nullptr;

/// A segment that is copied, moved and assigned to; the tensor is all that is left of it.
PyObject* segment(PyObject*, PyObject*) {
    return guarded([] {
        shared::Segment first = shared::Segment::create(100, shared::Access::shared).value();
        shared::Segment second(first), third(std::move(first));
        shared::Segment fourth = shared::Segment::create(1).value();
        if (fourth.allows_writers()) throw Error(ErrorCode::bad_argument, "writers");
        fourth = second;
        second = fourth;
        if (third.data() != second.data() || third.size() % 4096 != 0 || !third.allows_writers() ||
            third.descriptor() != fourth.descriptor())
            throw Error(ErrorCode::bad_argument, "another segment");
        *static_cast<float*>(third.data()) = 7;
        return shown(third.tensor({2, 2}, float32).value());
    });
}
PyObject* beyond(PyObject*, PyObject*) {
    return guarded([] { return shown(shared::Segment::create(1).value().tensor({1 << 20}, float64, 8).value()); });
}
PyObject* huge(PyObject*, PyObject*) {
    return guarded([] { return shared::Segment::create(SIZE_MAX).value(), Py_NewRef(Py_None); });
}
PyObject* begin(PyObject*, PyObject* limit) {
    return guarded([&] {
        delete pool;
        shared::Pool made({.limit = PyLong_AsSize_t(limit), .idle_limit = 0});
        pool = new shared::Pool(std::move(made));
        return Py_NewRef(Py_None);
    });
}
PyObject* end(PyObject*, PyObject*) {
    delete std::exchange(pool, nullptr);
    return Py_NewRef(Py_None);
}
PyObject* grown(PyObject*, PyObject* count) {
    return guarded([&] { return shown(pool->empty({PyLong_AsLongLong(count)}, float32).value()); });
}
PyObject* grown_here(PyObject*, PyObject* count) {
    return guarded([&] { return shown(shared::empty({PyLong_AsLongLong(count)}, float32).value()); });
}
PyObject* copied(PyObject*, PyObject* x) {
    return guarded([&] { return shown(pool->share(from_py(x).value()).value()); });
}
PyObject* share(PyObject*, PyObject* x) {
    return guarded([&] { return shown(shared::share(from_py(x).value()).value()); });
}
PyObject* is_shared(PyObject*, PyObject* x) {
    return guarded([&] { return PyBool_FromLong(shared::is_shared(from_py(x).value())); });
}
PyObject* stats_of(const shared::Pool& of) {
    const shared::PoolStats s = of.stats();
    const Py_ssize_t segments = s.segments, reserved = s.reserved, free = s.free, lent = s.lent;
    return Py_BuildValue("nnnn", segments, reserved, free, lent);
}
PyObject* stats(PyObject*, PyObject*) {
    return guarded([] { return stats_of(*pool); });
}
PyObject* stats_of_process(PyObject*, PyObject*) {
    return guarded([] { return stats_of(shared::Pool::process()); });
}
PyObject* trim(PyObject*, PyObject*) {
    pool->trim();
    shared::Pool::process().trim();
    return Py_NewRef(Py_None);
}
PyObject* send(PyObject*, PyObject* args) {
    int socket = 0, access = 0;
    PyObject* x = nullptr;
    if (PyArg_ParseTuple(args, "iOi", &socket, &x, &access) == 0) return nullptr;
    return guarded([&] {
        const Tensor t = from_py(x).value();
        shared::send(socket, t, static_cast<shared::Access>(access), {.timeout_ms = 1000}).value();
        return Py_NewRef(Py_None);
    });
}
/// Without an access: what the sender allows.
PyObject* receive(PyObject*, PyObject* args) {
    int socket = 0, access = -1;
    if (PyArg_ParseTuple(args, "i|i", &socket, &access) == 0) return nullptr;
    return guarded([&] {
        if (access < 0) return shown(shared::receive(socket, {}, {.timeout_ms = 1000}).value());
        return shown(shared::receive(socket, static_cast<shared::Access>(access), {.timeout_ms = 1000}).value());
    });
}
/// Waits until a signal has arrived; how often it was told of one.
PyObject* waits(PyObject*, PyObject* socket) {
    return guarded([&]() -> PyObject* {
        int told = 0;
        const auto second = [](void* at) { return ++*static_cast<int*>(at) == 2; };
        const shared::Wait wait{.interrupted = second, .context = &told};
        const auto came = shared::receive(static_cast<int>(PyLong_AsLong(socket)), {}, wait);
        return Py_BuildValue("isi", told, came ? "" : came.error().what(), static_cast<int>(came.error().code()));
    });
}

PyMethodDef methods[] = {
    {"segment", segment, METH_NOARGS, ""}, {"beyond", beyond, METH_NOARGS, ""}, {"huge", huge, METH_NOARGS, ""},
    {"begin", begin, METH_O, ""}, {"end", end, METH_NOARGS, ""}, {"grown", grown, METH_O, ""},
    {"grown_here", grown_here, METH_O, ""}, {"copied", copied, METH_O, ""}, {"share", share, METH_O, ""},
    {"is_shared", is_shared, METH_O, ""}, {"stats", stats, METH_NOARGS, ""},
    {"stats_of_process", stats_of_process, METH_NOARGS, ""}, {"trim", trim, METH_NOARGS, ""},
    {"send", send, METH_VARARGS, ""}, {"receive", receive, METH_VARARGS, ""}, {"waits", waits, METH_O, ""},
    {nullptr, nullptr, 0, nullptr}};
PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "store", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_store() { return PyModule_Create(&definition); }
"""

SOURCE_OF_PYTHON = """
import gc, os, socket
import store, isthmus.shared, numpy as np
here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

def descriptors():
    gc.collect()
    return len(os.listdir("/proc/self/fd"))

def raises(words, call, *arguments):
    try:
        call(*arguments)
    except (isthmus.Error, MemoryError, OSError) as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    folder = compiling.BUILT / "abi3-shared"
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "store.cpp"
    source.write_text(SOURCE)
    told = [*isthmus.get_cflags(abi3=True), "-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-Wl,-z,now"]
    return compiling.compiled("store.abi3.so", [compiling.CXX, *told, source])


def python(folder: Path, source: str) -> None:
    processes.run_python(SOURCE_OF_PYTHON + source, folder)


def test_a_segment_lives_as_long_as_its_last_tensor(folder: Path) -> None:
    source = """
before = descriptors()
t = store.segment()
x = np.from_dlpack(t)
assert x[0, 0] == 7 and x.shape == (2, 2)
assert isthmus.shared.is_shared(t) and isthmus.shared.is_shared(x[1:])
assert descriptors() == before + 1
del t, x
assert descriptors() == before
raises("argument 'shape': (1048576,) of float64 needs 8388608 bytes from 8", store.beyond)
raises("larger than the address space", store.huge)
assert descriptors() == before
"""
    python(folder, source)


def test_a_pool_is_counted_and_trimmed(folder: Path) -> None:
    source = """
store.begin(1 << 20)
assert store.stats() == (0, 0, 0, 0)
t = store.grown(1000)
assert t.shape == (1000,)
segments, reserved, free, lent = store.stats()
assert segments == 1 and reserved == 1 << 17 and free == reserved - 4096 and lent == 0
raises("the pool's limit is 1048576", store.grown, 1 << 20)
c = store.copied(np.arange(5, dtype=np.float32)[::-1])
assert np.from_dlpack(c).tolist() == [4, 3, 2, 1, 0] and isthmus.shared.is_shared(c)
raises("argument 'access'", store.send, here.fileno(), c, 9)
store.end()
assert np.from_dlpack(c).tolist() == [4, 3, 2, 1, 0] and isthmus.shared.is_shared(c)
before = descriptors()
del t, c
assert descriptors() == before - 1
"""
    python(folder, source)


def test_the_registry_is_the_packages(folder: Path) -> None:
    source = """
store.begin(1 << 30)
for theirs in (store.grown(3), store.grown_here(3), store.share(np.zeros(3)), store.segment()):
    assert isthmus.shared.is_shared(theirs) and isthmus.shared.share(theirs) is theirs
ours = isthmus.shared.empty((3,), "float32")
assert store.is_shared(ours) and store.share(ours) is ours and not store.is_shared(np.zeros(3))
from isthmus import _isthmus
assert store.stats_of_process() == _isthmus._shared_stats(None)
del ours, theirs
gc.collect()
store.trim()
assert store.stats_of_process()[:2] == (0, 0)
"""
    python(folder, source)


def test_tensors_are_handed_over_in_both_directions(folder: Path) -> None:
    source = """
store.begin(1 << 30)
t = store.grown(4)
np.from_dlpack(t)[:] = [1, 2, 3, 4]
store.send(here.fileno(), t, 0)
came = isthmus.shared.receive(there)
assert came.read_only and np.asarray(came).tolist() == [1, 2, 3, 4] and came.data_ptr != t.data_ptr
isthmus.shared.send(here, t, "copy_on_write")
came = store.receive(there.fileno())
np.from_dlpack(came)[0] = 9
assert np.asarray(came).tolist() == [9, 2, 3, 4] and np.from_dlpack(t)[0] == 1
store.send(here.fileno(), t, 1)
assert store.receive(there.fileno(), 0).read_only
store.send(here.fileno(), t, 0)
raises("argument 'access': 'shared', but the sender allows 'read_only'", store.receive, there.fileno(), 2)
raises("not in a segment", store.send, here.fileno(), np.zeros(3), 0)
raises("within 1000 ms", store.receive, there.fileno())
here.close()
raises("the sender is gone", store.receive, there.fileno())
"""
    python(folder, source)


def test_a_signal_reaches_the_modules_own_function(folder: Path) -> None:
    source = """
import signal
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
told, words, code = store.waits(there.fileno())
signal.setitimer(signal.ITIMER_REAL, 0)
assert told == 2 and words == "a signal ended the wait", (told, words)
"""
    python(folder, source)
