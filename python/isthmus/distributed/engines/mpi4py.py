"""mpi4py: the pickled calls of its communicators, and of mpi4py.util.pkl5's, whose buffers travel as separate
messages."""

from __future__ import annotations

import copyreg
import gc
import pickle
import sys
from collections.abc import Callable
from typing import Any

from mpi4py import MPI

from .. import messages
from ..counts import count
from ..frameworks import Framework, order_of, reducer, tensor_over
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


#: Bytes of a dense NumPy array, sent by itself, up to which NumPy's own pickle takes the least time.
_NUMPYS = 1 << 20


def _is_numpys(x: Any) -> bool:
    """Whether `x` is an array that NumPy pickles in the least time, and reads as one that can be written."""
    numpy = sys.modules.get("numpy")
    if numpy is None or type(x) is not numpy.ndarray:
        return False
    return x.nbytes <= _NUMPYS and x.flags.writeable and order_of(x) != ""


def _dumps(before: Callable[..., bytes]) -> Callable[..., bytes]:
    def dumps(x: Any, protocol: int | None = None, **rest: Any) -> bytes:
        if before is pickle.dumps and _is_numpys(x) and policy_of(ENGINE) == "copy_on_write":
            return pickle.dumps(x, protocol, **rest)
        chunks = _Chunks()
        try:
            pickler = pickle.Pickler(chunks, protocol, **rest)
            pickler.dispatch_table = _reducers
            with messages.Unsent(x, protocol):
                pickler.dump(x)
        except Exception:
            # Another pickler that the user has set may do what pickle cannot.
            if before is pickle.dumps:
                raise
            return before(x, protocol, **rest)
        return b"".join(chunks)

    return dumps


def _loads(before: Callable[..., Any]) -> Callable[..., Any]:
    def loads(data: Any, **rest: Any) -> Any:
        x = before(data, **rest)
        # A message of ours begins with the name of what rebuilds it, which has counted it.
        if not _is_numpys(x) or b"isthmus" in bytes(memoryview(data)[:64]):
            return x
        count("inline")
        return tensor_over(x) if policy_of(ENGINE) == "tensor" else x

    return loads


def _set(pickler: Any) -> Callable[[], None]:
    """Replace the function that pickles, as MPI.Pickle's constructor does; the one there is found among what it refers
    to."""
    functions = [one for one in gc.get_referents(pickler) if callable(one)]
    dumps, loads = functions if len(functions) == 2 else (pickle.dumps, pickle.loads)
    protocol, threshold = pickler.PROTOCOL, pickler.THRESHOLD
    pickler.__init__(_dumps(dumps), _loads(loads), protocol, threshold)
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
    _reducers[cls] = reducer(ENGINE, framework, as_buffer, None, 4)

    def undo() -> None:
        _reducers.pop(cls, None)

    return undo
