"""Which bytes of a storage a message needs, so that several views of it are sent once and nothing between them is."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import SimpleNamespace
from typing import NamedTuple


class Layout(NamedTuple):
    """How the elements of a tensor lie in its storage."""

    #: Bytes from the storage's beginning to the first element.
    position: int
    shape: tuple[int, ...]
    #: In bytes.
    strides: tuple[int, ...]
    itemsize: int

    @property
    def nbytes(self) -> int:
        size = self.itemsize
        for extent in self.shape:
            size *= extent
        return size

    def reach(self) -> tuple[int, int]:
        """The first byte of the elements in the storage, and the one after the last."""
        low = high = self.position
        if 0 in self.shape:
            return low, high
        for extent, stride in zip(self.shape, self.strides):  # noqa: B905  # of one length, and called for every view
            if stride > 0:
                high += (extent - 1) * stride
            else:
                low += (extent - 1) * stride
        return low, high + self.itemsize

    def row_major(self) -> Layout:
        """The same elements, alone and one after the other."""
        strides, step = [], self.itemsize
        for extent in reversed(self.shape):
            strides.append(step)
            step *= max(extent, 1)
        return Layout(0, self.shape, tuple(reversed(strides)), self.itemsize)

    def moved(self, start: int) -> Layout:
        """As seen from `start` bytes into the storage."""
        return Layout(self.position - start, self.shape, self.strides, self.itemsize)


# Every element of a dtype begins at a multiple of its size; complex128 is the largest.
LARGEST_ITEM = 16

# Pairs of views are compared element by element up to this number of views that lie between each other.
_COMPARED = 24


class Span(NamedTuple):
    """Bytes [low, high) of a storage."""

    low: int
    high: int


#: A view with its reach before it, which is looked at more than once.
Reached = tuple[int, int, Layout]


def spans(reached: Iterable[Reached]) -> list[Span]:
    """The spans that several views share, in order; a view in none of them is sent alone, without the bytes between
    its elements. In O(n log n) for n views."""
    found: list[Span] = []
    for group in _clusters(list(set(reached))):
        if len(group) == 1:
            low, high, layout = group[0]
            if high - low == layout.nbytes:
                found.append(Span(low, high))
            continue
        span = _span(group)
        if sum([layout.nbytes for _, _, layout in group]) >= span.high - span.low:
            found.append(span)
            continue
        for part in _apart([layout for _, _, layout in group]):
            found += [
                _span(again)
                for again in _clusters([(*layout.reach(), layout) for layout in part])
                if len(again) > 1 or again[0][1] - again[0][0] == again[0][2].nbytes
            ]
    return _merged(found)


def _clusters(reached: list[Reached]) -> list[list[Reached]]:
    """Those whose reaches meet, together."""
    groups: list[list[Reached]] = []
    end = -1
    for view in sorted(reached):
        low, high, _ = view
        if low == high:
            continue
        if low >= end:
            groups.append([])
        groups[-1].append(view)
        end = max(end, high)
    return groups


def _span(group: list[Reached]) -> Span:
    low, high = min([low for low, _, _ in group]), max([high for _, high, _ in group])
    if any([(layout.position - low) % layout.itemsize for _, _, layout in group]):  # noqa: C419  # faster
        low -= low % LARGEST_ITEM
    return Span(low, high)


def _apart(group: list[Layout]) -> list[list[Layout]]:
    """The group in parts that certainly have no element in common."""
    step = max(max(map(abs, layout.strides), default=0) for layout in group)
    lanes = [_lane(layout, step) for layout in group]
    if all(lane is not None for lane in lanes):
        return _by_lane(sorted(zip(lanes, group, strict=True)), step)  # type: ignore[arg-type]
    if len(group) > _COMPARED:
        return [group]
    parts: list[list[Layout]] = []
    for layout in group:
        met = [part for part in parts if any(_share_elements(layout, other) for other in part)]
        parts = [part for part in parts if part not in met]
        parts.append([layout, *(one for part in met for one in part)])
    return parts


def _lane(layout: Layout, step: int) -> tuple[int, int] | None:
    """Where its elements lie in each stretch of `step` bytes, as columns lie in rows; None if they do not repeat so."""
    if step == 0:
        return None
    low, high = layout.reach()
    for extent, stride in zip(layout.shape, layout.strides, strict=True):
        if abs(stride) == step:
            high -= (extent - 1) * step
    begin = low % step
    return None if begin + high - low > step else (begin, begin + high - low)


def _by_lane(lanes: list[tuple[tuple[int, int], Layout]], step: int) -> list[list[Layout]]:
    parts: list[list[Layout]] = []
    end = -1
    for (low, high), layout in lanes:
        if low >= end:
            parts.append([])
        parts[-1].append(layout)
        end = max(end, high)
    return parts


def _merged(found: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(found):
        if merged and span.low <= merged[-1].high:
            merged[-1] = Span(merged[-1].low, max(merged[-1].high, span.high))
        else:
            merged.append(span)
    return merged


def _share_elements(a: Layout, b: Layout) -> bool:
    """Whether two tensors of one storage that lie between each other have an element in common."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return True
    arrays = []
    for layout in (a, b):
        # Addresses that are compared and never read; away from NULL.
        interface = {
            "data": (4096 + layout.position, True),
            "shape": layout.shape,
            "strides": layout.strides,
            "typestr": f"|V{layout.itemsize}",
            "version": 3,
        }
        arrays.append(numpy.asarray(SimpleNamespace(__array_interface__=interface)))
    try:
        return bool(numpy.shares_memory(*arrays, max_work=10_000))
    except numpy.exceptions.TooHardError:
        return True
