"""Operators of torch: schema, kernels, fake kernels with symbolic sizes, gradients and vmap, all made of an operator's
facts.

An operator `geo::distance` is defined together with `geo::distance_batched`, whose first argument says how many leading
dimensions every tensor has beyond its type: what vmap calls. A gradient is a pair of such operators too, so that a
backward pass is traced, compiled and mapped like any other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch._higher_order_ops import effects

from .._isthmus import Error
from . import _random, _torch_autograd
from ._registry import KnownOperator, Registry, flat
from ._sizes import infer, is_bounded, names_of

_TYPES = {
    "number": "float",
    "integer": "SymInt",
    "boolean": "bool",
    "text": "str",
    "dtype": "ScalarType",
    "tensors": "Tensor[]",
    "integers": "SymInt[]",
}

# Separates the leading dimensions of a call from its arguments.
Split = Callable[[Sequence[Any]], tuple[int, Sequence[Any]]]

_libraries: dict[str, torch.library.Library] = {}
_refused: dict[int, Error] = {}  # by an operator's identity, why torch does not have it


class TorchOperator(KnownOperator):
    """One operator in torch's dispatcher."""

    def __init__(self, op: Any) -> None:
        super().__init__(op)
        for row in self.inputs:
            if row["kind"] == "dtype" and "default" in row:
                row["default"] = self.torch_dtype(row, row["default"])
        self.integer_sizes = {name for row in self.outs for name in names_of(row["sizes"])}
        if self.space not in _libraries:
            _libraries[self.space] = torch.library.Library(self.space, "FRAGMENT")
        self.library = _libraries[self.space]

    def define(self) -> None:
        self.has_lists: bool = self.table.get("lists", False)
        forms = {self.function: self.arguments()}
        if not self.has_lists:
            forms[f"{self.function}_batched"] = ["int batch", *self.arguments(False)]
        for name, arguments in forms.items():
            schema = f"{name}({', '.join(arguments)}) -> {self.returns()}"
            self.library.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
        packets = getattr(torch.ops, self.space)
        self.overload = getattr(packets, self.function).default
        # vmap makes the calls with lists of tensors one by one.
        self.batched: Any = None if self.has_lists else getattr(packets, f"{self.function}_batched").default
        if not self.outs and not self.table["writes"]:
            for overload in (self.overload, self.batched):
                if overload is not None:
                    _declare_effect(overload)
        for key in ("CPU", "CUDA") if self.table["cuda"] else ("CPU",):
            if not self.op._implement_torch(key):
                self.implement_by_python(key)
        gradient = self.op._gradient
        if gradient is not None:
            self._gradient = TorchOperator(gradient)
            self._gradient.define()
        self.jvp: TorchOperator | None = TorchOperator(self.op._jvp) if self.tangents is not None else None
        if self.jvp is not None:
            self.jvp.define()
        self.register_rules(self.overload, lambda arguments: (0, arguments))
        if self.batched is not None:
            self.register_rules(self.batched, lambda arguments: (arguments[0], arguments[1:]))
        self.has_spellings = any(row["kind"] in ("random", "dtype") for row in self.inputs)
        plain = self.schema_has_all_defaults() and not self.has_spellings
        self.call = self.overload if plain else self.call_filled

    # The schema

    def arguments(self, defaults: bool = True) -> list[str]:
        texts: list[str] = []
        for i, row in enumerate(self.inputs):
            kind = _TYPES.get(row["kind"], "Tensor")
            if row["kind"] in ("in_out", "in_outs"):
                alias = chr(ord("a") + i) if i < 26 else f"a{i}"
                kind = f"Tensor({alias}!){'[]' if row['kind'] == 'in_outs' else ''}"
            texts.append(f"{kind}{'?' if row['optional'] else ''} {row['name']}")
        for i in reversed(range(len(texts) if defaults else 0)):  # from the end: as long as there are defaults
            row = self.inputs[i]
            if "default" not in row and not row["optional"]:
                break
            default = _spelled(texts[i], row.get("default"))
            if default is None:
                break
            texts[i] = default
        return texts

    def schema_has_all_defaults(self) -> bool:
        return all(
            argument.has_default_value() or not ("default" in row or row["optional"])
            for row, argument in zip(self.inputs, self.overload._schema.arguments, strict=True)
        )

    def call_filled(self, *args: Any, **kwargs: Any) -> Any:
        """Inlined by torch.compile; the overload alone has fewer guards."""
        if self.has_spellings:
            args = tuple(self.spelled(row, value) for row, value in zip(self.inputs, args, strict=False))
        return self.overload(*args, **self.filled(args, kwargs))

    def filled(self, args: Sequence[Any], arguments: dict[str, Any]) -> dict[str, Any]:
        """With the defaults that the schema cannot hold."""
        for row in self.inputs[len(args) :]:
            if ("default" in row or row["optional"]) and row["name"] not in arguments:
                arguments[row["name"]] = row.get("default")
            elif row["kind"] in ("random", "dtype"):
                arguments[row["name"]] = self.spelled(row, arguments.get(row["name"]))
        return arguments

    def spelled(self, row: dict[str, Any], value: Any) -> Any:
        """An argument that has more spellings than torch's schema, as that has it."""
        if row["kind"] == "random":
            return self.random_tensor(row, value)
        if row["kind"] == "dtype" and isinstance(value, str):
            return getattr(torch, value, value)
        return value

    def random_tensor(self, row: dict[str, Any], value: Any) -> Any:
        """A source of random numbers as the operator has it in torch: what it draws, as an operation of torch, so that
        a graph draws anew in each of its runs."""
        if isinstance(value, (torch.Tensor, torch.fx.Proxy)):
            return value
        if value is None or isinstance(value, torch.Generator):
            return _random.drawn_by_torch(value)
        return torch.tensor(_random.words(self.op, row["name"], value, None), dtype=torch.int32)

    def torch_dtype(self, row: dict[str, Any], value: Any) -> torch.dtype:
        """A dtype argument as torch's."""
        name = value if isinstance(value, torch.dtype) else self.named_dtype(row, value)
        dtype = name if isinstance(name, torch.dtype) else getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"{self.function}(): argument {row['name']!r}: torch has no dtype {name}")
        return dtype

    def returns(self) -> str:
        count = len(self.outs)
        return "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"

    # The kernels

    def implement_by_python(self, key: str) -> None:
        """For a torch without the C shims."""

        kernel = getattr(self.op, "_kernel", self.op.eager)  # a module of an older version

        def run(*args: Any) -> Any:
            try:
                return run_below(*args)
            except Exception as error:  # as torch raises what a kernel in C++ throws
                raise RuntimeError(str(error)) from error

        def run_below(*args: Any) -> Any:
            with torch.no_grad():
                return kernel(*(_torch_autograd.each(torch.Tensor.detach, a) for a in args))

        def run_batched(batch: int, *args: Any) -> Any:
            tensors = [a for a in args if isinstance(a, torch.Tensor)]
            lead = torch.broadcast_shapes(*(t.shape[:batch] for t in tensors))
            spread = [a.expand(*lead, *a.shape[batch:]) if isinstance(a, torch.Tensor) else a for a in args]
            results = []
            for place in itertools.product(*map(range, lead)):
                result = run(*(a[place] if isinstance(a, torch.Tensor) else a for a in spread))
                results.append(result if isinstance(result, tuple) else (result,))
            if not results:
                return self.fake(batch, args)
            if not self.outs:
                return None
            stacked = tuple(
                torch.stack(column).reshape(*lead, *column[0].shape) for column in zip(*results, strict=True)
            )
            return stacked[0] if len(self.outs) == 1 else stacked

        self.library.impl(self.function, run, key)
        if not self.has_lists:
            self.library.impl(f"{self.function}_batched", run_batched, key)

    def fake(self, batch: int, arguments: Sequence[Any]) -> Any:
        arguments = self.complete(arguments)
        first = next((a for a in flat(arguments) if isinstance(a, torch.Tensor)), torch.empty(0))
        self.check_sizes(arguments)
        said = [_torch_autograd.each(_described, a, _plain) for a in arguments]
        results = tuple(
            first.new_empty(self.sizes_of(row, sizes), dtype=getattr(torch, dtype))
            for row, (dtype, sizes) in zip(self.outs, infer(self.op, said, batch or -1, _same), strict=True)
        )
        return self.packed(results)

    def sizes_of(self, row: dict[str, Any], sizes: Sequence[Any]) -> Sequence[Any]:
        """The sizes of a result, whose first one is a new symbol if the call says it."""
        if not is_bounded(row):
            return sizes
        rows = torch.library.get_ctx().new_dynamic_size()
        torch._check(rows <= sizes[0])
        return (rows, *sizes[1:])

    def check_sizes(self, arguments: Sequence[Any]) -> None:
        """That an integer is the size of a result is known of its symbol from here on."""
        for row, value in zip(self.inputs, arguments, strict=True):
            if isinstance(value, torch.SymInt) and row["name"] in self.integer_sizes:
                found = value.node.hint if value.node.has_hint() else value
                where = f"{self.function}(): argument {row['name']!r}"
                text = f"{where}: found {found}; expected the size of a result, 0 or more"
                torch._check(value >= 0, text.__str__)

    def complete(self, arguments: Sequence[Any]) -> list[Any]:
        """With the defaults that torch leaves out if an argument has them."""
        return [*arguments, *(row.get("default") for row in self.inputs[len(arguments) :])]

    # The rules

    def register_rules(self, overload: Any, split: Split) -> None:
        """The rules of the operator, or of its batched form; `split` separates the leading dimensions."""
        name = overload._schema.name

        def fake(*args: Any) -> Any:
            return self.fake(*split(args))

        def vmap(info: Any, in_dims: Sequence[int | None], *args: Any) -> Any:
            return self.mapped(info, in_dims, split, args)

        torch.library.register_fake(name, fake, lib=self.library, allow_override=True)
        torch.library.register_vmap(name, vmap, lib=self.library)

        if self.table["writes"]:
            _torch_autograd.register_writes(self, overload, split)
        else:
            _torch_autograd.register_gradient(self, overload, split)
        if self.table.get("autocast") is not None:
            dtype = getattr(torch, self.table["autocast"])
            for device in ("cpu", "cuda"):
                torch.library.register_autocast(name, device, dtype, lib=self.library)

    def mapped(self, info: Any, in_dims: Sequence[int | None], split: Split, args: Sequence[Any]) -> Any:
        """vmap's rule: the batched form, with one leading dimension more."""
        batch, arguments = split(args)
        if any(is_bounded(row) for row in self.outs):
            raise Error(
                f"{self.function}(): each call says how many rows its result has, and vmap's calls would differ"
            )
        if self.has_lists:
            return self.mapped_one_by_one(info, in_dims, args)
        arguments = self.complete(arguments)
        dims = list(split(in_dims)[1])
        dims += [None] * (len(arguments) - len(dims))
        extra = self.extra_lead(batch, arguments, dims)
        results = self.batched(batch + 1 + extra, *self.aligned(info, extra, arguments, dims))
        return results, self.packed((0,) * len(self.outs))

    def mapped_one_by_one(self, info: Any, in_dims: Sequence[Any], args: Sequence[Any]) -> Any:
        """vmap's rule for lists of tensors: one call for each place in the mapped dimension."""
        for row, a, d in zip(self.inputs, args, in_dims, strict=False):
            if row["kind"] in ("in_out", "in_outs") and a is not None and None in flat([d]):
                self.refuse_unmapped(row, info)
        calls = []
        for place in range(info.batch_size):
            at = [_selected(a, d, place) for a, d in zip(args, in_dims, strict=True)]
            result = self.overload(*at)
            calls.append(result if isinstance(result, tuple) else (result,))
        results = [torch.stack(column) for column in zip(*calls, strict=True)] if self.outs else []
        return self.packed(results), self.packed((0,) * len(self.outs))

    def refuse_unmapped(self, row: dict[str, Any], info: Any) -> NoReturn:
        raise Error(
            f"{self.function}(): argument {row['name']!r}: vmap does not map it, and each call would write "
            f"it; expected a tensor with {info.batch_size} of them"
        )

    def extra_lead(self, batch: int, arguments: Sequence[Any], dims: Sequence[int | None]) -> int:
        """Batch dimensions of the arguments, if they broadcast, beyond those of vmap."""
        if not self.table["batch"] or batch > 0:
            return 0
        ranks = [
            a.dim() - (d is not None) - row["rank"]
            for row, a, d in zip(self.inputs, arguments, dims, strict=True)
            if isinstance(a, torch.Tensor)
        ]
        most: int = max(0, *ranks)
        return most

    def aligned(self, info: Any, extra: int, arguments: Sequence[Any], dims: Sequence[int | None]) -> list[Any]:
        """The arguments with the mapped dimension in front, of size 1 if there is none, and equally many batch
        dimensions."""
        mapped = any(d is not None for d in dims)
        aligned = []
        for row, a, d in zip(self.inputs, arguments, dims, strict=True):
            if not isinstance(a, torch.Tensor):
                aligned.append(a)
                continue
            if row["kind"] == "in_out" and d is None and mapped:
                self.refuse_unmapped(row, info)
            a = a.movedim(d, 0) if d is not None else a.unsqueeze(0)
            missing = extra - (a.dim() - 1 - row["rank"]) if extra else 0
            for _ in range(missing):
                a = a.unsqueeze(1)
            aligned.append(a.contiguous() if row["contiguous"] and row["kind"] != "in_out" else a)
        return aligned

    def run(self, batch: int, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """The operator, or its batched form, with the order of elements that its types ask for; the results as a
        tuple."""
        ready = [
            _torch_autograd.each(torch.Tensor.contiguous, a) if row.get("contiguous") else a
            for row, a in zip(self.inputs, arguments, strict=True)
        ]
        result = self.batched(batch, *ready) if self.batched is not None and batch > 0 else self.overload(*ready)
        return result if isinstance(result, tuple) else (result,)


def _defined(op: Any) -> TorchOperator:
    """An operator that torch learns now. Raises isthmus.Error if torch refuses it, or did so before."""
    if op._identity in _refused:  # a part of it may be defined, so that torch would now refuse it for that
        raise _refused[op._identity].with_traceback(None)
    known = TorchOperator(op)
    try:
        known.define()
    except Error as error:
        _refused[op._identity] = error
        raise
    except RuntimeError as error:
        _refused[op._identity] = Error(f"operator {known.name!r}: torch refused it: {str(error).splitlines()[0]}")
        raise _refused[op._identity] from error
    return known


# The operators as torch knows them: Registry.register().
register = Registry("torch", _defined).register
TorchOperator.registered = staticmethod(register)


def _declare_effect(overload: Any) -> None:
    """An operator without results is called for something else: no pass of a compiler may drop or move it."""
    torch.fx.node.has_side_effect(overload)
    effects._register_effectful_op(overload, effects._EffectType.ORDERED)


def _spelled(argument: str, value: Any) -> str | None:
    """An argument of a schema with its default, or None if torch's schemas cannot spell it."""
    text = repr(value)
    if isinstance(value, str):
        text = '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
    try:
        (parsed,) = torch._C.parse_schema(f"f({argument}={text}) -> ()").arguments
    except RuntimeError:
        return None
    return f"{argument}={text}" if parsed.default_value == value else None


def _described(tensor: torch.Tensor) -> tuple[str, Sequence[Any]]:
    return _dtype_name(tensor), tensor.shape


def _selected(argument: Any, dim: Any, place: int) -> Any:
    """An argument at a place in the mapped dimension; of a list that of each element."""
    if isinstance(dim, (list, tuple)):
        return [_selected(a, d, place) for a, d in zip(argument, dim, strict=True)]
    return argument if dim is None else argument.select(dim, place)


def _dtype_name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _plain(argument: Any) -> Any:
    """An argument that is not a tensor, as the rule of results takes it: a dtype by its name."""
    return str(argument).removeprefix("torch.") if isinstance(argument, torch.dtype) else argument


def _same(a: Any, b: Any) -> bool:
    """Whether two sizes agree; a size that depends on the data is assumed to."""
    try:
        return bool(a == b)
    except torch.fx.experimental.symbolic_shapes.GuardOnDataDependentSymNode:
        torch._check(a == b)
        return True
