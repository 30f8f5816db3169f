# SPDX-License-Identifier: Apache-2.0
"""The edges of a tensor's life, one function a story, each in a process of its own: it returns a verdict,
or is ended."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from stories import hostile
from stories.libraries import Library
from stories.verdict import NOT_COUNTED, BrokenStory, Verdict

Story = Callable[[Library], Verdict]
STORIES: dict[str, Story] = {}
RIGHT = Verdict("right")
CHAIN = 200_000
LARGE = 1 << 20


def story(title: str) -> Callable[[Story], Story]:
    def register(function: Story) -> Story:
        STORIES[title] = function
        return function

    return register


def not_told(why: str) -> Verdict:
    return Verdict(NOT_COUNTED, why)


class Owner(np.ndarray):
    """An array whose end can be watched by a weak reference, or by what a subclass does in it."""


def owner(kind: type = Owner) -> Any:
    return np.full(8, 7, np.float32).view(kind)


def wait_until_gone(reference: weakref.ref) -> bool:
    """A drop on another thread takes a moment."""
    deadline = time.monotonic() + 10
    while reference() is not None and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.01)
    return reference() is None


def torch_of(library: Library) -> Any:
    """torch, for the libraries that take its tensors."""
    import torch

    return torch if library.reads("dlpack") else None


NO_TORCH = "takes no torch.Tensor"


@story("a daemon thread is in a finalizer when the interpreter ends")
def daemon_thread(library: Library) -> Verdict:
    # The thread goes on only when it gets the GIL back, which the end denies it; Late keeps the end going for a while.
    class Late:
        def __del__(self, sleep: Callable[[float], None] = time.sleep) -> None:
            sleep(0.4)

    sys.modules["late"] = Late()  # type: ignore[assignment]
    inside = threading.Event()

    class Dawdling(Owner):
        def __del__(self) -> None:
            inside.set()
            for _ in range(300):
                time.sleep(0.01)

    x = [owner(Dawdling)]
    library.keep(x[0])
    x.clear()
    threading.Thread(target=library.drop, daemon=True).start()
    return RIGHT if inside.wait(20) else Verdict("leak", "the finalizer never ran")


def dropped(library: Library, drop: Callable[[], object] | None) -> Verdict:
    if drop is None:
        return not_told("wants the GIL for it")
    x = [owner()]
    reference = weakref.ref(x[0])
    library.keep(x[0])
    x.clear()
    gc.collect()
    if reference() is None:
        return Verdict("wrong", "freed under a living handle")
    drop()
    return RIGHT if wait_until_gone(reference) else Verdict("leak")


@story("the last handle dropped without the GIL")
def without_the_gil(library: Library) -> Verdict:
    return dropped(library, library.drop_without_gil)


@story("the last handle dropped on a thread of C++")
def on_a_thread(library: Library) -> Verdict:
    return dropped(library, library.drop_on_thread)


@story("a weak reference's callback exports the dying tensor")
def dying(library: Library) -> Verdict:
    library.keep(owner())
    got: list[Any] = []
    exported = [library.give()]
    try:
        reference = weakref.ref(exported[0], lambda _: got.append(library.give()))
    except TypeError:
        return not_told("its objects take no weak references")
    exported.clear()
    gc.collect()
    if not got:
        return not_told("gives out the object that it keeps")
    shown = np.asarray(got[0]) if hasattr(got[0], "__array_interface__") else np.from_dlpack(got[0])
    del reference
    return RIGHT if shown.tolist() == [7.0] * 8 else Verdict("wrong", "other elements")


def fork_in_a_finalizer(library: Library, drop: Callable[[], object] | None) -> Verdict:
    if drop is None:
        return not_told("wants the GIL for it")
    forked: list[int] = []

    class Forking(Owner):
        def __del__(self) -> None:
            forked.append(os.fork())

    x = [owner(Forking)]
    library.keep(x[0])
    x.clear()
    drop()
    if not forked:
        return Verdict("leak", "the finalizer never ran")
    if forked[0] == 0:  # the child makes and drops another, and ends
        signal.alarm(20)
        library.keep(owner())
        library.drop()
        sys.exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(forked[0], 0)[1])
    if status == -signal.SIGALRM:
        return Verdict("hang", "the child")
    return RIGHT if status == 0 else Verdict("crash", f"the child, status {status}")


@story("a fork in a finalizer")
def fork(library: Library) -> Verdict:
    return fork_in_a_finalizer(library, library.drop)


@story("a fork in a finalizer that runs without the GIL")
def fork_without_the_gil(library: Library) -> Verdict:
    return fork_in_a_finalizer(library, library.drop_without_gil)


@story(f"a chain of {CHAIN:,} views, each owning the last, released")
def chain(library: Library) -> Verdict:
    x: Any = owner(np.ndarray)
    for _ in range(CHAIN):
        library.keep(x)
        x = library.give()
        library.drop()
        x = (x if hasattr(x, "__getitem__") else np.from_dlpack(x))[:]
    del x
    gc.collect()
    return RIGHT


@story("a torch storage resized under a kept handle")
def resized(library: Library) -> Verdict:
    torch = torch_of(library)
    if torch is None:
        return not_told(NO_TORCH)
    x = torch.full((LARGE,), 7.0)
    library.keep(x)
    try:
        x.untyped_storage().resize_(0)
    except RuntimeError:
        return RIGHT  # in torch's own words: not resizable
    others = [torch.full((LARGE,), -1.0) for _ in range(3)]
    first = library.peek()[1]
    del others
    return RIGHT if first == 7 else Verdict("wrong", "other memory's elements")


@story("x.t_() under a kept handle")
def transposed(library: Library) -> Verdict:
    torch = torch_of(library)
    if torch is None:
        return not_told(NO_TORCH)
    x = torch.arange(6.0).reshape(2, 3)
    library.keep(x)
    x.t_()
    shape = tuple(library.peek()[0][1])
    return RIGHT if shape == (2, 3) else Verdict("wrong", f"shows {shape}")


@story("a capsule offered to an overload that misfits stays whole")
def overload(library: Library) -> Verdict:
    if library.pick is None:
        return not_told("has no overloads that take capsules")
    x = np.ones(3, np.int32)
    capsule = x.__dlpack__()
    try:
        library.pick(capsule)
        return Verdict("wrong", "int32 taken as another dtype")
    except TypeError:
        pass
    if '"dltensor"' not in repr(capsule):
        return Verdict("wrong", "consumed by a refusal")
    return (
        RIGHT
        if library.pick(np.ones(3, np.float32).__dlpack__()) == "float"
        else Verdict("wrong", "the wrong overload")
    )


def written(library: Library, x: object, first: Callable[[], float]) -> Verdict:
    writable = np.zeros(4, np.float32)
    library.write(writable)
    if writable[0] != 5:
        raise BrokenStory("what may be written is not")
    before = first()
    with contextlib.suppress(Exception):  # whatever a library refuses with
        library.write(x)
    return RIGHT if first() == before else Verdict("wrong", "written")


@story("a read-only NumPy array written")
def read_only(library: Library) -> Verdict:
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    return written(library, x, lambda: float(x[0]))


@story("memory that its producer flags as read-only written")
def flagged(library: Library) -> Verdict:
    if not library.reads("dlpack"):
        return not_told("reads no DLPack")
    managed = hostile.corpus().descriptors.Managed(True, flags=1)
    return written(library, hostile.Offers(managed), lambda: ctypes.c_float.from_address(managed.address).value)


@story("a leaf tensor that requires grad written behind autograd")
def leaf(library: Library) -> Verdict:
    torch = torch_of(library)
    if torch is None:
        return not_told(NO_TORCH)
    w = torch.zeros(4, requires_grad=True)
    found = written(library, w, lambda: float(w.detach()[0]))
    return found if w._version == 0 else RIGHT


@story("a capsule handed out and dropped unconsumed")
def unconsumed(library: Library) -> Verdict:
    x = [owner()]
    reference = weakref.ref(x[0])
    library.keep(x[0])
    x.clear()
    capsule = [library.give().__dlpack__()]
    library.drop()
    capsule.clear()
    return RIGHT if wait_until_gone(reference) else Verdict("leak")
