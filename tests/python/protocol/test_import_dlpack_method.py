"""`__dlpack__` of producers that do it right, with every option that is passed on."""

from __future__ import annotations

import sys
import weakref

import capsules
import numpy as np
import pytest

import isthmus_test_ext as ext


class Producer:
    """Hands on the capsules of a NumPy array, and notes what it was asked."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.asked: list[dict] = []

    def __dlpack__(self, **keywords):
        self.asked.append(keywords)
        keywords.pop("stream", None)
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_values(elements) -> None:
    a = np.arange(24, dtype=np.float32).reshape(4, 6)
    for b in (a, a.T, a[::2, 1:], a[::-1], a[:0], a[0, 0, ...]):
        assert elements(Producer(b)) == b.tobytes()


def test_read_only(take, refused) -> None:
    a = np.zeros(3, np.float32)
    assert not take(Producer(a))["read_only"]
    a.flags.writeable = False
    x = Producer(a)
    assert take(x)["read_only"]
    refused("read_only", BufferError, take, x, require_writable=True)


def test_read_only_is_not_lost_by_an_older_version(take) -> None:
    """A legacy capsule has no flag: NumPy refuses to make one of read-only memory, and so do we."""
    a = np.zeros(3, np.float32)
    a.flags.writeable = False
    with pytest.raises(ext.Error):
        take(Producer(a), max_version=(0, 0))


def test_asked_once(take) -> None:
    x = Producer(np.zeros(3))
    take(x)
    assert x.asked == [{"max_version": (1, 3), "copy": False}]


def test_stream_is_passed_on(take) -> None:
    x = Producer(np.zeros(3))
    take(x, stream=-1)
    assert x.asked == [{"max_version": (1, 3)}] or x.asked[0].get("max_version") == (1, 3)


def test_max_version_is_passed_on(take) -> None:
    x = Producer(np.zeros(3))
    take(x, max_version=(1, 0))
    take(x, max_version=(0, 0))
    assert [a.get("max_version") for a in x.asked] == [(1, 0), None, None], "a legacy capsule is asked for twice"


def test_copy_is_ours_on_the_host(take) -> None:
    a = np.arange(6, dtype=np.float32)
    found = take(Producer(a), copy="always")
    assert found["data"] != a.ctypes.data
    assert found["copied"]
    assert ext.own_elements(Producer(a[::2]), copy="always") == a[::2].tobytes()


def test_device_is_asked_of_the_producer(take) -> None:
    x = Producer(np.zeros(3))
    with pytest.raises(ext.Error):
        take(x, device=(2, 0))
    assert x.asked[-1]["dl_device"] == (2, 0)


def test_memory_that_the_producer_moves_is_shared(take) -> None:
    """It is of the producer's making, and no second copy."""

    class Elsewhere(Producer):
        def __dlpack__(self, **keywords):
            capsule = super().__dlpack__(**keywords)
            return capsule if "dl_device" in keywords else capsules.on_device(capsule, (2, 0))

    a = np.arange(6, dtype=np.float32)
    x = Elsewhere(a)
    assert take(x, device=(1, 0))["data"] == a.ctypes.data
    assert x.asked[-1]["dl_device"] == (1, 0)


def test_an_older_producer_cannot_move_the_data(take, refused) -> None:
    class Older(Producer):
        def __dlpack__(self, stream=None):
            return super().__dlpack__()

    x = Older(np.zeros(3))
    error = refused("needs_copy", BufferError, take, x, device=(2, 0))
    assert "Older.__dlpack__() knows neither dl_device nor copy, so it cannot move or copy the data" in str(error)
    assert x.asked == [{}, {}], "where the data is, and whether it is its own"


def test_what_cannot_be_moved_is_asked_once(take, refused) -> None:
    class Stays(Producer):
        def __dlpack__(self, **keywords):
            if "dl_device" not in keywords:
                return super().__dlpack__(**keywords)
            self.asked.append(keywords)
            raise BufferError("it stays here")

    x = Stays(np.zeros(3))
    error = refused("producer_failed", BufferError, take, x, device=(2, 0))
    assert "it stays here" in str(error)
    assert ["dl_device" in asked for asked in x.asked] == [False, True]


