"""TensorFlow's own C functions are used once a first tensor has shown that they say what Python says. Over a stand-in
for the library that has them; the real one is tested in tests/frameworks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[1] / "support" / "tensorflow_standin.c"
NAME = "lib_pywrap_tensorflow_common"

# A float32[3] of the class that is taken for EagerTensor: `shown` is where its buffer is,
# `asked` how often Python was asked.
START = """
    import array, ctypes, sys, types
    import isthmus_test_ext as ext

    library = ctypes.CDLL(LIBRARY)
    var = lambda name, kind=ctypes.c_int: kind.in_dll(library, name)
    HOST = b"/job:localhost/replica:0/task:0/device:CPU:0"
    asked, attribute = [], HOST.decode()

    def backing_device(self):
        asked.append(1)
        return attribute

    def dlpack(self, **keywords):
        import numpy
        return numpy.zeros(5, numpy.float32).__dlpack__(max_version=keywords.get("max_version"))

    fields = {"__module__": "tensorflow.python.framework.ops", "backing_device": property(backing_device),
              "dtype": types.SimpleNamespace(name="float32"),
              "__dlpack__": dlpack, "__dlpack_device__": lambda self: (1, 0)}
    EagerTensor = type("EagerTensor", (array.array,), fields)
    x = EagerTensor("f", [1, 2, 3])
    var("answer_pointer", ctypes.c_void_p).value = x.buffer_info()[0]
    dims = (ctypes.c_int64 * 64).in_dll(library, "answer_dims")
    dims[0] = 3

    def is_asked(take=ext.borrow):
        before = len(asked)
        found = take(x)
        return len(asked) > before, found
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform == "win32":
        pytest.skip("no C compiler to build the stand-in for TensorFlow's library with; install gcc or clang")
    name = NAME + (".dylib" if sys.platform == "darwin" else ".so")
    built = tmp_path_factory.mktemp("tensorflow") / name
    named = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else [f"-Wl,-soname,{name}"]
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", *named, "-o", built, SOURCE], check=True)
    return built


@pytest.fixture
def told(child, library: Path) -> Callable[[str], str]:
    return lambda code: child(f"    LIBRARY = {str(library)!r}\n" + START + code)


@pytest.mark.parametrize("take", ["borrow", "own"])
def test_python_is_asked_of_the_first_alone(told, take: str) -> None:
    told(f"""
    first, found = is_asked(ext.{take})
    assert first
    expected = (x.buffer_info()[0], (3,), "float32", True)
    for _ in range(3):
        again, now = is_asked(ext.{take})
        assert not again
        for one in (found, now):
            assert (one["data"], one["shape"], one["dtype"], one["read_only"]) == expected, one
    """)


@pytest.mark.parametrize(
    "lie",
    [
        'var("answer_pointer", ctypes.c_void_p).value += 4',
        'var("answer_type").value = 3',
        "dims[0] = 2",
        'var("answer_ndim").value = 2; dims[1] = 1',
        'var("answer_exact").value = 0',
        'var("is_null_handle").value = 1',
        'var("answer_device", ctypes.c_char_p).value = b"/device:CPU:7"',
    ],
)
def test_functions_that_say_something_else_are_never_used(told, lie: str) -> None:
    told(f"""
    kept = [var("answer_device", ctypes.c_char_p).value, var("answer_pointer", ctypes.c_void_p).value]
    {lie}
    assert is_asked()[0]
    var("answer_device", ctypes.c_char_p).value, var("answer_pointer", ctypes.c_void_p).value = kept
    var("answer_type").value, var("answer_ndim").value, var("answer_exact").value, dims[0] = 1, 1, 1, 3
    var("is_null_handle").value = 0
    for _ in range(3):
        again, found = is_asked()
        assert again and found["shape"] == (3,) and found["data"] == x.buffer_info()[0]
    """)


@pytest.mark.parametrize(
    "change",
    [
        'var("answer_pointer", ctypes.c_void_p).value = None',
        'var("answer_type").value = 7',  # strings
        'var("answer_type").value = 13',  # qint32
        "dims[0] = -1",
        'var("answer_ndim").value = -1',
        'var("answer_ndim").value = 65',
        'var("answer_exact").value = 0',
        'var("is_null_handle").value = 1',
        'var("answer_device", ctypes.c_char_p).value = None',
    ],
)
def test_what_they_do_not_say_python_is_asked(told, change: str) -> None:
    told(f"""
    is_asked()
    assert not is_asked()[0]
    {change}
    again, found = is_asked()
    assert again and found["data"] == x.buffer_info()[0] and found["shape"] == (3,)
    """)


def test_a_device_is_asked_each_time(told) -> None:
    told("""
    is_asked()
    attribute = "/job:localhost/replica:0/task:0/device:GPU:0"
    name = attribute.encode()  # the pointer does not keep it
    var("answer_device", ctypes.c_char_p).value = name
    again, found = is_asked()
    assert again and found["shape"] == (5,)
    attribute = "/job:localhost/replica:0/task:0/device:CPU:1"
    name = attribute.encode()
    var("answer_device", ctypes.c_char_p).value = name
    again, found = is_asked()
    assert not again and found["shape"] == (3,)
    """)


def test_one_without_elements_decides_nothing(told) -> None:
    told("""
    empty = EagerTensor("f", [])
    ext.borrow(empty)
    ext.borrow(empty)
    assert len(asked) == 2
    is_asked()
    assert not is_asked()[0]
    """)


def test_what_the_producer_is_asked_for(told) -> None:
    """A stream goes to the producer; a copy is ours."""
    told("""
    is_asked()
    assert ext.own(x, copy="always")["data"] != x.buffer_info()[0]
    before = len(asked)
    assert ext.borrow(x, stream=1)["shape"] == (5,)
    assert len(asked) == before + 1
    """)


def test_memory_that_must_be_writable(told) -> None:
    told("""
    is_asked()
    try:
        ext.own(x, require_writable=True)
    except ext.Error as error:
        assert error.code == "read_only", error
    else:
        raise AssertionError("immutable memory was given as writable")
    """)


def test_they_wait_without_the_gil(told) -> None:
    """The operation that makes the tensor may be a function of Python."""
    told("""
    is_asked()
    var("calls").value = var("calls_with_gil").value = 0
    is_asked()
    assert var("calls").value == 3
    assert var("calls_with_gil").value == 0
    """)


def test_one_status_serves_all(told) -> None:
    told("""
    for _ in range(20):
        is_asked()
    assert var("statuses_made").value - var("statuses_deleted").value == 1
    assert var("statuses_made").value == 1
    """)


def test_the_object_is_what_is_kept(told) -> None:
    told("""
    is_asked()
    before = sys.getrefcount(x)
    t = ext.tensor_of(x)
    assert sys.getrefcount(x) == before + 1
    assert t.owner is x
    del t
    assert sys.getrefcount(x) == before
    """)
