"""Tensors of any framework through the engines that run programs on several processes and machines.

>>> isthmus.distributed.enable("ray")              # or "dask", "multiprocessing", "joblib", "mpi4py"
>>> isthmus.distributed.enable("ray", "tensor")    # everything arrives as a read-only isthmus.Tensor
>>> isthmus.distributed.disable("ray")             # restores the engine's own registrations

The engine moves messages as before, and tensors in them arrive without a copy. dtype, shape, strides, requires_grad and
type are kept, and no process ever sees another's writes. See docs/distributed.md.
"""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Callable
from typing import Literal, NamedTuple

from .._isthmus import Error
from ..errors import refusal
from . import counts, messages, policies, transit
from .frameworks import FRAMEWORKS, Framework
from .imports import when_imported
from .loader import collate
from .policies import POLICIES, Policy

__all__ = ["Engine", "Policy", "collate", "disable", "enable", "stats"]

#: The engines by the names that `enable` takes.
Engine = Literal["ray", "dask", "multiprocessing", "joblib", "mpi4py"]


class _Row(NamedTuple):
    #: What `pip install` calls it.
    package: str
    #: Modules of which one must be there.
    modules: tuple[str, ...]


_ENGINES = {
    "ray": _Row("ray", ("ray",)),
    "dask": _Row("distributed", ("distributed",)),
    "multiprocessing": _Row("Python", ("multiprocessing",)),
    "joblib": _Row("joblib", ("joblib", "loky")),
    "mpi4py": _Row("mpi4py", ("mpi4py",)),
}

_lock = threading.RLock()
#: Of each engine that is enabled, what puts its own registrations back.
_undo: dict[str, list[Callable[[], None]]] = {}


def _check_engine(engine: object) -> str:
    if isinstance(engine, str) and engine in _ENGINES:
        return engine
    raise refusal(ValueError, "bad_argument", "engine", engine, f"one of {', '.join(map(repr, _ENGINES))}")


def _check_installed(engine: str) -> None:
    row = _ENGINES[engine]
    if not any(importlib.util.find_spec(module) for module in row.modules):
        error = Error(f"argument 'engine': {engine!r}, but {row.package} is not installed; install it with pip")
        error.code = "unavailable"
        raise error


def enable(engine: Engine, read_only: Policy = "copy_on_write") -> None:
    """Send and receive tensors through `engine` without copies on arrival, from now on and in this process.

    engine: "ray", also before ray.init; "dask"; "multiprocessing", with concurrent.futures; "joblib", with loky;
        "mpi4py".
    read_only: how to treat received memory that other processes may see as well:
        "copy_on_write": every tensor may be written, over pages that become private to this process then. Where a
            message has several readers of the same pages, as through Ray, NumPy's, JAX's and isthmus's tensors of more
            than 32 KiB are read-only instead.
        "tensor": every tensor is a read-only isthmus.Tensor.
        "copy": every tensor is a copy.
        A tensor that is a part of an object stays what it was, and writable.
        A process that never called this follows the policy of the sender.

    Frameworks that are imported later are registered then, and none is imported for it. Enabling twice is enabling
    once, with the policy of the last call. Raises isthmus.Error for an unknown engine or policy, and for an engine that
    is not installed.
    """
    name = _check_engine(engine)
    if not isinstance(read_only, str) or read_only not in POLICIES:
        raise refusal(ValueError, "bad_argument", "read_only", read_only, f"one of {', '.join(map(repr, POLICIES))}")
    _check_installed(name)
    with _lock:
        policies.choose(name, read_only)
        module = importlib.import_module(f".engines.{name}", __name__)
        if name not in _undo:
            undo = _undo[name] = []
            if hasattr(module, "start"):
                undo.append(module.start())
            for framework in FRAMEWORKS.values():
                undo.append(when_imported(framework.module, _registration(module.register, framework, undo)))
        if hasattr(module, "spread"):
            module.spread(read_only)


def _registration(
    register: Callable[[type, Framework], Callable[[], None]], framework: Framework, undo: list[Callable[[], None]]
) -> Callable[[], None]:
    def register_types() -> None:
        with _lock:
            messages.kinds.update(framework.types())
            undo.extend(register(cls, framework) for cls in framework.types())

    return register_types


def disable(engine: Engine) -> None:
    """Restore the engine's own registrations exactly; does nothing if it is not enabled.

    Tensors that were received or are in transit stay valid. Raises isthmus.Error for an unknown engine.
    """
    name = _check_engine(engine)
    with _lock:
        for undo in reversed(_undo.pop(name, [])):
            undo()
        policies.forget(name)


def stats() -> dict[str, int]:
    """The counts of storages in this process so far, and of those that are waiting.

    shared: arrived and read in the engine's or the sender's memory. copy_on_write: the same, over private pages.
    inline: arrived within a small message. copied: copied on arrival, by policy or because it could not be avoided.
    waiting, waiting_bytes: sent to another process of this machine by this one, and not fetched yet.
    """
    tensors, nbytes = transit.waiting()
    return {**counts.counts(), "waiting": tensors, "waiting_bytes": nbytes}
