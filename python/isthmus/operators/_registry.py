"""The common part of the back ends of torch and JAX: an operator's facts, and the operators that a framework knows by
name."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Generic, Literal, TypeVar

from .._isthmus import DType, Error, TensorTypeError, _operators, from_dlpack

# Kinds of inputs that are arrays: an argument of the kind "sizes" has an array's sizes, then 0, and no elements.
ARRAYS = ("tensor", "in_out", "sizes", "random")
# Kinds of inputs that are lists of arrays, and the kind of their elements.
LISTS = {"tensors": "tensor", "in_outs": "in_out"}


def flat(values: Iterable[Any]) -> Iterator[Any]:
    """The values, and in place of a list its elements."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from value
        else:
            yield value


def is_run(size: Any) -> bool:
    """Whether a size stands for any number of dimensions: "b..."."""
    return isinstance(size, str) and size.endswith("...")


def name_of_element(name: str, place: int) -> str:
    """The name that errors give an element of a list, which argument_prefix() completes."""
    return f"{name}', element {place}"


def row_of_element(row: dict[str, Any], place: int) -> dict[str, Any]:
    """The facts of an element of a list of arrays."""
    return {**row, "name": name_of_element(row["name"], place), "kind": LISTS[row["kind"]]}


def argument_prefix(function: str, name: str) -> str:
    """How an error begins that names an argument, or an element of one (name_of_element)."""
    closed = name if "', element " in name else f"{name}'"
    return f"{function}(): argument '{closed}: "


class GradientPlan:
    """What the gradient of an operator takes and gives.

    sources: by input of the gradient, ("grad", result), ("result", result), ("input", input), ("sizes", input),
    ("size", name) or ("needed", None). of: by result of the gradient, the input that it is of.
    """

    def __init__(self, table: dict[str, Any], named: str | None, sources: Sequence[Any], of: Sequence[int]) -> None:
        self.named = named  # the operator that is the gradient
        self.sources: list[tuple[str, Any]] = list(sources)
        self.of = list(of)
        self.takes_results = any(kind == "result" for kind, _ in self.sources)
        self.places = {  # of each size that is taken by its name: an input and a dimension, counted from the last one
            name: next(
                (i, d - len(row["sizes"]))
                for i, row in enumerate(table["inputs"])
                for d, size in enumerate(row.get("sizes") or ())
                if size == name and not any(map(is_run, row["sizes"]))
            )
            for kind, name in self.sources
            if kind == "size"
        }

    def needed(self, needed: Callable[[int], bool]) -> int:
        """The bits of those results of the gradient whose inputs need theirs."""
        return sum(1 << place for place, i in enumerate(self.of) if needed(i))


class KnownOperator:
    """An operator as a framework knows it: by the registration of the first import of its module."""

    registered: ClassVar[Callable[[Any], Any]]  # an operator as the same framework knows it

    def __init__(self, op: Any) -> None:
        self.op = op
        self.table = op._table
        self.name: str = self.table["name"]
        self.space: str = self.table["space"]
        self.function: str = self.table["function"]
        self.module: str = getattr(op, "__module__", "")
        self.identity: int = op._identity
        self.inputs, self.outs = self.table["inputs"], self.table["outs"]
        self.plan = self.gradient_plan()
        # Of a Jacobian-vector product: the inputs whose tangents it takes, and the results of its own.
        self.tangents: Any = self.table.get("tangents")
        self._gradient: Any = None

    @property
    def gradient(self) -> Any:
        """That of an operator whose plan is not None, as the same framework knows it."""
        if self._gradient is None:
            self._gradient = type(self).registered(self.named_gradient())
        return self._gradient

    def why_no_gradient(self) -> str:
        """What an error says of an operator whose gradient was asked for and that has none."""
        if self.table.get("is_jvp", False):
            return "has no gradient, as no Jacobian-vector product has"
        if any(row.get("gradient_of", -1) >= 0 for row in self.outs):
            return "has no gradient; register it in C++ with one more .gradient<g>() behind that of the operator"
        return "has no gradient; register it in C++ with .gradient<g>()"

    def gradient_plan(self) -> GradientPlan | None:
        if "plan" not in self.table:  # a module of an older version
            gradient = self.op._gradient
            if gradient is None:
                return None
            given = [("grad", i) for i in range(len(self.outs))]
            inputs = [("input", i) for i in range(len(self.inputs))]
            return GradientPlan(
                self.table, None, [*given, *inputs], [row["gradient_of"] for row in gradient._table["outs"]]
            )
        plan = self.table["plan"]
        return plan and GradientPlan(self.table, plan["named"], plan["sources"], plan["of"])

    def named_gradient(self) -> Any:
        """The operator that is the gradient by its name. Raises isthmus.Error if there is none, or it does not fit."""
        assert self.plan is not None
        for other in _operators():
            table = other._table
            if table["name"] != self.plan.named:
                continue
            takes, gives = len(table["inputs"]), len(table["outs"])
            if takes == len(self.plan.sources) and gives == len(self.plan.of):
                return other
            raise Error(
                f"operator {self.name!r}: its gradient {self.plan.named!r} takes {takes} arguments and has {gives} "
                f"results; expected {len(self.plan.sources)} and {len(self.plan.of)}"
            )
        raise Error(
            f"operator {self.name!r}: its gradient is the operator {self.plan.named!r}, which no imported module has"
        )

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
    argument = argument_prefix(known.function, row["name"])
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
