"""Tensors over memory that other processes map: handed over by a message of a hundred bytes, regardless of size.

>>> t = isthmus.shared.empty((480, 640, 3), "uint8")  # or share(x): a copy of x
>>> isthmus.shared.send(sock, t, "read_only")          # sock: a Unix socket, SEQPACKET or STREAM
>>> t = isthmus.shared.receive(sock)                   # in the other process: the same pages

The memory has no name, so that nothing is left behind, however a process ends. See docs/shared.md.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex

from . import _isthmus, _trees
from ._isthmus import Error, Tensor

__all__ = ["Access", "Channel", "Pool", "PoolStats", "empty", "is_shared", "receive", "send", "share", "trim"]

#: The most that a receiver may do with the memory; each one includes those before it.
Access = Literal["read_only", "copy_on_write", "shared"]

_NO_LIMIT = 2**63 - 1
_IDLE_LIMIT = 2**30


class PoolStats(NamedTuple):
    """The present content of a pool."""

    #: Segments, of one file descriptor each.
    segments: int
    #: Bytes of all segments.
    reserved: int
    #: Bytes that can be handed out at once.
    free: int
    #: Slots that only other processes still use, as far as has been looked.
    lent: int


def empty(
    shape: SupportsIndex | Sequence[SupportsIndex], dtype: object = "float32", *, access: Access = "read_only"
) -> Tensor:
    """A new writable Tensor in shared memory: row-major, at the beginning of a page, not initialised.

    access: its intended use; memory that is sent as "shared" but was not made for it moves once, with a copy.

    The memory is recycled when the last view of it in any process is gone. Raises isthmus.Error; one that is also a
    MemoryError if there is not enough memory, since all of it is reserved at once.
    """
    return _isthmus._shared_empty(shape, dtype, access, None, 0)


def share(x: object, *, access: Access = "read_only") -> Tensor:
    """A Tensor in shared memory with the elements of `x`: a copy, or `x`'s own memory if that is shared already.

    x: whatever isthmus.from_dlpack takes, in host memory. Strides are kept if `x` is dense, in any order of dimensions
    and direction; anything else becomes row-major.
    """
    return _isthmus._shared_share(x, access, None, 0)


def is_shared(x: object) -> bool:
    """Whether the memory of `x`, an array of any framework, can be sent without a copy."""
    return _isthmus._shared_is_shared(x)


def send(sock: socket.socket, tensor: object, access: Access = "read_only") -> None:
    """Hand `tensor` to the process at the other end of `sock`, in constant time.

    sock: a connected Unix socket, SEQPACKET or STREAM. Its timeout holds; nobody needs to be receiving for a message to
        fit.
    tensor: an array of any framework whose memory is shared: made by `empty` or `share`, or received. A view of a part
        of it, with any strides, is as good. Other memory is refused, with the call that copies it.
    access: the most that the receiver may take: "read_only"; "copy_on_write", whose writes stay private; "shared".

    The receiver's views keep the memory: the tensor may be dropped here at once. Raises isthmus.Error, which is also a
    BrokenPipeError when nobody is at the other end any more; TimeoutError or BlockingIOError as sockets do.
    """
    _isthmus._shared_send(sock.fileno(), tensor, access, sock.gettimeout(), 0)


def receive(sock: socket.socket, access: Access | None = None) -> Tensor:
    """The next tensor from `sock`: the sender's own pages.

    access: None takes what the sender allows; "read_only" or "copy_on_write" takes less.

    Everything that comes is checked before it is used. Raises isthmus.Error for a message or memory that is not what it
    says it is, and the next one can be received; EOFError when the sender is gone; TimeoutError or BlockingIOError as
    sockets do.
    """
    return _isthmus._shared_receive(sock.fileno(), access, sock.gettimeout())


def trim() -> None:
    """Release memory that `empty` and `share` keep for later to the system."""
    _isthmus._shared_trim(None)


class Pool:
    """Shared memory with a limit, recycled: a slot is reused after the last view of it in any process is gone.

    limit: bytes that it may reserve; None for no limit. If it is reached, `empty` and `share` wait until memory is
        released.
    idle_limit: bytes of unused memory that it keeps, since filling fresh memory is some ten times slower.

    The receiver of one tensor of a pool can read the whole pool: keep one for each group of processes. Tensors keep
    their memory, not the pool.
    """

    def __init__(self, limit: int | None = None, *, idle_limit: int | None = None) -> None:
        self._pool = _isthmus._shared_pool(
            _NO_LIMIT if limit is None else limit, (limit or _IDLE_LIMIT) if idle_limit is None else idle_limit
        )

    def empty(
        self,
        shape: SupportsIndex | Sequence[SupportsIndex],
        dtype: object = "float32",
        *,
        access: Access = "read_only",
        timeout: float | None = 0,
    ) -> Tensor:
        """As isthmus.shared.empty. timeout: seconds to wait for memory that others still use; None for as long as it
        takes.

        Raises TimeoutError after that time, and an isthmus.Error that is a MemoryError without one.
        """
        return _isthmus._shared_empty(shape, dtype, access, self._pool, timeout)

    def share(self, x: object, *, access: Access = "read_only", timeout: float | None = 0) -> Tensor:
        """As isthmus.shared.share, with the timeout of `empty`."""
        return _isthmus._shared_share(x, access, self._pool, timeout)

    @property
    def stats(self) -> PoolStats:
        """The present content of the pool."""
        return PoolStats(*_isthmus._shared_stats(self._pool))

    def trim(self) -> None:
        """Release unused memory to the system."""
        _isthmus._shared_trim(self._pool)


def _lock() -> threading.Lock:
    try:
        return threading.Lock()
    except RuntimeError as error:  # CPython's word for a lack of memory here
        raise MemoryError(str(error)) from None


class Channel:
    """One end of a connection that carries tensors and trees of them, with a pool.

    sock: a connected Unix socket, which is the channel's from now on. `Channel.pair()` makes both ends.
    access: the most that the other end may do with what is sent from this one.
    limit: bytes that the other end may keep before `send` and `empty` wait for it; None for no limit.

    A channel is a context manager, an iterator over what arrives until the other end is closed, and may be given to a
    process of multiprocessing, forked or spawned. Use each end in one process.
    """

    def __init__(self, sock: socket.socket, access: Access = "read_only", *, limit: int | None = None) -> None:
        self._sock, self._access, self._limit = sock, access, limit
        self._own_pool: Pool | None = None
        #: Tensors that came for a tree whose own message has not.
        self._parts: list[Tensor] = []
        #: The messages of a tree follow each other: one at a time sends, and one receives, among threads and, of those
        #: who wait in an event loop, among tasks.
        self._locks = {"reader": _lock(), "writer": _lock()}
        self._turns: dict[str, tuple[Any, Any]] = {}

    @classmethod
    def pair(cls, access: Access = "read_only", *, limit: int | None = None) -> tuple[Channel, Channel]:
        """Two connected ends."""
        ends = socket.socketpair(socket.AF_UNIX, getattr(socket, "SOCK_SEQPACKET", socket.SOCK_STREAM))
        return cls(ends[0], access, limit=limit), cls(ends[1], access, limit=limit)

    @property
    def _pool(self) -> Pool:
        if self._own_pool is None:
            self._own_pool = Pool(self._limit)
        return self._own_pool

    def empty(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: object = "float32") -> Tensor:
        """A Tensor to fill and to send: as isthmus.shared.empty, from the channel's own pool."""
        return self._pool.empty(shape, dtype, access=self._access, timeout=self._sock.gettimeout())

    def send(self, x: object) -> None:
        """Send an array of any framework, or a tree: dicts, lists, tuples, named tuples and data classes of arrays and
        of plain values (None, bools, numbers, strings, bytes).

        A tensor whose memory is shared is sent itself, all others of a tree as one copy in one piece of memory. Raises
        isthmus.Error for what is neither an array nor one of these, and says where in the tree it is.
        """
        timeout = self._sock.gettimeout()
        messages = self._messages(x, timeout)
        with self._alone("writer", timeout):
            for tensor, kind in messages:
                self._send(tensor, kind, timeout)

    @contextlib.contextmanager
    def _alone(self, which: str, timeout: float | None) -> Iterator[None]:
        """No other thread uses this direction of the socket in the block. Waits for it as sockets wait."""
        if not self._locks[which].acquire(timeout != 0, timeout if timeout else -1):
            words = "another thread has not ended its message"
            raise TimeoutError(f"{words} within {timeout} s") if timeout else BlockingIOError(words)
        try:
            yield
        finally:
            self._locks[which].release()

    def _messages(self, x: object, timeout: float | None) -> list[tuple[Tensor, int]]:
        """What is sent for `x`, in order, each with its kind."""
        if not _trees.is_tree(x):
            return [(self._share(x, timeout), _trees.TENSOR)]
        plan = _trees.Plan(x)
        flat = plan.pack(lambda nbytes: self._pool.empty((nbytes,), "uint8", access=self._access, timeout=timeout))
        return [*((part, _trees.PART) for part in plan.parts), (flat, _trees.TREE)]

    def _share(self, x: object, timeout: float | None) -> Tensor:
        try:
            return self._pool.share(x, access=self._access, timeout=timeout)
        except Error as error:
            if error.code != "not_a_tensor":
                raise
            raise _trees.refused(error, x) from None

    def _send(self, tensor: Tensor, kind: int, timeout: float | None) -> None:
        _isthmus._shared_send(self._sock.fileno(), tensor, self._access, timeout, kind)

    def receive(self, access: Access | None = None) -> Any:
        """The next tensor, as isthmus.shared.receive; of a tree the same containers and values, with a Tensor for each
        array.

        Named tuples and data classes have to be imported here already: a message imports nothing, and calls no
        constructor. Raises EOFError when the other end is closed.
        """
        timeout = self._sock.gettimeout()
        with self._alone("reader", timeout):
            return self._receive(access, timeout)

    def _receive(self, access: Access | None, timeout: float | None) -> Any:
        while True:
            tensor, kind = _isthmus._shared_receive_any(self._sock.fileno(), access, timeout)
            if kind == _trees.PART:
                self._parts = _trees.with_part(self._parts, tensor)
                continue
            parts, self._parts = self._parts, []  # some may be of a tree whose sender gave up
            return tensor if kind == _trees.TENSOR else _trees.unpack(tensor, parts)

    def poll(self, timeout: float | None = 0) -> bool:
        """Whether something has come within `timeout` seconds (None: as long as it takes), or the other end is closed.

        With many channels, give them to select() or selectors.
        """
        wait = select.poll()
        wait.register(self._sock, select.POLLIN)
        return bool(wait.poll(None if timeout is None else timeout * 1000))

    async def asend(self, x: object) -> None:
        """As `send`, in a program of asyncio: others run while it waits for the reader or for memory. Its timeouts are
        those of asyncio."""
        import asyncio

        pause = 0.0005
        while True:
            try:
                messages = self._messages(x, 0.001)
                break
            except TimeoutError:  # nobody is told when a receiver lets go of memory
                await asyncio.sleep(pause)
                pause = min(2 * pause, 0.02)
        async with self._turn("writer"):
            for tensor, kind in messages:
                await self._when_ready("writer", self._send, tensor, kind, 0)

    async def areceive(self, access: Access | None = None) -> Any:
        """As `receive`, in a program of asyncio."""
        async with self._turn("reader"):
            return await self._when_ready("reader", self._receive, access, 0)

    @contextlib.asynccontextmanager
    async def _turn(self, which: str) -> AsyncIterator[None]:
        """No other task and no other thread uses this direction of the socket in the block."""
        import asyncio

        loop = asyncio.get_running_loop()
        known = self._turns.get(which)
        if known is None or known[0] is not loop:
            known = self._turns[which] = loop, asyncio.Lock()
        async with known[1]:
            while True:
                with contextlib.ExitStack() as stack:
                    try:
                        stack.enter_context(self._alone(which, 0))
                    except BlockingIOError:  # a thread; nobody is told when it has done
                        await asyncio.sleep(0.001)
                        continue
                    yield
                    return

    async def _when_ready(self, which: str, act: Callable[..., Any], *arguments: object) -> Any:
        """What `act` returns as soon as the socket does not make it wait. One at a time for each direction: a loop has
        one callback for each descriptor."""
        import asyncio

        loop = asyncio.get_running_loop()
        while True:
            with contextlib.suppress(BlockingIOError):
                return act(*arguments)
            ready = asyncio.Event()
            getattr(loop, f"add_{which}")(self._sock, ready.set)
            try:
                await ready.wait()
            finally:
                getattr(loop, f"remove_{which}")(self._sock)

    def settimeout(self, seconds: float | None) -> None:
        """How long `send`, `receive` and `empty` wait, as sockets have it: None for as long as it takes."""
        self._sock.settimeout(seconds)

    def fileno(self) -> int:
        """The socket's descriptor, for select() and similar calls."""
        return self._sock.fileno()

    def close(self) -> None:
        """Close this end; tensors that were received or sent stay."""
        self._sock.close()

    def __iter__(self) -> Iterator[Any]:
        while True:
            try:
                x = self.receive()
            except EOFError:
                return
            yield x
            del x  # the slot may be filled again while the next one is waited for

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            try:
                x = await self.areceive()
            except EOFError:
                return
            yield x
            del x

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing import context
        from multiprocessing.reduction import DupFd

        context.assert_spawning(self)
        kept = self._sock.type, self._sock.gettimeout(), self._access, self._limit
        return _channel_of, (DupFd(self.fileno()), *kept)


def _channel_of(descriptor: Any, kind: int, timeout: float | None, access: Access, limit: int | None) -> Channel:
    sock = socket.socket(socket.AF_UNIX, kind, 0, fileno=descriptor.detach())
    sock.settimeout(timeout)
    return Channel(sock, access, limit=limit)
