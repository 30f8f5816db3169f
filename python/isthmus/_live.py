"""Which tensors are alive between Python and C++, and what owns them."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ._isthmus import Device, DType, _live_disable, _live_enable, _live_enabled, _live_list
from ._terminal import fitting_widths, show, terminal_width, text_lines

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class LiveTensor:
    """A tensor that is alive: an import, memory of C++, or a view of one of them with another layout."""

    #: Its number, in order of birth.
    serial: int
    #: Address on `device`.
    ptr: int
    #: Bytes of the elements when compact.
    nbytes: int
    #: Sizes, one per dimension.
    shape: tuple[int, ...]
    #: The type of one element.
    dtype: DType
    #: Where the memory is.
    device: Device
    #: The memory must not be written.
    read_only: bool
    #: Nobody keeps the memory: it came from `from_blob` without an owner, or from C++ with `nullptr` as the owner.
    borrowed: bool
    #: Handles and exports that share it.
    handles: int
    #: Whose memory it is: the type of the array that was imported ("torch.Tensor"), or "C++".
    producer: str
    #: Who was handed it last ("numpy", "isthmus.Tensor"); "C++" when nobody else was.
    consumer: str
    #: Seconds since it was made.
    age: float
    #: With tracing, where Python was then: "train.py:12 in step"; else empty.
    place: str
    #: With tracing, the calls in C++, innermost first: "run(int)+0x42 in kernels.so < ..."; of a function without a
    #: name, in a library that was stripped, "kernels.so+0x1f30". Else empty.
    cpp_place: str

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.shape))
        text = (
            f"{self.producer} -> {self.consumer}: {self.dtype}[{sizes}] on {self.device} at {self.ptr:#x}, "
            f"{self.nbytes} bytes"
        )
        text += ", read-only" if self.read_only else ""
        text += ", borrowed: nobody keeps the memory" if self.borrowed else ""
        text += f", {self.handles} handle{'s' if self.handles != 1 else ''}, {self.age:.3g} s old"
        return text + "".join(f"\n    {place}" for place in (self.place, self.cpp_place) if place)


_FIELDS = tuple(LiveTensor.__dataclass_fields__)


def _live_tensor(values: tuple[Any, ...]) -> LiveTensor:
    """LiveTensor(*values), in half the time: a frozen class sets each field by a call."""
    tensor = object.__new__(LiveTensor)
    tensor.__dict__.update(zip(_FIELDS, values, strict=True))
    return tensor


class LiveTensors(list[LiveTensor]):
    """The tensors that are alive, oldest first; as text a table, which rich draws too
    (``rich.print(isthmus.live())``)."""

    _TITLES = ("number", "from", "to", "elements", "device", "bytes", "handles", "age", "")
    _RIGHT = (0, 5, 6, 7)  # the columns of numbers

    def _rows(self) -> list[tuple[str, ...]]:
        return [
            (
                str(tensor.serial),
                tensor.producer,
                tensor.consumer,
                f"{tensor.dtype}[{', '.join(map(str, tensor.shape))}]",
                str(tensor.device),
                f"{tensor.nbytes:,}",
                str(tensor.handles),
                f"{tensor.age:.3g} s",
                ", ".join(
                    name for name, is_so in (("read-only", tensor.read_only), ("borrowed", tensor.borrowed)) if is_so
                ),
            )
            for tensor in self
        ]

    def _end(self) -> str:
        return (
            f"{len(self)} tensor{'s' if len(self) != 1 else ''} alive, {sum(tensor.nbytes for tensor in self):,} bytes"
        )

    def __str__(self) -> str:
        if not self:
            return self._end()
        rows = [self._TITLES, *self._rows()]
        widths = fitting_widths(rows, terminal_width())
        lines = list(text_lines(rows[:1], self._RIGHT, widths))
        for tensor, row in zip(self, rows[1:], strict=True):
            lines += text_lines([row], self._RIGHT, widths, head=False)
            lines += [f"    {place}" for place in self._places(tensor)]  # where it was made goes below its line
        return "\n".join([*lines, self._end()])

    @staticmethod
    def _places(tensor: LiveTensor) -> list[str]:
        return [place for place in [tensor.place, *tensor.cpp_place.split(" < ")] if place]

    def __rich__(self) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(caption=self._end(), caption_justify="left")
        for i, title in enumerate(self._TITLES):
            table.add_column(title, justify="right" if i in self._RIGHT else "left")
        traced = any(tensor.place or tensor.cpp_place for tensor in self)
        if traced:
            table.add_column("made")
        for tensor, cells in zip(self, self._rows(), strict=True):
            made = Text("\n".join(self._places(tensor)))
            table.add_row(*map(Text, cells), *([made] if traced else []), style="yellow" if tensor.borrowed else "")
        return table


class Live:
    """The list of tensors that are alive between Python and C++: ``isthmus.live()``.

    The list is kept only while it is switched on, for all extensions of the process together; off, it costs nothing.
    The environment variable ISTHMUS_LIVE switches it on from the start: 1, or ``trace`` for tracing as well.
    """

    def __call__(self) -> LiveTensors:
        """The tensors made since `enable` that are still alive, oldest first; but those for whose entry there was no
        memory.

        Warns (RuntimeWarning) and returns an empty list when the list is not kept.
        """
        if not _live_enabled():
            warnings.warn("isthmus.live() is off; call isthmus.live.enable() first", RuntimeWarning, stacklevel=2)
        return LiveTensors(map(_live_tensor, _live_list()))

    def show(self) -> None:
        """Print the list as a table: in a terminal by rich, if it is installed (``pip install isthmus[terminal]``)."""
        tensors = self()
        show(str(tensors), lambda: tensors)

    def enable(self, *, tracing: bool = False) -> None:
        """Keep the list from now on.

        tracing: note where each tensor was made, in Python and in C++, which costs microseconds.
        """
        _live_enable(tracing)

    def disable(self) -> None:
        """Stop keeping the list, and empty it."""
        _live_disable()

    @property
    def enabled(self) -> bool:
        """Whether the list is kept."""
        return _live_enabled()

    def __repr__(self) -> str:
        return f"<isthmus.live: {'on' if self.enabled else 'off'}>"


#: The one list of this process: `isthmus.live()`.
live = Live()

_wish = os.environ.get("ISTHMUS_LIVE", "")
if _wish not in ("", "0"):
    live.enable(tracing=_wish == "trace")
