"""The rule of sizes with symbols for sizes: what a call's results look like, before there is anything to compute.

The rule itself is the extension's (`op._infer`), the one that eager calls obey; it counts in integers. So each symbol
goes there as an integer that no size has, and comes back as what it stands for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_FIRST_CODE = 1 << 40


class _Codes:
    def __init__(self, same: Callable[[Any, Any], bool]) -> None:
        self.same = same
        self.named: dict[Any, tuple[Any, int]] = {}
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
            isinstance(name, tuple) and isinstance(size, int) and size == 1
        ):  # 1 broadcasts with any other
            return size if isinstance(size, int) else self.new(size)
        if name not in self.named:
            self.named[name] = size, size if isinstance(size, int) else self.new(size)
            return self.named[name][1]
        known, code = self.named[name]
        if known is size or self.same(known, size):
            return code
        self.differ = True
        return size if isinstance(size, int) else self.new(size)

    def new(self, size: Any) -> int:
        code = _FIRST_CODE + len(self.symbols)
        self.symbols[code] = size
        return code


def _names(row: dict[str, Any], ndim: int, table: dict[str, Any], batch: int) -> list[Any]:
    """The name of each dimension of an argument; batch dimensions are numbered from the right."""
    lead = batch if batch > 0 else ndim - row["rank"] if table["batch"] and row["rank"] >= 0 else 0
    lead = max(0, min(lead, ndim))
    sizes = row["sizes"] if row["sizes"] is not None and len(row["sizes"]) == ndim - lead else [None] * (ndim - lead)
    return [("lead", lead - d) for d in range(lead)] + list(sizes)


def _equal(a: Any, b: Any) -> bool:
    return bool(a == b)


def _concrete(row: dict[str, Any], value: Any) -> Any:
    if isinstance(value, tuple):
        return value[0], tuple(map(int, value[1]))
    return int(value) if row["kind"] == "integer" else value


def infer(
    op: Any, arguments: Sequence[Any], batch: int = -1, same: Callable[[Any, Any], bool] = _equal
) -> list[tuple[str, tuple[Any, ...]]]:
    """[(dtype, sizes), …] of the results.

    op: the operator. arguments: by input, (dtype, sizes) of a tensor, None, or a scalar. batch: leading dimensions of
    every tensor beyond its type. An integer may be a symbol too. same(a, b): whether two sizes agree, one of which is
    not an int. Raises what the call would raise.
    """
    table, codes = op._table, _Codes(same)
    said: list[Any] = []
    for row, value in zip(table["inputs"], arguments, strict=True):
        if not isinstance(value, tuple):
            is_symbol = row["kind"] == "integer" and not isinstance(value, int)
            said.append(codes.new(value) if is_symbol else value)
            continue
        dtype, sizes = value
        names = _names(row, len(sizes), table, batch)
        said.append((dtype, tuple(codes.of(size, name) for size, name in zip(sizes, names, strict=True))))
    if codes.differ:  # in the words of the extension, and with the sizes themselves
        op._infer([_concrete(row, v) for row, v in zip(table["inputs"], arguments, strict=True)], batch)
    results = op._infer(said, batch)
    return [(dtype, tuple(codes.symbols.get(size, size) for size in sizes)) for dtype, sizes in results]
