"""The message that a thread is pickling: what belongs to it ends with it, whatever else still refers to its parts."""

from __future__ import annotations

import collections
import functools
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from types import FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any, NamedTuple

from . import pipes

# What holds no tensor, or none that is pickled by value.
_ATOMS = frozenset((int, float, complex, bool, str, bytes, bytearray, type(None), type, FunctionType, ModuleType))

#: Objects that a search visits at most: a message of plain values must not take longer for it than its pickling.
_MOST = 1 << 17

#: The engines' own envelopes: what they hold is what their user has sent.
_ENVELOPES = ("multiprocessing", "concurrent", "joblib", "loky", "torch.utils.data", "functools")


def _is_envelope(cls: type) -> bool:
    return cls.__module__.startswith(_ENVELOPES)


_Contents = Callable[[Any], Iterable[Any]]

#: What an object contains as a container of Python.
_CONTENTS: tuple[tuple[type, _Contents], ...] = (
    (dict, dict.values),
    *((kind, kind.__iter__) for kind in (list, tuple, set, frozenset, collections.deque)),
)
_PLAIN = frozenset((*(kind for kind, _ in _CONTENTS), collections.OrderedDict, collections.defaultdict))


def _is_plain(cls: type) -> bool:
    """Whether what an object of this class holds is what its user has put there: one of Python's containers, a named
    tuple, or an envelope of an engine."""
    return cls in _PLAIN or _is_envelope(cls) or (issubclass(cls, tuple) and hasattr(cls, "_fields"))


class _Class(NamedTuple):
    """What a search has to know of a class, found out once: it takes longer than a look at an object."""

    is_plain: bool
    is_partial: bool
    contents: tuple[_Contents, ...]
    slots: tuple[MemberDescriptorType, ...]


_classes: weakref.WeakKeyDictionary[type, _Class] = weakref.WeakKeyDictionary()


def _class_of(cls: type) -> _Class:
    known = _classes.get(cls)
    if known is None:
        contents = tuple(contents for kind, contents in _CONTENTS if issubclass(cls, kind))
        slots = () if cls in _PLAIN else tuple(_slots(cls))
        known = _classes[cls] = _Class(_is_plain(cls), issubclass(cls, functools.partial), contents, slots)
    return known


def _slots(cls: type) -> Iterator[MemberDescriptorType]:
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            member = base.__dict__.get(_mangled(base, name))
            if type(member) is MemberDescriptorType:
                yield member


def _mangled(cls: type, name: str) -> str:
    is_private = name.startswith("__") and not name.endswith("__")
    return f"_{cls.__name__.lstrip('_')}{name}" if is_private else name


def _add_items(x: Any, known: _Class, found: list[Any]) -> None:
    """Append what `x` holds, without a call of what its user has written: it may load, count or consume something, and
    is no part of pickling."""
    for contents in known.contents:
        found += contents(x)
    if type(x) in _PLAIN:
        return
    if known.is_partial:
        found += (x.func, x.args, x.keywords)
    try:
        held = object.__getattribute__(x, "__dict__")
    except AttributeError:
        held = None
    if type(held) is dict:
        found += held.values()
    for member in known.slots:
        try:
            found.append(member.__get__(x))
        except AttributeError:  # not set
            continue


#: The types of tensors that engines send as `frameworks` describes them.
kinds: set[type] = set()


_NOT_ASKED: Any = object()


class Message:
    """One message while it is pickled. Most hold no tensor, or one: what is needed of it is found when it is asked
    for, and what every tensor asks for without a detour by __getattr__()."""

    #: By id: what torch_tensors has seen of the tensors that the message holds, and those of a family; by address: what
    #: of each storage is in it (pieces.Storage); what is called if it cannot be pickled.
    views: dict[int, Any]
    members: dict[int, Any]
    storages: dict[int, Any]
    on_failure: list[Callable[[], None]]
    #: See frameworks.head_of.
    heads: tuple[Any, Any] | None = None
    #: Bytes of arrays in it that would otherwise be handed over.
    inline = 0
    #: Where the next middling piece of it goes, the bytes of those that are there, and of all (packs.Block).
    block: Any = None
    in_blocks = 0
    middling: int | None = None
    has_arrays = False
    #: The pickler's, if it is known.
    protocol = 0
    _sender: FrameType | None = _NOT_ASKED
    _way: tuple[Any, pipes.Pipe] | None = None
    _plain: set[int] | None = _NOT_ASKED

    def __init__(self, root: object, asked: FrameType | None) -> None:
        """asked: the frame that has it pickled on behalf of who may send it; None if it is known that nobody does."""
        self._root, self._asked = root, asked

    def __getattr__(self, name: str) -> Any:
        if name not in _MADE_LATE:
            raise AttributeError(name)
        made = self.__dict__[name] = _MADE_LATE[name](self)
        return made

    def sender(self) -> FrameType | None:
        """The frame of the engine that sends it once, to one reader; None if it may be kept, and read more than
        once."""
        if self._sender is _NOT_ASKED:
            self._sender = sender_of(self._asked)
        return self._sender

    def way(self) -> tuple[Any, pipes.Pipe]:
        """The connection that it is sent through, None if that is not known, and what is behind it."""
        if self._way is None:
            sender = self.sender()
            connection = None if sender is None else _connection_of(sender)
            self._way = connection, pipes.pipe_of(connection)
        return self._way

    def is_plain(self, x: object) -> bool:
        """Whether a tensor is no part of another object, which may need it as it is; also if that is not known. What an
        object makes when it is pickled is such a part."""
        if self._plain is _NOT_ASKED:
            self._plain = self._find_plain()
        return self._plain is None or id(x) in self._plain

    def fail(self) -> None:
        """It could not be pickled."""
        for undo in self.__dict__.get("on_failure", ()):
            undo()

    def is_sent_by(self, modules: str) -> bool:
        """Whether a function of a module whose name begins so has asked for it, at any distance."""
        answer: bool | None = self._sent_by.get(modules)
        if answer is None:
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and not str(frame.f_globals.get("__name__")).startswith(modules):
                frame = frame.f_back
            answer = self._sent_by[modules] = frame is not None
        return answer

    #: The tensors that the message holds in containers and attributes, None if it holds too many things. What an object
    #: makes when it is pickled is not found.
    tensors: list[Any] | None

    def _find_plain(self) -> set[int] | None:
        """The ids of the tensors that are not parts of another object; None if none is such a part, or that is not
        known."""
        if _holds_only_tensors(self._root):
            return None
        self._search()
        return self._plain

    def _find_tensors(self) -> list[Any] | None:
        self._search()
        return self.tensors

    def _search(self) -> None:
        found: list[Any] = []
        others: list[Any] = []
        seen: set[int] = set()
        if _visit([self._root], seen, found, others):
            self._plain = set(map(id, found))
            self.tensors = found if _visit(others, seen, found) else None
        else:
            self._plain = self.tensors = None


