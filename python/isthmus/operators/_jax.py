"""Operators under JAX's transformations: a call of XLA's foreign function interface, with the rules for vmap and
grad."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .._isthmus import TensorTypeError, TensorValueError
from . import _random
from ._jax_grad import Differentiated
from ._jax_tangent import ForwardDifferentiated
from ._registry import (
    ARRAYS,
    LISTS,
    KnownOperator,
    Registry,
    argument_prefix,
    flat,
    handed_over,
    name_of_element,
    row_of_element,
)
from ._sizes import infer, is_bounded, names_of


def must_see(op: Any, arguments: Mapping[str, Any]) -> bool:
    """Whether an argument is traced, or is on a device for which the operator has a function: XLA makes the results
    there. Or the operator has 64-bit integers, which JAX does not have by default."""
    arrays = [value for value in flat(arguments.values()) if isinstance(value, jax.Array)]
    if any(isinstance(value, jax.core.Tracer) for value in arrays):
        return True
    if arrays and op._table["writes"]:  # arrays are immutable: what is written is a result
        return True
    if arrays and not jax.config.jax_enable_x64 and register(op).is_wide:
        return True
    return bool(op._table["cuda"]) and any(device.platform != "cpu" for value in arrays for device in value.devices())


def call(op: Any, arguments: dict[str, Any], out: Any = None) -> Any:
    """The call by XLA, of arguments some of which are traced."""
    if out is not None:
        raise ValueError(
            f"{op.__name__}(): argument 'out': jax records this call (a gradient or a graph), and expected no out="
        )
    known = register(op)
    values = [arguments[row["name"]] if row["name"] in arguments else known.missing(row) for row in known.inputs]
    if any(map(is_bounded, known.outs)) and not any(isinstance(value, jax.core.Tracer) for value in values):
        return known.call_by_numpy(values)
    results = known.bind(values)
    return known.packed(results)


class JaxOperator(KnownOperator):
    """One operator as a target of XLA, by the operator's own name. Making it raises XLA's error if XLA does not know
    this version of its interface."""

    def __init__(self, op: Any) -> None:
        super().__init__(op)
        jax.ffi.register_ffi_target(self.name, op._xla_target, platform="cpu")
        if self.table["cuda"]:
            jax.ffi.register_ffi_target(self.name, op._xla_cuda_target, platform="CUDA")
        gradient = op._gradient
        if gradient is not None:
            self._gradient = JaxOperator(gradient)
        self.jvp: Any = JaxOperator(op._jvp) if self.tangents is not None else None
        self.widened = [_widened(row) for row in self.inputs]
        self.is_wide = any(self.widened) or any(_WIDE.intersection(row["dtypes"]) for row in self.outs)

    def call_by_numpy(self, values: Sequence[Any]) -> Any:
        """A plain call whose results have as many rows as it says, which XLA could only pad."""
        given = [
            [self.of_numpy(row, element) for element in value] if row["kind"] in LISTS else self.of_numpy(row, value)
            for row, value in zip(self.inputs, values, strict=True)
        ]
        return jax.tree.map(jnp.asarray, self.op.eager(*given))

    def of_numpy(self, row: dict[str, Any], value: Any) -> Any:
        return self.widen(row, np.asarray(value)) if isinstance(value, jax.Array) else value

    def packed(self, results: Sequence[Any]) -> Any:
        """With the arguments that were written."""
        return (tuple(results) if len(results) > 1 else results[0]) if results else None

    def missing(self, row: dict[str, Any]) -> Any:
        if "default" not in row and not row["optional"] and row["kind"] != "random":
            raise TypeError(f"{self.function}() missing required argument {row['name']!r}")
        return row.get("default")

    def bind(self, values: Sequence[Any]) -> Sequence[Any]:
        """The results for arguments by input, and the arguments that were written: arrays and traced scalars become
        operands of XLA, the rest is known now."""
        values = [self.array(row, value) for row, value in zip(self.inputs, values, strict=True)]
        static = [self.static(row, value) for row, value in zip(self.inputs, values, strict=True)]
        said = [value if fixed is None else fixed[0] for fixed, value in zip(static, values, strict=True)]
        if self.plan is None or self.jvp is not None:
            self.check(said)
        places = [i for i, fixed in enumerate(static) if fixed is None]

        def run(*operands: Any) -> tuple[Any, ...]:
            return tuple(self.ffi_call(self.filled(said, places, operands), places))

        operands = [jax.tree.map(jnp.asarray, values[i]) for i in places]
        if self.jvp is not None:
            made: Sequence[Any] = ForwardDifferentiated(self, said, places, run)(operands)
            return made
        return Differentiated(self, said, places, run)(operands) if self.plan is not None else run(*operands)

    def array(self, row: dict[str, Any], value: Any) -> Any:
        """A tensor of another framework as an array of JAX, in place. Raises isthmus.Error with the argument's name."""
        if row["kind"] in LISTS:
            if not isinstance(value, (list, tuple)):
                raise self.wrong_type(row, "a list or tuple of tensors", value)
            return tuple(self.array(row_of_element(row, k), element) for k, element in enumerate(value))
        if row["kind"] == "in_out" and value is not None and not isinstance(value, jax.Array):
            raise TensorValueError(
                f"{argument_prefix(self.function, row['name'])}JAX makes this call, and what it writes is a new array; "
                f"expected a jax.Array, got {type(value).__name__}"
            )
        if row["kind"] == "random":
            return random_operand(self.op, row["name"], value)
        if row["kind"] not in ARRAYS or value is None or isinstance(value, (jax.Array, np.ndarray)):
            return value
        return handed_over(self, row, value, "jax")

    @staticmethod
    def filled(said: Sequence[Any], places: Sequence[int], operands: Sequence[Any]) -> list[Any]:
        values = list(said)
        for place, operand in zip(places, operands, strict=True):
            values[place] = operand
        return values

    def static(self, row: dict[str, Any], value: Any) -> tuple[Any] | None:
        """A scalar that is known while tracing, or None that is not an operand; None for an operand."""
        kind = row["kind"]
        if value is None and row["optional"]:
            return (None,)
        if kind in ARRAYS or kind in LISTS:
            return None
        if kind == "integers":
            return (self.integers(row, value),)
        if kind == "dtype":
            return (self.named_dtype(row, value),)
        if kind != "text" and isinstance(value, jax.core.Tracer):
            self.check_traced_scalar(row, value)
            return None

        def refuse(wanted: str) -> TypeError:
            return self.wrong_type(row, wanted, value)

        if kind == "text":
            if not isinstance(value, str):
                raise refuse("a string")
            return (value,)
        if kind == "boolean":
            if not isinstance(value, (bool, np.bool_)):
                raise refuse("True or False")
            return (bool(value),)
        if kind == "integer" and jax.export.is_symbolic_dim(value):
            return (value,)
        if isinstance(value, str):
            raise refuse("a number" if kind == "number" else "an integer")
        try:
            return (float(value),) if kind == "number" else (operator.index(value),)
        except TypeError:
            raise refuse("a number" if kind == "number" else "an integer") from None

    def wrong_type(self, row: dict[str, Any], wanted: str, value: Any) -> TypeError:
        found = type(value).__name__
        return TypeError(f"{argument_prefix(self.function, row['name'])}expected {wanted}, got {found}")

    def integers(self, row: dict[str, Any], value: Any) -> tuple[int, ...]:
        if not isinstance(value, (list, tuple)):
            raise self.wrong_type(row, "a list or tuple of integers", value)
        for k, element in enumerate(value):
            name = name_of_element(row["name"], k)
            if isinstance(element, jax.core.Tracer) or jax.export.is_symbolic_dim(element):
                raise TypeError(
                    f"{argument_prefix(self.function, name)}found a traced value; expected an integer that is known "
                    "while JAX traces (static_argnames of jax.jit)"
                )
            if not hasattr(element, "__index__"):
                raise self.wrong_type({"name": name}, "an integer", element)
        return tuple(map(operator.index, value))

    def check_traced_scalar(self, row: dict[str, Any], value: Any) -> None:
        wanted, dtypes = _TRACED[row["kind"]]
        dtype = _dtype_name(value.dtype)
        if value.ndim != 0 or dtype not in dtypes:
            sizes = ", ".join(map(str, value.shape))
            raise TypeError(
                f"{self.function}(): argument {row['name']!r}: expected {wanted}, got a traced {dtype}[{sizes}];"
                f" expected a scalar of {' or '.join(dtypes)}"
            )

    def check(self, values: Sequence[Any]) -> list[tuple[str, tuple[Any, ...]]]:
        """The results' dtypes and sizes. Raises what an eager call would raise."""
        said: list[Any] = []
        for row, value in zip(self.inputs, values, strict=True):
            if row["kind"] in LISTS:
                said.append([(self.dtype_name(row, element), tuple(element.shape)) for element in value])
                continue
            is_array = row["kind"] in ARRAYS and hasattr(value, "shape") and hasattr(value, "dtype")
            if row["kind"] == "integer" and isinstance(value, jax.core.Tracer):
                self.refuse_traced_size(row["name"])
            said.append((self.dtype_name(row, value), tuple(value.shape)) if is_array else value)
        return infer(self.op, said)

    def dtype_name(self, row: dict[str, Any], value: Any) -> str:
        """That of an operand, which may have had 32 bits for want of 64."""
        name = _dtype_name(value.dtype)
        return _WIDER.get(name, name) if name in _widened(row) and not jax.config.jax_enable_x64 else name

    def refuse_traced_size(self, name: str) -> None:
        if any(name in names_of(row["sizes"]) for row in self.outs):
            raise TypeError(
                f"{self.function}(): argument {name!r}: found a traced value; expected an integer that is known while "
                "JAX traces, since it is the size of a result (static_argnames of jax.jit)"
            )

    def ffi_call(self, values: Sequence[Any], places: Sequence[int]) -> Sequence[Any]:
        """The foreign call itself. Each operand has as many leading dimensions as any other, of size 1 if it has
        none."""
        results = self.check(values)
        dims = [i for i, value in enumerate(values) if i not in places and jax.export.is_symbolic_dim(value)]
        values, places = list(values), sorted([*places, *dims])
        for i in dims:  # its value is known when the program runs
            values[i] = jnp.asarray(values[i])
        ranks = {i: self.inputs[i].get("rank", 0) for i in places}  # of a scalar 0
        lead = (
            max((values[i].ndim - rank for i, rank in ranks.items() if rank >= 0), default=0)
            if self.table["batch"]
            else 0
        )
        for i in places if lead else ():
            values[i] = values[i].reshape((1,) * (lead - values[i].ndim + ranks[i]) + values[i].shape)
        operands = list(flat(values[i] for i in places))
        owners = [i for i in places for _ in flat([values[i]])]  # by operand, its input
        attributes: dict[str, Any] = {"how": "".join(self.letter(i, places, v) for i, v in enumerate(values))}
        for i, (row, value) in enumerate(zip(self.inputs, values, strict=True)):
            if row["kind"] in LISTS:
                attributes[f"p{i}"] = np.int64(len(value))
            elif i not in places and row["kind"] not in ARRAYS and value is not None:
                attributes[f"p{i}"] = _ATTRIBUTES[row["kind"]](value)
        if operands:
            attributes["rank"] = np.int64(operands[0].ndim - lead)
        if not self.is_wide or jax.config.jax_enable_x64:
            return self.grouped(self.target(results, operands, owners)(*operands, **attributes), values)
        with _enable_x64(True):
            wide = [self.widen(self.inputs[i], operand) for i, operand in zip(owners, operands, strict=True)]
            returned = self.target(results, wide, owners)(*wide, **attributes)
            narrow = [r.astype(_CANONICAL.get(_dtype_name(r.dtype), r.dtype)) for r in returned]
            return self.grouped(narrow, values)

    def grouped(self, returned: Sequence[Any], values: Sequence[Any]) -> list[Any]:
        """The results, with the elements of a list that was written as a tuple."""
        rest = iter(returned)
        grouped = [next(rest) for _ in self.outs]
        for row, value in zip(self.inputs, values, strict=True):
            if row["kind"] == "in_outs":
                grouped.append(tuple(next(rest) for _ in value))
            elif row["kind"] == "in_out" and value is not None:
                grouped.append(next(rest))
        return grouped

    def target(self, results: Sequence[Any], operands: Sequence[Any], owners: Sequence[int]) -> Callable[..., Any]:
        """XLA's target. An operand that is written is a result in the same memory, behind the others."""
        shapes = [jax.ShapeDtypeStruct(tuple(sizes), _dtype(dtype)) for dtype, sizes in results]
        written = [k for k, i in enumerate(owners) if self.inputs[i]["kind"] in ("in_out", "in_outs")]
        aliases = {k: len(shapes) + j for j, k in enumerate(written)}
        shapes += [jax.ShapeDtypeStruct(operands[k].shape, operands[k].dtype) for k in written]
        return jax.ffi.ffi_call(  # type: ignore[no-any-return, unused-ignore]
            self.name,
            shapes,
            vmap_method=self.vmap_method(bool(written)),
            has_side_effect=not shapes,
            input_output_aliases=aliases,
        )

    def vmap_method(self, writes: bool) -> str:
        if self.table.get("lists"):
            return "sequential"
        return "broadcast_all" if writes else "expand_dims"

    def widen(self, row: dict[str, Any], operand: Any) -> Any:
        name = _dtype_name(operand.dtype)
        return operand.astype(_WIDER[name]) if name in _widened(row) else operand

    def letter(self, place: int, places: Sequence[int], value: Any) -> str:
        if self.inputs[place]["kind"] in LISTS:
            return "l"
        if place in places:
            return "t" if self.inputs[place]["kind"] in ARRAYS else "s"
        return "n" if value is None else "a"


