"""C++ functions registered by `isthmus::op` as operators of torch and JAX.

An extension's operators are known to torch when torch was imported before it, and otherwise from the first call with a
torch tensor, or from `register` on. JAX needs no registration before the first call under a transformation.

>>> isthmus.operators.register("torch")
>>> torch.ops.geo.distance
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from .._isthmus import Error, _operators

__all__ = ["list_operators", "register"]

_FRAMEWORKS = ("torch", "jax")


def list_operators() -> list[Any]:
    """The operators of all extensions imported so far, in the order of their registration."""
    return _operators()


def register(framework: str) -> None:
    """Make all operators known so far operators of a framework, which is imported; those of later modules follow by
    themselves.

    framework: "torch" or "jax". Twice is once. Raises ValueError for another framework, ImportError if it is not
    installed, and isthmus.Error if two modules define an operator of the same name, once all others are registered.
    """
    backend = _backend(framework)
    clash = None
    for op in _operators():
        try:
            backend.register(op)
        except Error as error:
            clash = clash or error
    if clash is not None:
        raise clash


def _backend(framework: str) -> Any:
    if framework == "torch":
        from . import _torch

        return _torch
    if framework == "jax":
        from . import _jax

        return _jax
    raise ValueError(f"argument 'framework': found {framework!r}; expected one of {', '.join(map(repr, _FRAMEWORKS))}")


def _offer(op: Any, framework: str) -> None:
    """Called by an extension: the framework was imported, or one of its arrays has come."""
    _backend(framework).register(op)


def _traced(op: Any) -> Callable[..., Any]:
    """Inlined by torch.compile in place of a call of `op`."""
    call: Callable[..., Any] = _backend("torch").register(op).call
    return call


def _traced_out(op: Any) -> Callable[..., Any]:
    """The same for a call with out=."""
    from . import _torch_calls

    known = _backend("torch").register(op)

    def call_into(*args: Any, out: Any, **arguments: Any) -> Any:
        return _torch_calls.call_into(known, args, arguments, out)

    return call_into


def _redirect(op: Any, arguments: Mapping[str, Any], out: Any, framework: str | None = None) -> Any:
    """Called by an extension for a call that its function cannot make itself: the framework's own way, or
    NotImplemented. framework: the one that has to see the call, if that is known."""
    for name in ("jax", "torch") if framework is None else (framework,):
        if name not in sys.modules:
            continue
        calls = _calls(name)
        if framework is not None or calls.must_see(op, arguments):
            return calls.call(op, dict(arguments), out)
    return NotImplemented


def _random_words(op: Any, name: str, value: Any, beside: Any) -> tuple[int, ...]:
    """Called by an extension for an argument that is a source of random numbers: what it draws, four numbers of 32 bits
    with a sign. beside: the first tensor of the call, whose framework None means, or None."""
    from ._random import words

    return words(op, name, value, beside)


def _calls(framework: str) -> Any:
    if framework == "jax":
        return _backend(framework)
    from . import _torch_calls

    return _torch_calls