def _holds_only_tensors(x: Any) -> bool:
    """Whether `x` is a tensor, or a container of tensors and numbers alone: told in less time than by a search."""
    cls = type(x)
    if cls is not list and cls is not tuple and cls is not dict:
        return cls in kinds
    return kinds.issuperset(set(map(type, x.values() if cls is dict else x)) - _ATOMS)


def _visit(stack: list[Any], seen: set[int], found: list[Any], others: list[Any] | None = None) -> bool:
    """Append the tensors among what the objects in `stack` hold, and, if given, what objects that are not plain hold
    to `others` instead of looking at it. False if that is too much."""
    while stack:
        x = stack.pop()
        cls = type(x)
        if cls in _ATOMS or id(x) in seen:
            continue
        seen.add(id(x))
        if len(seen) > _MOST:
            return False
        if cls in kinds:
            found.append(x)
        elif cls is list or cls is tuple:
            stack.extend(x)
        elif cls is dict:
            stack.extend(x.values())
        else:
            try:
                known = _class_of(cls)
                _add_items(x, known, stack if others is None or known.is_plain else others)
            except Exception:  # an attribute that raises
                continue
    return True


_MADE_LATE: dict[str, Callable[[Message], Any]] = {
    "views": lambda _: {},
    "members": lambda _: {},
    "storages": lambda _: {},
    "on_failure": lambda _: [],
    "_sent_by": lambda _: {},
    "tensors": Message._find_tensors,
}


class _Thread(threading.local):
    message: Message | None = None


_thread = _Thread()


def message() -> Message | None:
    """What this thread is pickling; None outside the picklers of the engines that are enabled."""
    return _thread.message


# Where messages are pickled on behalf of those that send them, and those.
_PICKLERS = ("multiprocessing.reduction", "loky.backend.reduction", "joblib.externals.loky.backend.reduction")
_SENDERS = ("multiprocessing.", "torch.multiprocessing.", "loky.", "joblib.externals.loky.")


def sender_of(frame: FrameType | None) -> FrameType | None:
    """The frame of the engine that sends what is pickled in `frame`, as its queues, connections and processes do; None
    if somebody else pickles it, who may keep it."""
    while frame is not None and frame.f_globals.get("__name__") in _PICKLERS:
        frame = frame.f_back
    if frame is None or not str(frame.f_globals.get("__name__")).startswith(_SENDERS):
        return None
    return frame


def _connection_of(sender: FrameType) -> Any:
    """The connection that an engine's function sends through; None if that is not known."""
    there = sender.f_locals
    through = there.get("self", getattr(there.get("send_bytes"), "__self__", None))
    for name in ("_writer", "conn"):
        through = getattr(through, name, through)
    return through if hasattr(through, "fileno") else None


def watch(pickler: Any) -> Callable[[], None]:
    """From now on each dump() of this class of picklers is a message. Returns a function that takes it back."""
    before = pickler.dump
    own = pickler.__dict__.get("dump")

    def dump(self: Any, x: object) -> Any:
        outer = _thread.message
        now = _thread.message = Message(x, sys._getframe(1))
        now.protocol = getattr(self, "proto", 0)  # told by cloudpickle's, and by multiprocessing's if it is enabled
        try:
            return before(self, x)
        except BaseException:
            now.fail()
            raise
        finally:
            _thread.message = outer

    pickler.dump = dump

    def undo() -> None:
        if pickler.__dict__.get("dump") is not dump:
            return
        if own is None:
            del pickler.dump
        else:
            pickler.dump = own

    return undo


def dump_unsent(pickler: Any, x: object, protocol: int | None) -> None:
    """Pickle `x` as a message that nobody sends on behalf of its user."""
    outer = _thread.message
    now = _thread.message = Message(x, None)
    now.protocol = pickle.DEFAULT_PROTOCOL if protocol is None else protocol
    try:
        pickler.dump(x)
    except BaseException:
        now.fail()
        raise
    finally:
        _thread.message = outer