def random_operand(op: Any, name: str, value: Any) -> Any:
    """A source of random numbers as an operand: the words of a key, or what anything else gives once."""
    if value is None:
        raise _random.no_generator(op, name)
    if not isinstance(value, jax.Array):
        return jnp.asarray(_random.words(op, name, value, None), jnp.int32)
    data = jax.random.key_data(value) if jnp.issubdtype(value.dtype, jax.dtypes.prng_key) else value
    if data.dtype == jnp.uint32 and data.shape in ((2,), (4,)):
        drawn = jax.lax.bitcast_convert_type(data, jnp.int32)
        return jnp.concatenate([drawn, jnp.zeros(4 - len(drawn), jnp.int32)])
    if data.dtype == jnp.int32 and data.shape == (4,):
        return data
    found = f"{data.dtype}{list(data.shape)}"
    raise TensorTypeError(f"{argument_prefix(op.__name__, name)}expected a key of JAX, got {found}")


# The operators as JAX knows them: Registry.register().
register = Registry("JAX", JaxOperator).register
JaxOperator.registered = staticmethod(register)

_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "number": np.float64,
    "integer": np.int64,
    "boolean": np.bool_,
    "text": str,
    "dtype": str,
    "integers": partial(np.array, dtype=np.int64),
}

# By kind, what a traced scalar may be: what the extension reads of XLA's operands.
_TRACED = {
    "number": ("a number", ("float32", "float64", "int32", "int64", "bool")),
    "integer": ("an integer", ("int32", "int64")),
    "boolean": ("True or False", ("bool",)),
}


# By default JAX has no 64-bit numbers: integers become 64-bit on their way to an operator that takes no others, and its
# results have the dtypes that JAX's own functions give them.
_WIDER = {"int32": "int64", "uint32": "uint64"}
_CANONICAL = {"int64": "int32", "uint64": "uint32", "float64": "float32", "complex128": "complex64"}
_WIDE = frozenset(_CANONICAL)
_enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64


def _widened(row: dict[str, Any]) -> list[str]:
    """The dtypes of 32 bits that an argument does not take, while it takes the same of 64 bits."""
    dtypes = row.get("dtypes", ())
    return [narrow for narrow, wide in _WIDER.items() if wide in dtypes and narrow not in dtypes]


def _dtype_name(dtype: Any) -> str:
    return str(np.dtype(dtype).name)


def _dtype(name: str) -> Any:
    return jnp.dtype(name)
