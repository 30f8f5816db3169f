"""The common part of the back ends of torch and JAX: an operator's facts, and the operators that a framework knows by
name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, Literal, TypeVar

from .._isthmus import DType, Error, TensorTypeError, from_dlpack


class KnownOperator:
    """An operator as a framework knows it: by the registration of the first import of its module."""

    def __init__(self, op: Any) -> None:
        self.op = op
        self.table = op._table
        self.name: str = self.table["name"]
        self.space: str = self.table["space"]
        self.function: str = self.table["function"]
        self.module: str = getattr(op, "__module__", "")
        self.identity: int = op._identity
        self.inputs, self.outs = self.table["inputs"], self.table["outs"]

    def named_dtype(self, row: dict[str, Any], value: Any) -> str:
        """The name of a dtype argument, which may be a framework's dtype. Raises isthmus.Error with its name."""
        try:
            return DType(value).name
        except Error as error:
            raise type(error)(f"{self.function}(): argument {row['name']!r}: {error}") from error

    def packed(self, results: Sequence[Any]) -> Any:
        """As a call returns them: one as it is, several as a tuple, none as None."""
        if len(self.outs) == 1:
            return results[0]
        return tuple(results) if self.outs else None


def handed_over(known: KnownOperator, row: dict[str, Any], value: Any, framework: Literal["jax", "torch"]) -> Any:
    """A tensor argument as that framework's, in place if the framework can have it there: the framework makes the
    call, and the argument is another's. Raises isthmus.Error with the argument's name."""
    argument = f"{known.function}(): argument {row['name']!r}: "
    try:
        return from_dlpack(value).to(framework, allow_copy=row["kind"] == "tensor")
    except TensorTypeError as error:
        raise TensorTypeError(f"{argument}expected a tensor, got {type(value).__name__}") from error
    except Error as error:
        text = str(error).removeprefix("argument 'x': ")
        raise type(error)(f"{argument}cannot become a tensor of {framework}, which makes this call: {text}") from error


Known = TypeVar("Known", bound=KnownOperator)


class Registry(Generic[Known]):
    """The operators of one framework, by name."""

    def __init__(self, framework: str, make: Callable[[Any], Known]) -> None:
        self.framework = framework
        self.make = make
        self.known: dict[str, Known] = {}
        self.lock = threading.RLock()
        self.attribute = f"_{framework.lower()}"  # of the operator: found there from the second time on

    def register(self, op: Any) -> Known:
        """The framework's own form of an operator, made now if there was none. Raises isthmus.Error if another module
        has registered an operator of this name, and whatever `make` raises."""
        known: Known | None = op.__dict__.get(self.attribute)
        if known is not None:
            return known
        with self.lock:
            name = op._table["name"]
            known = self.known.get(name)
            if known is None:
                known = self.known[name] = self.make(op)
            elif known.identity != op._identity:
                raise Error(
                    f"operator {name!r}: {known.module!r} has registered an operator of this name with "
                    f"{self.framework}, and {op.__module__!r} has another; expected another name or namespace for one "
                    "of them"
                )
            setattr(op, self.attribute, known)
            return known