def test_a_failure_of_the_second_call_is_the_last_one(take, refused) -> None:
    asked = []

    class Fails:
        def __dlpack__(self, **keywords):
            asked.append(keywords)
            if "copy" in keywords:
                raise TypeError("__dlpack__() got an unexpected keyword argument 'copy'")
            raise OSError("the disk is gone")

    refused("producer_failed", BufferError, take, Fails())
    assert len(asked) == 2


def test_the_host_has_no_stream(take) -> None:
    a = np.zeros(3)
    assert take(Producer(a), stream=5)["stream"] == take(Producer(a))["stream"]


def test_nothing_is_asked_in_no_version(take, refused) -> None:
    a = np.arange(3.0)

    class Older:
        def __dlpack__(self):
            return a.__dlpack__()

    assert take(Older(), max_version=(0, 0), copy="if_needed")["data"] == a.ctypes.data

    class Fails:
        def __dlpack__(self):
            raise TypeError("__dlpack__() takes no keyword arguments")

    error = refused("producer_failed", BufferError, take, Fails(), max_version=(0, 0), copy="if_needed")
    assert "takes no keyword arguments" in str(error)


def test_a_failure_without_an_exception_is_told(take, refused) -> None:
    error = refused("producer_failed", BufferError, take, ext.Silent())
    assert str(error).endswith("isthmus_test_ext.Silent.__dlpack__() failed without setting an exception")


def test_errors_keep_their_cause(take, refused) -> None:
    class Fails:
        def __dlpack__(self, **_):
            raise OSError("the disk is gone")

    error = refused("producer_failed", BufferError, take, Fails())
    assert isinstance(error.__cause__, OSError)
    assert error.__cause__.__traceback__ is not None
    assert "OSError: the disk is gone" in str(error)
    assert "Fails.__dlpack__()" in str(error)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_interrupts_pass(take, kind: type[BaseException]) -> None:
    thrown = kind()

    class Interrupted:
        def __dlpack__(self, **_):
            raise thrown

    with pytest.raises(kind) as info:
        take(Interrupted())
    assert info.value is thrown


def test_a_wrapper_of_an_older_producer_is_asked_again(take) -> None:
    """Its error comes from below it, and names the keyword all the same."""
    a = np.zeros(3)

    class Wrapper:
        def __dlpack__(self, **keywords):
            return (lambda stream=None: a.__dlpack__())(**keywords)

    assert take(Wrapper())["data"] == a.ctypes.data


@pytest.mark.parametrize(
    "raised",
    [
        TypeError("f() takes no arguments (1 given)"),
        TypeError("f() takes 0 positional arguments but 1 was given"),
        ValueError("a bad value of the keyword max_version"),
    ],
    ids=str,
)
def test_a_mistake_of_the_producer_is_told_as_it_is(take, refused, raised: Exception) -> None:
    asked = []

    class Broken:
        def __dlpack__(self, **keywords):
            asked.append(keywords)
            raise raised

    assert str(raised) in str(refused("producer_failed", BufferError, take, Broken()))
    assert len(asked) == 1


def test_an_interrupt_while_the_device_is_asked_passes(take) -> None:
    class Interrupted:
        def __dlpack_device__(self):
            raise KeyboardInterrupt

        def __dlpack__(self, **_):
            return np.zeros(3).__dlpack__()

    with pytest.raises(KeyboardInterrupt):
        take(Interrupted(), stream=1)


def test_references_are_exact() -> None:
    a = np.zeros(3)
    x = Producer(a)
    before = sys.getrefcount(x), sys.getrefcount(a)
    for _ in range(50):
        ext.borrow(x)
        ext.own(x)
        x.asked.clear()
    number = ext.keep(x)
    assert sys.getrefcount(a) == before[1] + 1
    ext.drop_on_thread(number, False)
    assert (sys.getrefcount(x), sys.getrefcount(a)) == before


def test_the_memory_lives_as_long_as_the_handle() -> None:
    a = np.arange(1000)
    wanted, gone = a.tobytes(), weakref.ref(a)
    number = ext.keep(Producer(a))
    del a
    assert ext.kept_elements(number) == wanted
    ext.drop_without_gil(number)
    assert gone() is None


def test_failures_leak_nothing() -> None:
    class Fails:
        def __dlpack__(self, **_):
            raise ValueError(self)

    x = Fails()
    before = sys.getrefcount(x)
    for _ in range(50):
        for call in (ext.borrow, ext.own):
            with pytest.raises(ext.Error):
                call(x)
    assert sys.getrefcount(x) == before
