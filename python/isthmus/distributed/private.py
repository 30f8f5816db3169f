"""Another process's shared pages, mapped a second time and privately: a write stays in this process."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import struct
import sys
from collections.abc import Iterator
from typing import NamedTuple

from .._isthmus import Tensor
from ..blob import from_blob

# Below this a copy is cheaper than a mapping with its page faults.
SMALLEST = 1 << 16

_MAP_PRIVATE, _MAP_NORESERVE = 2, 0x4000
_MAP_FAILED = ctypes.c_void_p(-1).value


def _c_library() -> ctypes.CDLL | None:
    if sys.platform != "linux":
        return None
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library


if sys.platform != "win32":
    import fcntl

_libc = _c_library()


class _Pages:
    """Owns a private mapping, and what keeps the engine from using its pages again."""

    __slots__ = ("__weakref__", "_address", "_keep", "_size", "_unmap")

    def __init__(self, address: int, size: int, keep: Tensor) -> None:
        assert _libc is not None
        self._address, self._size, self._keep, self._unmap = address, size, keep, _libc.munmap

    def __del__(self) -> None:
        self._unmap(self._address, self._size)


class _Region(NamedTuple):
    """A line of /proc/self/maps (proc_pid_maps(5)) that is a shared mapping of a file."""

    start: int
    end: int
    #: Of `start` in the file.
    offset: int
    device: int
    inode: int


# struct procmap_query and its ioctl (linux/fs.h, 6.11): size, flags, address; then start, end, flags, page size, offset
# and inode of the mapping; major and minor of its device; what is not asked for.
_QUERY = struct.Struct("9Q4I2Q")
_PROCMAP_QUERY = 3 << 30 | _QUERY.size << 16 | ord("f") << 8 | 17
_VMA_SHARED = 8


def _query(maps: int, first: int, last: int) -> _Region | None:
    """As _region_of, by the kernel's own search. Raises OSError if the kernel has no such call, or nothing is
    mapped."""
    question = bytearray(_QUERY.pack(_QUERY.size, 0, first, *[0] * 12))
    fcntl.ioctl(maps, _PROCMAP_QUERY, question)
    _, _, _, start, end, what, _, offset, inode, major, minor, *_ = _QUERY.unpack(question)
    if last >= end or not what & _VMA_SHARED or inode == 0:
        return None
    return _Region(start, end, offset, os.makedev(major, minor), inode)


def _region_of(first: int, last: int) -> _Region | None:
    """The shared mapping that holds both addresses. Asked again each time: addresses are reused for other files."""
    with open("/proc/self/maps") as lines:
        with contextlib.suppress(OSError):
            return _query(lines.fileno(), first, last)
        for line in lines:
            start, _, rest = line.partition("-")
            low = int(start, 16)
            if low > first:
                return None
            end, access, offset, device, inode = rest.split(None, 5)[:5]
            high = int(end, 16)
            if first >= high:
                continue
            if last >= high or access[3] != "s" or inode == "0":
                return None
            major, minor = (int(part, 16) for part in device.split(":"))
            return _Region(low, high, int(offset, 16), os.makedev(major, minor), int(inode))
    return None


# Where a file's descriptor was found last. Only the first path to try: what it opens is compared with the file.
_seen: dict[tuple[int, int], str] = {}


def _descriptors(pid: str) -> Iterator[str]:
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return
    for number in numbers:
        yield f"/proc/{pid}/fd/{number}"


def _is_file(path: str | int, region: _Region) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == (region.device, region.inode)


def _candidates(region: _Region) -> Iterator[str]:
    """Paths that may open the file, the likeliest first. Who made the memory still has its descriptor, here or, as with
    Ray's store, in another process of this user; the file itself has no name any more."""
    seen = _seen.get((region.device, region.inode))
    if seen is not None:
        yield seen
    yield f"/proc/self/map_files/{region.start:x}-{region.end:x}"
    yield from _descriptors("self")
    others = [str(os.getppid()), *sorted(filter(str.isdigit, os.listdir("/proc")), key=int)]
    for pid in others:
        yield from _descriptors(pid)


def _open(region: _Region) -> int | None:
    for path in _candidates(region):
        if not _is_file(path, region):
            continue
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        if _is_file(descriptor, region):
            if len(_seen) > 64:
                _seen.clear()
            _seen[region.device, region.inode] = path
            return descriptor
        os.close(descriptor)
    return None


def private_view(tensor: Tensor) -> Tensor | None:
    """The bytes of `tensor`, a flat uint8 one, as writable memory whose pages are copied when they are first written.

    None if that is not possible: memory that is not a shared mapping of a file, or whose file cannot be opened again.
    The view keeps `tensor`. Reads as much of the memory as `tensor` may.
    """
    size = tensor.nbytes
    if _libc is None or size < SMALLEST:
        return None
    try:
        region = _region_of(tensor.data_ptr, tensor.data_ptr + size - 1)
        descriptor = None if region is None else _open(region)
    except OSError:  # no /proc
        return None
    if region is None or descriptor is None:
        return None
    try:
        start = tensor.data_ptr // mmap.PAGESIZE * mmap.PAGESIZE
        length = tensor.data_ptr + size - start
        address = _libc.mmap(
            None,
            length,
            mmap.PROT_READ | mmap.PROT_WRITE,
            _MAP_PRIVATE | _MAP_NORESERVE,
            descriptor,
            region.offset + start - region.start,
        )
    finally:
        os.close(descriptor)
    if address in (None, _MAP_FAILED):
        return None
    pages = _Pages(address, length, tensor)
    fields = {"ptr": address + tensor.data_ptr - start, "shape": (size,), "dtype": "uint8", "device": "cpu"}
    return from_blob(fields, owner=pages)
