"""The kinds of memory that a GPU's driver hands out: the device's, pinned and managed,
and where each may be exported to."""

from __future__ import annotations

import capsules
from cases import NeedsMore, case, refused
from driver import Driver
from producers import Exchange, Interface

import isthmus_test_ext as ext

CPU = (1, 0)
V1 = {"max_version": (1, 0)}


def pinned(d: Driver) -> object:
    return ext.pages([4], device=(d.pinned, 0), data=bytes(range(16)))


@case()
def pinned_memory_is_the_hosts_without_a_copy(d: Driver) -> None:
    t = pinned(d)
    for options in ({}, {"copy": None}, {"copy": False}):
        found = capsules.read(t.__dlpack__(dl_device=CPU, **options, **V1))
        assert (found.device, found.data, found.copied) == (CPU, t.data_ptr, False), found
    assert capsules.read(t.__dlpack__(dl_device=CPU)).device == CPU


@case()
def pinned_memory_is_pinned_unless_asked(d: Driver) -> None:
    t = pinned(d)
    assert t.__dlpack_device__() == (d.pinned, 0)
    for options in ({}, {"dl_device": (d.pinned, 0)}, {"dl_device": (d.pinned, 0), "copy": False}):
        found = capsules.read(t.__dlpack__(**options, **V1))
        assert (found.device, found.data) == ((d.pinned, 0), t.data_ptr), found


@case()
def a_copy_of_pinned_memory_is_not_called_pinned(d: Driver) -> None:
    t = pinned(d)
    for options in ({}, {"dl_device": CPU}):
        found = capsules.read(t.__dlpack__(copy=True, **options, **V1))
        assert (found.device, found.copied) == (CPU, True), found
        assert found.data != t.data_ptr
    text = refused("bad_device", BufferError, t.__dlpack__, copy=True, dl_device=(d.pinned, 0), **V1)
    assert "_host:0" in text, text


@case()
def pinned_memory_by_the_exchange_api(d: Driver) -> None:
    x = Exchange(d, d.stream(), kind=d.pinned)
    found = ext.borrow(x)
    assert found["device"] == ("rocm_host:0" if d.hip else "cuda_host:0")
    assert found["data"] == x.address


@case()
def pinned_memory_of_another_number(d: Driver) -> None:
    t = ext.pages([4], device=(d.pinned, 1))
    assert capsules.read(t.__dlpack__(dl_device=CPU, **V1)).device == CPU
    refused("bad_device", BufferError, t.__dlpack__, dl_device=(d.pinned, 0))


@case()
def memory_of_the_device_stays_there(d: Driver) -> None:
    for kind in {d.type, d.managed}:
        t = ext.pages([4], device=(kind, 0))
        for options in ({}, {"copy": True}, {"copy": False}):
            refused("bad_device", BufferError, t.__dlpack__, dl_device=CPU, **options)
        refused("bad_device", BufferError, t.__dlpack__, dl_device=(d.type, 7))


@case("cuda", "gpu")
def the_interface_names_the_device_of_the_memory(d: Driver) -> None:
    if d.devices < 2:
        raise NeedsMore("needs two GPUs")
    d.set_device(1)
    x = Interface(d, d.stream())
    d.set_device(0)
    for take in (ext.borrow, ext.own):
        assert take(x)["device"] == "cuda:1"


@case("cuda", "gpu")
def managed_and_pinned_memory_by_the_interface(d: Driver) -> None:
    for kind in ("allocate_managed", "allocate_pinned"):
        x = Interface(d, d.stream())
        x.address = d.memory(kind=kind)
        found = ext.borrow(x)
        assert (found["data"], found["device"]) == (x.address, "cuda:0"), found
