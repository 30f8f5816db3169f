"""What a handle of C++ shows stays where it is while the handle lives, whatever Python does to the tensor.

Promised (law 2): the owner of the memory lives as long as the last handle. A torch tensor's memory belongs to its
*storage*, which the tensor can exchange (`x.data = y`, `x.set_`, `module.half()`) or resize in place. An owned handle
therefore keeps the storage it saw, and marks it as not resizable, as `x.numpy()` does: torch then refuses `resize_`
with its own error. What no owner can prevent, as `x.numpy()` cannot: `share_memory_()` moves the elements out of the
storage. Each story is told in a process of its own, on memory large enough to be given back to the system when it is
freed.
"""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
np = pytest.importorskip("numpy")
ext = pytest.importorskip("isthmus_test_ext")

STORY = """
import gc
import numpy as np, torch
import isthmus_test_ext as ext
gc.freeze()  # what torch has made takes a collection a third of a second
N = 1 << 20

def fresh(): return torch.arange(N, dtype=torch.float32)
def floats(data): return np.frombuffer(data, np.float32)
class Module(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(fresh())

HOLDERS = {{
    "from_py": (ext.keep, lambda held: floats(ext.kept_elements(held))),
    "isthmus.Tensor": (ext.tensor_of, np.asarray),
    "its numpy array": (lambda x: ext.tensor_of(x).to("numpy"), lambda held: held),
    "its capsule": (lambda x: ext.tensor_of(x.detach()).__dlpack__(max_version=(1, 0)),
                    lambda held: floats(ext.own_elements(held))),
    "np.from_dlpack of it": (lambda x: np.from_dlpack(ext.tensor_of(x.detach())), lambda held: held),
}}
for name, (hold, show) in HOLDERS.items():
    {make}
    handle, refused = hold(x), ""
    try:
        {change}
    except RuntimeError as error:
        refused = str(error)
    assert not refused or "resiz" in refused, refused
    gc.collect()
    others = [torch.full((N,), -1.0) for _ in range(3)]
    shown = show(handle)
    assert shown[:4].tolist() == [0, 1, 2, 3] and shown[-1] == N - 1, (name, shown)
"""

CHANGES = {
    "storage.resize_(0)": ("x = fresh()", "x.untyped_storage().resize_(0)"),
    "storage.resize_ to more": ("x = fresh()", "x.untyped_storage().resize_(16 * N)"),
    "x.resize_ to more": ("x = fresh()", "x.resize_(4 * N)"),
    "x.data = y": ("x = fresh()", "x.data = torch.zeros(3)"),
    "x.set_(y)": ("x = fresh()", "x.set_(torch.zeros(3))"),
    "x.set_()": ("x = fresh()", "x.set_()"),
    "x.share_memory_() once more": ("x = fresh().share_memory_()", "x.share_memory_()"),
    "swap_tensors": ("x = fresh()", "torch.utils.swap_tensors(x, torch.zeros(3))"),
    "module.half()": ("m = Module(); x = m.w", "m.half()"),
    "module.to(float64)": ("m = Module(); x = m.w", "m.to(torch.float64)"),
    "module.to_empty()": ("m = Module(); x = m.w", 'm.to_empty(device="cpu")'),
    "a view, its base's storage resized": ("base = fresh(); x = base[:]", "base.untyped_storage().resize_(0)"),
    "a view, x.data = y": ("base = fresh(); x = base[:]; del base", "x.data = torch.zeros(3)"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_the_memory_stays(run_forked, name: str) -> None:
    make, change = CHANGES[name]
    run_forked(STORY.format(make=make, change=change))


def test_a_borrow_leaves_the_storage_resizable() -> None:
    """A borrow ends with the call: it marks nothing."""
    x = torch.zeros(3)
    ext.borrow(x)
    assert x.untyped_storage().resizable()
    x.resize_(10)


def test_a_copy_leaves_the_storage_resizable() -> None:
    isthmus = pytest.importorskip("isthmus")
    x = torch.zeros(3)
    assert isthmus.from_dlpack(x, copy=True).shape == (3,)
    assert x.untyped_storage().resizable()


def test_a_copy_of_what_requires_grad_is_plain_memory() -> None:
    isthmus = pytest.importorskip("isthmus")
    for x in (torch.arange(3.0, requires_grad=True), torch.arange(3.0, requires_grad=True) * 1):
        copy = isthmus.from_dlpack(x, copy=True)
        assert np.from_dlpack(copy).tolist() == [0, 1, 2]
        assert copy.data_ptr != x.data_ptr()
        assert x.untyped_storage().resizable()


def test_a_refused_import_leaves_the_storage_resizable() -> None:
    leaf = torch.zeros(3, requires_grad=True)
    with pytest.raises(ext.Error):
        ext.own(leaf, require_writable=True)
    assert leaf.untyped_storage().resizable()


def test_the_storage_ends_with_its_last_owner() -> None:
    """Whoever it is: the tensor, the handle, the storage's own object in Python."""
    import gc
    import itertools

    ended = []

    class Memory:
        def __init__(self) -> None:
            self.array = np.zeros(3, np.float32)
            self.__array_interface__ = self.array.__array_interface__

        def __del__(self) -> None:
            ended.append(True)

    gc.collect()
    gc.freeze()  # a hundred collections follow, of what is made from here on
    owners = ["tensor", "storage", "handle", "exchanged tensor"]
    for order in (order for n in (1, 2, 3) for order in itertools.permutations(owners, n)):
        tensor = torch.as_tensor(np.asarray(Memory()))
        held = {"tensor": tensor, "storage": tensor.untyped_storage(), "handle": ext.tensor_of(tensor)}
        if "exchanged tensor" in order:
            held["exchanged tensor"] = held.pop("tensor")
            tensor.data = torch.zeros(1)
        del tensor
        for name in owners:
            if name not in order:
                held.pop(name, None)
        last = [name for name in order if name != "exchanged tensor" and name in held][-1:]
        for name in order:
            gc.collect()
            assert bool(ended) is (not last or last[0] not in held), (order, name)
            held.pop(name, None)
        gc.collect()
        assert ended.pop(), order
        assert not ended


def test_the_tensor_is_not_kept_longer_than_the_handle() -> None:
    import gc
    import weakref

    x = torch.zeros(3)
    gone = weakref.ref(x)
    handle = ext.keep(x)
    del x
    gc.collect()
    assert gone() is not None, "the way back is the same object"
    ext.drop(handle)
    gc.collect()
    assert gone() is None
