"""Producers of device memory, one for each protocol: each has a stream on which its work goes,
and follows its own rules."""

from __future__ import annotations

import ctypes as ct

import capsules
from driver import Driver

_new = ct.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ct.py_object, (ct.c_void_p, ct.c_char_p, ct.c_void_p)
_KEPT: list[object] = []
_API_NAME = b"dlpack_exchange_api"  # capsules do not copy their name


def managed(device: tuple[int, int], address: int, count: int = 4) -> int:
    """The address of a managed tensor of float32, which lives as long as the process: nothing is freed here."""
    shape = (ct.c_int64 * 1)(count)
    out = capsules.ManagedVersioned(major=1, minor=3)
    out.tensor = capsules.DLTensor(address, capsules.Device(*device), 1, capsules.DataType(2, 32, 1), shape, None, 0)
    out.tensor.shape = shape
    deleter = capsules.DELETER(lambda _: None)
    out.deleter = ct.cast(deleter, ct.c_void_p).value
    _KEPT.extend([shape, out, deleter])
    return ct.addressof(out)


class Holder:
    """Memory on a device and the stream that writes it."""

    def __init__(self, driver: Driver, stream: int, *, kind: int | None = None, device: int = 0) -> None:
        self.driver, self.stream = driver, stream
        self.device = (driver.type if kind is None else kind, device)
        self.address = driver.memory()
        self.asked: list[dict] = []


class Method(Holder):
    """`__dlpack__` by the letter of the array API standard (2024.12)."""

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, **keywords: object) -> object:
        self.asked.append(keywords)
        number = keywords.get("stream")
        legacy = self.driver.legacy
        number = legacy if number is None else number
        assert number not in ((1, 2) if self.driver.hip else (0,)), f"stream {number} is not allowed here"
        assert number >= -1
        if number not in (-1, self.stream) and self.driver.order(self.stream, number) != 0:
            raise BufferError("the driver could not order the streams")
        return capsules.wrap(managed(self.device, self.address))


class OldMethod(Method):
    """`__dlpack__` that knows no keyword but stream."""

    def __dlpack__(self, stream: int | None = None) -> object:
        return super().__dlpack__(stream=stream)


class HostMethod:
    """`__dlpack__` of the host by the letter: no stream but None is accepted."""

    device = (1, 0)

    def __init__(self) -> None:
        self.memory = (ct.c_float * 4)()
        self.asked: list[dict] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __dlpack__(self, *, stream: None = None, max_version: object = None, **_: object) -> object:
        if stream is not None:
            raise ValueError("the host has no streams")
        return capsules.wrap(managed(self.device, ct.addressof(self.memory)))


class Interface(Holder):
    """`__cuda_array_interface__`, version 3. `says` is its stream where that is another than the one it works on."""

    def __init__(self, driver: Driver, stream: int, *, says: object = ...) -> None:
        super().__init__(driver, stream)
        self.fields = {"version": 3, "stream": stream if says is ... else says}

    @property
    def __cuda_array_interface__(self) -> dict:
        return {"shape": (4,), "typestr": "<f4", "data": (self.address, False), **self.fields}


class Exchange(Method):
    """DLPack's C exchange API with a current work stream, beside the method."""

    _api = capsules.ExchangeAPI(major=1, minor=3)
    alive: dict[int, Exchange] = {}  # noqa: RUF012
    current = 0  # what current_work_stream answers, a raw handle
    fails = False

    def __init__(self, driver: Driver, stream: int, **options: object) -> None:
        super().__init__(driver, stream, **options)
        Exchange.alive[id(self)] = self
        Exchange.current = 0 if stream == driver.legacy else stream

    @staticmethod
    def _from_object(address: int, out: object) -> int:
        x = Exchange.alive[address]
        out[0] = managed(x.device, x.address)
        return 0

    @staticmethod
    def _stream(device_type: int, device: int, out: object) -> int:
        if Exchange.fails:
            return -1
        out[0] = Exchange.current or None
        return 0


_CALLS = {"from_object": Exchange._from_object, "stream": Exchange._stream}
for _name, _call in _CALLS.items():
    _type = dict(capsules.ExchangeAPI._fields_)[_name]
    setattr(Exchange._api, _name, _type(_call))
Exchange.__dlpack_c_exchange_api__ = _new(ct.addressof(Exchange._api), _API_NAME, None)
