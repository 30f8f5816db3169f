"""The rule of sizes with symbols for sizes: what a call's results look like, before there is anything to compute.

The rule itself is the extension's (`op._infer`), the one that eager calls obey; it counts in integers. So each symbol
goes there as an integer that no size has, and comes back as what it stands for.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from ._registry import ARRAYS, LISTS, is_run

_FIRST_CODE = 1 << 40
_STEP = 1 << 20  # between two codes: a size may be a code and some more, "n+1"
_NAMED = re.compile(r"([A-Za-z_]\w*)([+-]\d+)?")
_ONE_NAME = re.compile(r"[A-Za-z_]\w*")


def names_of(sizes: Sequence[Any] | None) -> set[str]:
    """The names in a row of sizes: numbers, names, formulas and None."""
    return {name for size in sizes or () if isinstance(size, str) for name in _ONE_NAME.findall(size)}


def _is_formula(size: Any) -> bool:
    """Whether a size is computed of several: "c/(h*w)", not "n" or "n+1"."""
    return isinstance(size, str) and not is_run(size) and _NAMED.fullmatch(size) is None


def is_bounded(row: dict[str, Any]) -> bool:
    """Whether a result says during a call how many rows it has."""
    sizes = row["sizes"]
    return bool(sizes) and isinstance(sizes[0], str) and sizes[0].startswith("<=")


class _Codes:
    def __init__(self, same: Callable[[Any, Any], bool]) -> None:
        self.same = same
        self.named: dict[Any, tuple[Any, int]] = {}  # by name, the size and its integer
        self.symbols: dict[int, Any] = {}
        self.differ = False

    def of(self, size: Any, name: Any) -> int:
        """The integer of a size; `name`: what its dimension is called, the number that it must be, or None."""
        if isinstance(name, int):
            if isinstance(size, int) or not self.same(size, name):
                self.differ = self.differ or not isinstance(size, int)
                return size if isinstance(size, int) else self.new(size)
            return name
        if name is None or (
            isinstance(name, tuple) and name[0] == "lead" and isinstance(size, int) and size == 1
        ):  # 1 broadcasts with any other
            return size if isinstance(size, int) else self.new(size)
        if _is_formula(name):  # compared by check_formulas(), when all names are known
            return size if isinstance(size, int) else self.new(size)
        more = 0
        if isinstance(name, str):
            word = _NAMED.fullmatch(name)
            assert word is not None
            name, more = word[1], int(word[2] or 0)
        given = size - more if more else size
        if name not in self.named:
            self.named[name] = given, given if isinstance(given, int) else self.new(given)
            return self.named[name][1] + more
        known, code = self.named[name]
        if known is given or self.same(known, given):
            return code + more
        self.differ = True
        return size if isinstance(size, int) else self.new(size)

    def new(self, size: Any) -> int:
        code = _FIRST_CODE + _STEP * len(self.symbols)
        self.symbols[code] = size
        return code

    def meaning(self, size: int) -> Any:
        """What an integer of a result stands for."""
        code = size + _STEP // 2 - (size + _STEP // 2 - _FIRST_CODE) % _STEP
        more = size - code
        return self.symbols[code] + more if more and code in self.symbols else self.symbols.get(code, size)

    def value(self, formula: str, integers: dict[str, Any]) -> Any:
        """Of a formula, in symbols; None if it has a name that no argument gave, or leaves a fraction."""

        def of(node: ast.expr) -> Any:
            if isinstance(node, ast.BinOp):
                return joined(type(node.op), of(node.left), of(node.right))
            if isinstance(node, ast.Name):
                return self.named[node.id][0] if node.id in self.named else integers.get(node.id)
            assert isinstance(node, ast.Constant)
            return node.value

        def joined(kind: type, a: Any, b: Any) -> Any:
            if a is None or b is None:
                return None
            if kind is not ast.Div:
                return _OPERATIONS[kind](a, b)
            is_zero = isinstance(b, int) and b == 0
            return a // b if not is_zero and self.same(a % b, 0) else None

        return of(ast.parse(formula.removeprefix("<="), mode="eval").body)


_OPERATIONS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
}


def _dims_of_runs(table: dict[str, Any], arguments: Sequence[Any], batch: int) -> dict[str, int]:
    """By name, of how many dimensions each run is, as far as the arguments tell."""
    known: dict[str, int] = {}
    rows = [
        (row["sizes"], len(value[1]) - max(batch, 0))
        for row, value in zip(table["inputs"], arguments, strict=True)
        if row["kind"] in ARRAYS and isinstance(value, tuple) and any(map(is_run, row["sizes"] or ()))
    ]
    for _ in rows:
        for words, ndim in rows:
            unknown = [word for word in words if is_run(word) and word not in known]
            if unknown and len(set(unknown)) == 1:
                rest = ndim - sum(known.get(word, 0) if is_run(word) else 1 for word in words)
                known[unknown[0]] = max(rest, 0) // len(unknown)
    return known


def _spread(words: Sequence[Any], runs: dict[str, int]) -> list[Any]:
    """Sizes with the dimensions of each run in its place."""
    spread: list[Any] = []
    for word in words:
        spread += [("run", word, d) for d in range(runs.get(word, 0))] if is_run(word) else [word]
    return spread


def _names(row: dict[str, Any], ndim: int, table: dict[str, Any], batch: int, runs: dict[str, int]) -> list[Any]:
    """The name of each dimension of an argument; batch dimensions are numbered from the right."""
    lead = batch if batch > 0 else ndim - row["rank"] if table["batch"] and row["rank"] >= 0 else 0
    lead = max(0, min(lead, ndim))
    sizes = _spread(row["sizes"], runs) if row["sizes"] is not None else []
    if len(sizes) != ndim - lead:
        sizes = [None] * (ndim - lead)
    return [("lead", lead - d) for d in range(lead)] + sizes


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b)


def _concrete(row: dict[str, Any], value: Any) -> Any:
    if row["kind"] in LISTS:
        return [(dtype, tuple(map(int, sizes))) for dtype, sizes in value]
    if isinstance(value, tuple) and row["kind"] != "integers":
        return value[0], tuple(map(int, value[1]))
    return int(value) if row["kind"] == "integer" else value


def infer(
    op: Any, arguments: Sequence[Any], batch: int = -1, same: Callable[[Any, Any], bool] = _equal
) -> list[tuple[str, tuple[Any, ...]]]:
    """[(dtype, sizes), …] of the results.

    op: the operator. arguments: by input, (dtype, sizes) of a tensor, a list of them, None, or a scalar. batch:
    leading dimensions of every tensor beyond its type. An integer may be a symbol too. same(a, b): whether two sizes
    agree, one of which is not an int. Raises what the call would raise.
    """
    table, codes = op._table, _Codes(same)
    said: list[Any] = []
    formulas: list[tuple[str, Any]] = []
    runs = _dims_of_runs(table, arguments, batch)

    def of_tensor(row: dict[str, Any], dtype: str, sizes: tuple[Any, ...]) -> tuple[str, tuple[int, ...]]:
        names = _names(row, len(sizes), table, batch, runs)
        formulas.extend((name, size) for size, name in zip(sizes, names, strict=True) if _is_formula(name))
        return dtype, tuple(codes.of(size, name) for size, name in zip(sizes, names, strict=True))

    for row, value in zip(table["inputs"], arguments, strict=True):
        if row["kind"] in LISTS:
            said.append([of_tensor(row, *element) for element in value])
        elif isinstance(value, tuple) and row["kind"] != "integers":
            said.append(of_tensor(row, *value))
        else:
            is_symbol = row["kind"] == "integer" and value is not None and not isinstance(value, int)
            said.append(codes.new(value) if is_symbol else value)
    integers = {row["name"]: v for row, v in zip(table["inputs"], arguments, strict=True) if row["kind"] == "integer"}
    has_formulas = any(
        _is_formula(size) for row in (*table["inputs"], *table["outs"]) for size in row.get("sizes") or ()
    )
    leaves = has_formulas and bool(codes.symbols)
    if leaves and not codes.differ:
        values = [(codes.value(formula, integers), size) for formula, size in formulas]
        codes.differ = any(value is not None and not (value is size or same(value, size)) for value, size in values)
    if codes.differ:  # in the words of the extension, and with the sizes themselves
        op._infer([_concrete(row, v) for row, v in zip(table["inputs"], arguments, strict=True)], batch)
    results = op._infer(said, batch, leaves) if leaves else op._infer(said, batch)  # older modules take two
    return [
        (dtype, _meant(table, row, sizes, codes, integers if leaves else None))
        for row, (dtype, sizes) in zip(table["outs"], results, strict=True)
    ]


def _meant(
    table: dict[str, Any], row: dict[str, Any], sizes: Sequence[int], codes: _Codes, integers: dict[str, Any] | None
) -> tuple[Any, ...]:
    """The sizes of a result that the integers stand for. integers: those that formulas may name, if they are left."""
    found = [codes.meaning(size) for size in sizes]
    words = row["sizes"] or ()
    lead = len(sizes) - len(words)
    for d, word in enumerate(words if integers is not None and lead >= 0 else ()):
        if not _is_formula(word):
            continue
        found[lead + d] = codes.value(word, integers or {})
        if found[lead + d] is None:
            raise ValueError(f"{table['function']}(): argument {row['name']!r}: its size {word} is no whole number")
    return tuple(found)
