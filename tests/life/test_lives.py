"""A program that starts and ends the interpreter many times: every life begins clean,
what outlives one does no harm."""

from __future__ import annotations

import statistics
import subprocess
import sys
import sysconfig
from pathlib import Path

import embedding
import pytest


@pytest.fixture(
    scope="module", params=[[], ["-rdynamic"], ["-fvisibility=hidden"]], ids=["plain", "rdynamic", "hidden"]
)
def program(request: pytest.FixtureRequest, compile_program) -> Path:
    return compile_program("lives.cpp", *request.param)


def run(program: Path, lives: int, when: str, code: str, *folders: Path, timeout: float = 120, **variables: str) -> str:
    environment = embedding.environment(*folders, MALLOC_PERTURB_="165", **variables)
    done = subprocess.run(
        [program, str(lives), when, code], capture_output=True, text=True, timeout=timeout, env=environment
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
    assert embedding.complaints(done.stderr) == ""
    return done.stdout


WHEN = ["between", "within", "last", "threads"]

# Objects of the standard library alone, and classes that speak the protocols in Python: nothing that cannot be started
# twice (ctypes cannot on 3.12).
STAND_INS = """
import array, gc, lives, weakref
memory = array.array("f", range(4))
class Interface:
    __array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (memory.buffer_info()[0], False), "version": 3}
class Producer:
    def __dlpack__(self, **options): return lives.give().__dlpack__(**options)
    def __dlpack_device__(self): return (1, 0)
class Fresh(bytearray):
    pass
for x in (b"bytes", bytearray(8), array.array("f", [1, 2]), memoryview(b"12345678"), Interface(), Producer(), Fresh(8),
          lives.give()):
    assert lives.borrow(x) > 0
    lives.keep(x)
t = lives.give()
assert (t.shape, str(t.dtype), str(t.device), repr(t)[:16]) == ((3,), "float32", "cpu", "isthmus.Tensor(f"), t
assert memoryview(t).tolist() == [1, 2, 3]
assert lives.borrow(t) == 3
for wrong in (3, "text", object()):
    try:
        lives.keep(wrong)
    except TypeError as error:
        assert error.code == "not_a_tensor" and type(error).__module__ == "isthmus"
    else:
        raise AssertionError
ref = weakref.ref(t)
del t
assert ref() is None
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", WHEN)
def test_stand_ins(program: Path, when: str) -> None:
    assert run(program, 20, when, STAND_INS) == "20 lives\n"


@pytest.mark.slow
def test_a_hundred_lives(program: Path) -> None:
    assert run(program, 100, "last", STAND_INS, timeout=300) == "100 lives\n"


def test_a_life_leaves_next_to_nothing(program: Path) -> None:
    """A life in which Isthmus was used leaves at most 2 kB more than one in which it was not."""

    # A median, since the interpreter's tables of addresses grow at other moments in each process: 1.9 to 4.1 kB a life.
    def left(code: str) -> float:
        variables = {"LIVES_BYTES": "1", "PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"}
        lines = [run(program, 23, "last", code, timeout=300, **variables).splitlines() for _ in range(7)]
        assert {lives for lives, _ in lines} == {"23 lives"}
        return statistics.median(int(left.split()[0]) for _, left in lines)

    uses = STAND_INS.replace("lives.keep(x)", "")
    without = "import array, gc, lives, weakref"
    assert left(uses) - left(without) < 2048


def test_memory_of_cpp_goes_from_life_to_life(program: Path) -> None:
    """A tensor of C++ that was shown in one life is shown in the next, by an object of that life."""
    code = """
import lives
for t in lives.old():
    assert memoryview(t).tolist() == [1, 2, 3]
    assert repr(t).startswith("isthmus.Tensor(float32[3] on cpu at ")
    assert t.dtype == "float32"
assert len(lives.old()) == life - 1
t = lives.give()
lives.keep(t)
import sys
sys.modules["kept to the end"] = t
"""
    assert run(program, 10, "last", code) == "10 lives\n"


def test_a_tensor_whose_object_an_earlier_life_left_behind(program: Path) -> None:
    """That object is neither handed out nor shown to the collector: the memory is shown by an object of this life."""
    code = """
import gc, lives
roots, aliases = lives.old_roots(), lives.old()
lives.drop()  # now the objects alone hold the aliases
assert len(roots) == life - 1 and len(aliases) == min(life - 1, 1)
tensor = type(lives.give())
for t in roots + aliases:
    assert type(t) is tensor, (type(t), tensor)
    assert memoryview(t).tolist() == [1, 2, 3]
    assert memoryview(t[1:]).tolist() == [2, 3]
    assert lives.borrow(t.__dlpack__()) == 3
    assert gc.get_referents(t) == [tensor]
assert all(again is t for again, t in zip(lives.old_roots(), roots))
lives.keep_alias()  # holds the isthmus.Tensor that shows its root
"""
    assert run(program, 5, "last", code) == "5 lives\n"


def test_numpy_or_a_clear_refusal(program: Path) -> None:
    """Some releases of NumPy refuse a second life themselves; that is an error of theirs,
    and no reason to use the first."""
    pytest.importorskip("numpy")
    folder = Path(sysconfig.get_paths()["purelib"])
    code = """
import lives, warnings
warnings.simplefilter("ignore")
try:
    import numpy as np
except (ImportError, RuntimeError):  # of NumPy 2.2
    np = None
if np is not None:
    a = np.arange(6, dtype="float32").reshape(2, 3)
    assert lives.borrow(a) == 6
    lives.keep(a)
    lives.keep(a[:, 1])
    b = lives.to_numpy(a[:, 1].copy())
    c = lives.to_numpy(lives.give())
    assert type(c) is np.ndarray and c.tolist() == [1, 2, 3]
    assert lives.to_numpy(a) is a
else:
    assert life > 1
    try:
        lives.to_numpy(lives.give())
    except ImportError:
        pass
    except Exception as error:
        assert "numpy" in str(error), error
    else:
        raise AssertionError("an ndarray without NumPy")
    assert memoryview(lives.give()).tolist() == [1, 2, 3]
"""
    for when in WHEN:
        assert run(program, 4, when, code, folder, *map(Path, sys.path[1:])) == "4 lives\n"


def test_another_numpy_in_the_second_life(program: Path, tmp_path: Path) -> None:
    """What was learnt of modules and types in one life (their addresses, their C functions) is not believed in the
    next: a module of the same name is another one."""
    (tmp_path / "numpy.py").write_text(
        "class ndarray:\n"
        "    def __init__(self, memory): self.memory = memory\n"
        "    @property\n"
        "    def __array_interface__(self):\n"
        "        return {'shape': (3,), 'typestr': '<f4', 'version': 3,\n"
        "                'data': (self.memory.buffer_info()[0], False)}\n"
    )
    code = """
import array, lives, sys
if life % 2:
    import numpy
    x = numpy.ndarray(array.array("f", range(3)))
    assert lives.borrow(x) == 3
    lives.keep(x)
else:
    assert "numpy" not in sys.modules
    lives.keep(bytearray(12))
try:
    lives.to_numpy(lives.give())
except Exception as error:
    assert getattr(error, "code", None) == "unavailable" or isinstance(error, ImportError), repr(error)
"""
    assert run(program, 6, "within", code, tmp_path) == "6 lives\n"


COUNTED = """
import array, lives, sys
memory = array.array("f", range(3))
address = memory.buffer_info()[0]
class Holds:
    def __init__(self, name): self.counted = lives.Counted(name)
class Interface(Holds):
    @property
    def __array_interface__(self): return {"shape": (3,), "typestr": "<f4", "data": (address, False), "version": 3}
class Producer(Holds):
    def __dlpack__(self, **options): return lives.give().__dlpack__(**options)
    def __dlpack_device__(self): return (1, 0)
class Raises:
    def __dlpack__(self, **options): raise ValueError(lives.Counted("the cause of an error"))
    def __dlpack_device__(self): return (1, 0)
def keep_all():
    lives.keep(lives.Counted("a buffer"))
    lives.keep(Interface("an object with an array interface"))
    lives.keep(Producer("a DLPack producer"))
    lives.keep(lives.show(lives.Counted("an isthmus.Tensor's")).__dlpack__())
    lives.keep_owner(lives.Counted("a PyOwner"))
    lives.keep_with(lives.Counted("beside memory of C++"))
    lives.keep_capsule()
    lives.keep_alias()
    if WHEN != "fifth":
        assert lives.keep_error(Raises())
    if NUMPY and life == 1:
        import numpy
        lives.keep(numpy.frombuffer(lives.Counted("a NumPy array's base"), "f4"))
if WHEN != "called" or life % 2:
    keep_all()
else:
    of_this_life = bytearray(12)
    lives.keep(of_this_life)
    lives.drop()
    of_this_life.append(0)  # refused while it is kept
"""


@pytest.mark.parametrize("when", ["within", "fifth", "called", "last"])
@pytest.mark.parametrize("numpy", [False, True], ids=["", "numpy"])
def test_references_of_an_ended_life_are_never_given_back(program: Path, when: str, numpy: bool) -> None:
    """Nothing that belongs to an earlier interpreter is touched while a later one runs; memory of C++ is released."""
    folders = []
    if numpy:
        pytest.importorskip("numpy")
        folders = [Path(sysconfig.get_paths()["purelib"]), *map(Path, sys.path[1:])]
    code = COUNTED.replace("WHEN", repr(when)).replace("NUMPY", str(numpy))
    assert run(program, 6, when, code, *folders) == "6 lives\n"


THREADS = """
import lives
class Fresh(bytearray):
    pass
for _ in range(40):
    for x in (Fresh(8), b"bytes", lives.give()):
        lives.keep(x)
lives.drop_on_threads()
"""


def test_threads_of_cpp_that_drop_while_each_life_ends(program: Path) -> None:
    """Some come in time, some too late, and some when the next life has begun. (Threads of Python do not outlive their
    interpreter: CPython crashes when one wakes in the next.)"""
    for _ in range(3):
        assert run(program, 20, "last", THREADS) == "20 lives\n"


def test_extensions_in_a_host_that_has_isthmus_too(program: Path, life: Path) -> None:
    """The host's symbols are seen by the extensions it loads (-rdynamic): each still runs on its own."""
    code = """
import lives, life as extension, gc
extension.own(b"bytes")
lives.keep(extension.export(extension.keep(bytearray(8)), "tensor"))
t = lives.give()
number = extension.keep(t)
assert extension.export(number, "tensor") is t
extension.drop_without_gil(number)
extension.drop_on_thread(extension.keep(bytearray(8)))
extension.live(True)
number = extension.empty()
u = lives.give()
assert lives.count() == len(extension.live(None)) == 2
extension.drop(number)
del u
assert lives.count() == 0
extension.live(False)
try:
    extension.own(3)
except TypeError as error:
    first = type(error)
try:
    lives.keep(3)
except TypeError as error:
    assert type(error) is first
"""
    assert run(program, 1, "last", code, life) == "1 lives\n"
    assert run(program, 5, "within", code, life) == "5 lives\n"


def test_a_life_that_begins_without_memory(compile_program) -> None:
    done = subprocess.run(
        [compile_program("second_life.cpp")], capture_output=True, text=True, env=embedding.environment(), timeout=60
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout}{done.stderr}"
