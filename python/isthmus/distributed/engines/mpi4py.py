"""mpi4py: the pickled calls of its communicators, and of mpi4py.util.pkl5's, whose buffers travel as separate
messages."""

from __future__ import annotations

import copyreg
import gc
import pickle
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from .. import messages
from ..frameworks import Framework, reducer
from ..imports import when_imported
from ..packs import as_buffer
from ..policies import policy_of

ENGINE = "mpi4py"


class _Table(dict[Any, Callable[[Any], Any]]):
    """The reducers by type: ours, then those of everybody."""

    def __missing__(self, cls: Any) -> Callable[[Any], Any]:
        return copyreg.dispatch_table[cls]


_reducers = _Table()


class _Chunks(list[bytes]):
    """A file for a pickler: its bytes are copied once, when they are joined."""

    write = list.append


#: NumPy's array, once it is registered.
_array: Any = None
#: Bytes of an array, and arrays of a message, up to which NumPy's own pickle takes the least time, whatever the other.
_ALONE, _FEW = range(1 << 20), 8
#: Bytes of each of more arrays: smaller ones are described in less time, larger ones are copied once less.
_SEVERAL = range(4 << 10, 64 << 10)


def _goes_as_before(x: Any) -> bool:
    """Whether `x` is an array, or a list of arrays alone, that NumPy pickles in the least time, and whose elements lie
    in the same order, writable, where it reads them."""
    cls, array, sizes = type(x), _array, _ALONE
    if cls is array:
        x = (x,)
    elif (cls is not list and cls is not tuple) or not x:
        return False
    elif len(x) > _FEW:
        sizes = _SEVERAL
    for one in x:
        if type(one) is not array or one.nbytes not in sizes or not one.flags.carray or one.dtype.hasobject:
            return False
    return policy_of(ENGINE) == "copy_on_write"


def _dumps(before: Callable[..., bytes]) -> Callable[..., bytes]:
    is_pickles = before is pickle.dumps

    def dumps(x: Any, protocol: int | None = None, **rest: Any) -> bytes:
        if is_pickles and _goes_as_before(x):
            return before(x, protocol, **rest) if rest else before(x, protocol)
        chunks = _Chunks()
        try:
            pickler = pickle.Pickler(chunks, protocol, **rest)
            pickler.dispatch_table = _reducers
            messages.dump_unsent(pickler, x, protocol)
        except Exception:
            # Another pickler that the user has set may do what pickle cannot.
            if is_pickles:
                raise
            return before(x, protocol, **rest)
        return b"".join(chunks)

    return dumps


def _set(pickler: Any) -> Callable[[], None]:
    """Replace the function that pickles, as MPI.Pickle's constructor does; the one there is found among what it refers
    to."""
    functions = [one for one in gc.get_referents(pickler) if callable(one)]
    dumps, loads = functions if len(functions) == 2 else (pickle.dumps, pickle.loads)
    protocol, threshold = pickler.PROTOCOL, pickler.THRESHOLD
    pickler.__init__(_dumps(dumps), loads, protocol, threshold)
    return lambda: pickler.__init__(dumps, loads, protocol, threshold)


def start() -> Callable[[], None]:
    undo = [_set(MPI.pickle)]

    def also_out_of_band() -> None:
        from mpi4py.util import pkl5

        undo.append(_set(pkl5.pickle))

    undo.append(when_imported("mpi4py.util.pkl5", also_out_of_band))

    def undo_all() -> None:
        for one in reversed(undo):
            one()

    return undo_all


def register(cls: type, framework: Framework) -> Callable[[], None]:
    global _array
    if framework.name == "numpy":
        _array = cls
    _reducers[cls] = reducer(ENGINE, framework, as_buffer, None, 4)

    def undo() -> None:
        _reducers.pop(cls, None)

    return undo
