"""Copy-on-write storage of torch (`torch._lazy_clone`): reading leaves it shared,
only the wish to write makes it its own.

Promised: no operation of the exchange touches the elements (law 1) and copying is a request (law 6). Memory that is
shared that way is read-only to whoever did not ask to write.
"""

from __future__ import annotations

from collections.abc import Callable

import libraries
import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
ext = pytest.importorskip("isthmus_torch_stable_ext")
if not hasattr(torch, "_lazy_clone"):
    pytest.skip("this torch has no copy-on-write storage", allow_module_level=True)


in_place = libraries.from_torch("2.14", "copy-on-write memory is read in place")


def shared() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(4.0)
    return x, torch._lazy_clone(x)


def is_shared(x: torch.Tensor) -> bool:
    return torch._C._is_cow_tensor(x) and torch._C._data_address(x) != 0


def from_dlpack(x: torch.Tensor) -> object:
    return pytest.importorskip("isthmus").from_dlpack(x)


@in_place
@pytest.mark.parametrize("call", [ext.borrow, ext.own, ext.there_and_back, from_dlpack])
def test_reading_leaves_it_shared(call: Callable) -> None:
    x, y = shared()
    call(y)
    assert is_shared(y)
    call(x)
    assert is_shared(x)


@in_place
def test_it_is_read_only() -> None:
    x, y = shared()
    told = ext.own(y)
    assert told["read_only"]
    assert told["data"] == torch._C._data_address(y)
    assert torch._C._data_address(x) == torch._C._data_address(y)


@in_place
@pytest.mark.parametrize("first", [0, 1])
def test_a_handle_outlives_every_write(first: int, run_script) -> None:
    """A write takes the memory out of the storage of the tensor that is written: the last one to leave it frees it."""
    run_script(f"""
import gc, torch, isthmus
pair = [torch.full((1 << 18,), 7.0)]
pair.append(torch._lazy_clone(pair[0]))
t = isthmus.from_dlpack(pair[{first}])
assert t.read_only
for x in (pair[{first}], pair[1 - {first}]):
    x.add_(1)
del x, pair
gc.collect()
held = [torch.full((1 << 18,), -1.0) for _ in range(8)]  # whoever asks for memory next gets what was freed
assert set(t.to("numpy").tolist()) == {{7.0}}
""")


def test_writing_makes_it_its_own() -> None:
    x, y = shared()
    ext.add_in_place(y, 1.0)
    assert not is_shared(y)
    assert y.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]


@in_place
def test_an_argument_that_is_read(run_script) -> None:
    """View<const float, 1> of the bare API: reads, so nothing is copied."""
    run_script("""
import torch, modules
calls = modules.load("calls")
x = torch.arange(4.0)
y = torch._lazy_clone(x)
assert calls.twice(y).tolist() == [0.0, 2.0, 4.0, 6.0]
assert torch._C._is_cow_tensor(y)
calls.copy_into(torch.zeros(4), y)
assert torch._C._is_cow_tensor(y)
calls.copy_into(y, torch.ones(4))
assert not torch._C._is_cow_tensor(y) and x.tolist() == [0.0, 1.0, 2.0, 3.0]
""")
