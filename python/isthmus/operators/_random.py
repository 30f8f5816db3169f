"""Sources of random numbers as arguments of operators: what a generator, a key or a seed gives to one call."""

from __future__ import annotations

import operator
import random
import sys
from collections.abc import Sequence
from typing import Any

from .._isthmus import TensorTypeError, TensorValueError
from ._registry import argument_prefix

EXPECTED = "None, an integer, a generator of torch or NumPy, or a key of JAX"


def words(op: Any, name: str, value: Any, beside: Any) -> tuple[int, ...]:
    """The seed and the offset of one call, four numbers of 32 bits with a sign, the lower ones first.

    value: the argument; None is the generator of the framework of `beside`, torch's or NumPy's own one. Raises
    isthmus.Error, which names the argument, if it is something else, and what a generator raises.
    """
    numpy, torch, jax = (sys.modules.get(module) for module in ("numpy", "torch", "jax"))
    if value is None:
        if jax is not None and isinstance(beside, jax.Array):
            raise no_generator(op, name)
        if torch is not None and isinstance(beside, torch.Tensor):
            return tuple(drawn_by_torch(None).tolist())
        if numpy is not None:
            return signed(numpy.random.randint(0, 2**32, 4, dtype=numpy.uint32))
        return signed([random.getrandbits(32) for _ in range(4)])
    if torch is not None and isinstance(value, torch.Generator):
        return tuple(drawn_by_torch(value).tolist())
    if numpy is not None and isinstance(value, numpy.random.Generator):
        return signed(value.integers(0, 2**32, 4, dtype=numpy.uint32))
    if numpy is not None and isinstance(value, numpy.random.RandomState):
        return signed(value.randint(0, 2**32, 4, dtype=numpy.uint32))
    if jax is not None and isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer):
        from ._jax import random_operand

        return tuple(random_operand(op, name, value).tolist())
    if torch is not None and isinstance(value, torch.Tensor) and value.dtype == torch.int32 and value.shape == (4,):
        return tuple(value.tolist())
    return of_integer(op, name, value)


def drawn_by_torch(generator: Any) -> Any:
    """The words that a torch.Generator draws, or torch's default one for None: a tensor in the host's memory."""
    import torch

    device = generator.device if generator is not None else "cpu"
    return torch.randint(-(2**31), 2**31, (4,), dtype=torch.int32, generator=generator, device=device).cpu()


def no_generator(op: Any, name: str) -> TensorValueError:
    """The error of a call of JAX without a source."""
    return TensorValueError(f"{argument_prefix(op.__name__, name)}JAX has no generator of its own; expected a key")


def of_integer(op: Any, name: str, value: Any) -> tuple[int, ...]:
    """The words of a seed."""
    try:
        seed = operator.index(value)
    except TypeError:
        found = type(value).__name__
        raise TensorTypeError(f"{argument_prefix(op.__name__, name)}expected {EXPECTED}, got {found}") from None
    if not -(2**63) <= seed < 2**64:
        raise TensorValueError(f"{argument_prefix(op.__name__, name)}found {seed}; expected a seed of 64 bits")
    return signed([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, 0, 0])


def signed(words: Sequence[Any]) -> tuple[int, ...]:
    """Numbers of 32 bits without a sign as those with one."""
    return tuple((int(word) ^ 0x80000000) - 0x80000000 for word in words)
