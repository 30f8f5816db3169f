"""The argument list of a function over the bare CPython API, read into typed views."""

from __future__ import annotations

import sys

import interrupts
import modules
import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

import isthmus_test_ext as ext


def points(n, d=3):
    return np.arange(n * d, dtype=np.float32).reshape(n, d)


def test_positions_keywords_and_what_may_be_left_out():
    a, b = points(2), points(4)
    wanted = ((a[:, None] - b[None]) ** 2).sum(-1)
    assert np.array_equal(ext.distances(a, b), wanted)
    assert np.array_equal(ext.distances(a, b=b), wanted)
    assert np.array_equal(ext.distances(b=b, a=a), wanted)
    assert np.array_equal(ext.distances(a, b, None), wanted)
    assert np.array_equal(ext.distances(a, b, scale=2), 2 * wanted)


def test_the_answer_is_in_the_framework_of_the_argument():
    torch = pytest.importorskip("torch")
    assert isinstance(ext.distances(points(2), points(2)), np.ndarray)
    assert isinstance(ext.distances(torch.ones(2, 3), points(2)), torch.Tensor)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: ext.distances(), "distances() missing required argument 'a'"),
        (lambda: ext.distances(points(2)), "distances() missing required argument 'b'"),
        (lambda: ext.distances(points(2), a=points(2)), "distances() got multiple values for argument 'a'"),
        (lambda: ext.distances(points(2), c=points(2)), "distances() got an unexpected keyword argument 'c'"),
        (lambda: ext.distances(1, 2, 3, 4), "distances() takes 3 positional arguments but 4 were given"),
        (lambda: ext.image_height(1, 2), "blur() takes 1 positional argument but 2 were given"),
        (lambda: ext.distances(points(2), points(2), "x"), "distances(): argument 'scale': expected a number, got str"),
    ],
)
def test_a_wrong_call_is_said_as_python_says_it(call, text):
    with pytest.raises(TypeError) as raised:
        call()
    assert str(raised.value) == text


def test_a_mismatch_is_one_sentence():
    with pytest.raises(ValueError) as raised:
        ext.image_height(np.zeros((480, 640, 3), np.float32))
    assert str(raised.value) == (
        "blur(): argument 'image': expected uint8[h, w, 3] C-contiguous on cpu, got float32[480, 640, 3] on cpu: "
        "dtype differs"
    )
    assert raised.value.code == "bad_dtype"
    with pytest.raises(ValueError, match=r"are not C-contiguous$"):
        ext.image_height(np.zeros((3, 4, 5), np.uint8).T[..., :3])


def test_named_sizes_agree_between_the_arguments():
    with pytest.raises(ValueError) as raised:
        ext.distances(points(2, 3), points(2, 4))
    assert str(raised.value) == (
        "distances(): argument 'b': expected float32[m, d] on cpu, got float32[2, 4] on cpu: d is 4 here and 3 in "
        "argument 'a'"
    )


def test_a_result_is_made_where_the_tensor_lives_and_returned_as_the_module_says():
    torch = pytest.importorskip("torch")
    calls = modules.load("calls")
    x = np.arange(3, dtype=np.float32)
    made = calls.doubled(2, torch.from_numpy(x))
    assert type(made).__module__ == "isthmus"
    assert isinstance(made.owner, torch.Tensor), "torch's allocator made it"
    try:
        calls.set_results("reply")
        result = calls.doubled(2, torch.from_numpy(x))
        assert type(result) is torch.Tensor
        assert result.tolist() == [0, 2, 4]
        assert isinstance(calls.doubled(2, x), np.ndarray)
        calls.set_results("numpy")
        assert isinstance(calls.doubled(2, torch.from_numpy(x)), np.ndarray)
    finally:
        calls.set_results("tensor")


def test_what_is_no_tensor_is_named():
    with pytest.raises(TypeError, match=r"^distances\(\): argument 'b': expected a tensor .* got str$"):
        ext.distances(points(2), "text")


def test_a_producers_own_exception_is_the_cause():
    class Broken:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **_):
            raise LookupError("mine")

    with pytest.raises(BufferError, match=r"^distances\(\): argument 'a': .*mine") as raised:
        ext.distances(Broken(), points(2))
    assert isinstance(raised.value.__cause__, LookupError)


def test_every_kind_of_argument():
    x = points(2)
    o = object()
    given = (1.5, 7, True, "größe", o, x, x)
    assert ext.kinds(*given) == (1.5, 7, True, "größe", o, 6, 6, -1, False)
    assert ext.kinds(*given, x[0], x) == (1.5, 7, True, "größe", o, 6, 6, 3, True)
    assert ext.kinds(2, np.int64(7), *given[2:])[:2] == (2.0, 7)


@pytest.mark.parametrize(
    ("at", "value", "error", "text"),
    [
        (0, "x", TypeError, "argument 'number': expected a number, got str"),
        (1, 1.5, TypeError, "argument 'integer': expected an integer, got float"),
        (1, 2**70, OverflowError, "argument 'integer': 1180591620717411303424 does not fit 64 bits"),
        (2, 1, TypeError, "argument 'flag': expected True or False, got int"),
        (3, b"x", TypeError, "argument 'text': expected a string, got bytes"),
        (3, "\ud800", TypeError, "argument 'text': expected a string, got str"),
        (5, 3, TypeError, "argument 'borrowed': expected a tensor"),
        (6, None, TypeError, "argument 'tensor': expected a tensor"),
    ],
)
def test_every_kind_of_mistake(at, value, error, text):
    given = [1.5, 7, True, "x", None, points(2), points(2)]
    given[at] = value
    with pytest.raises(error) as raised:
        ext.kinds(*given)
    assert str(raised.value).startswith("kinds(): " + text)


class Number:
    """A number whose own conversions raise."""

    def __init__(self, exception):
        self.exception = exception

    def __index__(self):
        raise self.exception

    def __float__(self):
        raise self.exception


def with_scalar(at, value):
    given = [1.5, 7, True, "x", None, points(2), points(2)]
    given[at] = value
    return given


@pytest.mark.parametrize(("at", "name"), [(0, "number"), (1, "integer")])
def test_what_a_conversion_raises_is_the_cause(at, name):
    mine = ValueError("mine")
    with pytest.raises(TypeError, match=rf"^kinds\(\): argument '{name}': expected .*, got Number$") as raised:
        ext.kinds(*with_scalar(at, Number(mine)))
    assert raised.value.__cause__ is mine
    with pytest.raises(TypeError) as raised:
        ext.kinds(*with_scalar(at, "text"))
    assert raised.value.__cause__ is None, "Python's own refusal says nothing more"


@pytest.mark.parametrize("kind", interrupts.KINDS)
@pytest.mark.parametrize("at", [0, 1])
def test_what_no_function_may_swallow_passes_through(at, kind):
    mine = kind("mine")
    with pytest.raises(kind) as raised:
        ext.kinds(*with_scalar(at, Number(mine)))
    assert raised.value is mine


@pytest.mark.parametrize("power", [400, 5000])
@pytest.mark.parametrize(
    ("at", "text"), [(0, "argument 'number': .* does not fit a double"), (1, "argument 'integer': .* 64 bits")]
)
def test_a_number_of_many_digits_is_too_large(at, text, power):
    """Python itself refuses to write out an integer of more than 4,300 digits."""
    bits = (10**power).bit_length()
    for number in (10**power, -(10**power)):
        with pytest.raises(OverflowError, match=text) as raised:
            ext.kinds(*with_scalar(at, number))
        assert f"an integer of {bits} bits is too large" in str(raised.value)


def test_a_number_that_says_itself_that_it_is_too_large():
    mine = OverflowError("mine")
    with pytest.raises(
        OverflowError, match="argument 'number': this Number is too large: it does not fit a double"
    ) as raised:
        ext.kinds(*with_scalar(0, Number(mine)))
    assert raised.value.__cause__ is mine


def test_nothing_is_kept_after_the_call():
    x = points(2)
    count = sys.getrefcount(x)
    for _ in range(20):
        ext.distances(x, x)
        with pytest.raises(ValueError):
            ext.distances(x, points(2, 4))
    assert sys.getrefcount(x) == count


class TestStructs:
    X, Y = np.array([1, 2, 3], np.float32), np.array([2, 3, 4], np.float32)

    def test_fields_and_their_form(self):
        sums = np.zeros(4, np.float32)
        made = ext.weigh({"x": self.X, "sums": sums}, self.Y)
        assert (list(made), made["x"].tolist(), sums.tolist()) == (["x"], [2, 6, 12], [0, 2, 8, 20])
        assert ext.weigh({"x": self.X}, self.Y)["x"].tolist() == [2, 6, 12]
        assert ext.weigh({"x": self.X, "sums": None}, self.Y)["x"].tolist() == [2, 6, 12]

    def test_sizes_agree_with_the_other_arguments(self):
        with pytest.raises(
            ValueError, match=r"weigh\(\): argument 'y': .*: n is 2 here and 3 in argument 'weights\.x'"
        ):
            ext.weigh({"x": self.X}, self.Y[:2])
        with pytest.raises(
            ValueError, match=r"weigh\(\): argument 'weights\.sums': .* n is 2 here and 3 in argument 'weights\.x'"
        ):
            ext.weigh({"x": self.X, "sums": self.Y.copy()}, self.Y)

    def test_a_refused_call_leaves_capsules_whole(self):
        capsule = self.X.__dlpack__()
        with pytest.raises(ValueError, match="argument 'y'"):
            ext.weigh({"x": capsule}, self.Y[:2])
        assert np.asarray(ext.weigh({"x": capsule}, self.Y)["x"]).tolist() == [2, 6, 12]
        with pytest.raises(ValueError, match=r"argument 'weights\.x': the capsule is 'used_dltensor'"):
            ext.weigh({"x": capsule}, self.Y)

    def test_nothing_is_kept(self):
        fields = {"x": self.X.copy(), "sums": np.zeros(4, np.float32)}
        before = [sys.getrefcount(each) for each in (fields, *fields.values())]
        for _ in range(50):
            ext.weigh(fields, self.Y)
            with pytest.raises(ValueError, match="argument 'y'"):
                ext.weigh(fields, self.Y[:2])
            with pytest.raises(TypeError, match="this dict has no 'x'"):
                ext.weigh({"sums": fields["sums"]}, self.Y)
        assert [sys.getrefcount(each) for each in (fields, *fields.values())] == before


def test_a_reply_like_an_argument_that_was_left_out():
    assert type(ext.ones_like(3)).__name__ == "Tensor"
    assert type(ext.ones_like(3, None)).__name__ == "Tensor"
    like = ext.ones_like(3, np.zeros(2))
    assert type(like) is np.ndarray
    assert like.tolist() == [1, 1, 1]


def test_what_is_converted_is_an_argument_like_any_other():
    assert ext.dot(np.arange(3), np.ones(3, bool)) == 3
    assert ext.dot(np.arange(6, dtype=np.float32)[::2]) == 6
    for call, text in {
        lambda: ext.dot(
            np.arange(3), np.ones(4)
        ): "dot(): argument 'y': expected float32[n] on cpu, got float64[4] on cpu: n is 4 here and 3 in argument 'x'",
        lambda: ext.dot(np.arange(3), y=np.ones(3, complex)): "dot(): argument 'y': expected float32[n] on cpu, got "
        "complex128[3] on cpu: complex128 does not become float32 (numpy.can_cast, 'same_kind')",
        lambda: ext.dot(
            np.array([1, 1e39])
        ): "dot(): argument 'x': expected float32[n] on cpu, got float64[2] on cpu: the "
        "element at (1,) is beyond what float32 holds",
    }.items():
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value) == text


def test_a_capsule_that_was_converted_is_whole_when_the_call_is_refused():
    capsule = np.arange(3.0).__dlpack__(max_version=(1, 0))
    with pytest.raises(ValueError):
        ext.dot(capsule, np.ones(4))
    assert ext.dot(capsule) == 3


MATRIX = points(3, 4)
LIGHT = MATRIX.T  # in Fortran's order


@pytest.mark.parametrize("kind", ["any", "c", "f", "inner", "write"])
@pytest.mark.parametrize(
    "x",
    [
        MATRIX, LIGHT, MATRIX[:, ::2], MATRIX[::2], MATRIX[:1], MATRIX[:, :1], MATRIX[:0], MATRIX[1:, :0], MATRIX[::-1],
        as_strided(MATRIX, (1, 3), (2, 4)), as_strided(MATRIX, (3, 1), (16, 1)),
    ],
    ids=str.split("matrix light columns rows row column empty none backwards odd-row odd-column"),
)  # fmt: skip
def test_a_view_shows_an_array_as_it_lies(kind, x):
    contiguous = {"c": x.flags.c_contiguous, "f": x.flags.f_contiguous}
    inner = x.shape[1] <= 1 or x.strides[1] == 4 or x.size == 0
    if not {**contiguous, "inner": inner}.get(kind, True):
        with pytest.raises(ext.Error):
            ext.shown(kind, x)
        return
    address, sizes, strides = ext.shown(kind, x)
    assert address == x.ctypes.data or x.size == 0
    assert sizes == x.shape
    assert all(x.shape[i] <= 1 or x.size == 0 or strides[i] * 4 == x.strides[i] for i in range(2))


def warning_on_write():
    return np.broadcast_arrays(points(1), np.zeros((1, 1, 3)))[0][0]


NOT_SHOWN = {
    "swapped bytes": (lambda: points(2).astype(">f4"), ("any", "write")),
    "another dtype": (lambda: points(2).astype("i4"), ("any", "write")),
    "not aligned": (lambda: np.zeros(25, np.uint8)[1:].view("f4").reshape(2, 3), ("any", "c", "write")),
    "read-only": (lambda: np.frombuffer(bytes(24), "f4").reshape(2, 3), ("write",)),
    "a warning on write": (warning_on_write, ("write",)),
    "elements that overlap": (lambda: as_strided(points(2), (2, 3), (0, 4)), ("write", "c", "f")),
    "another rank": (lambda: np.zeros(6, np.float32), ("any", "c")),
}


@pytest.mark.parametrize(
    ("which", "kind"), [(which, kind) for which, (_, kinds) in NOT_SHOWN.items() for kind in kinds]
)
def test_a_view_does_not_show_what_it_does_not_ask_for(which, kind):
    with pytest.raises(ext.Error):
        ext.shown(kind, NOT_SHOWN[which][0]())


def test_a_loader_that_is_used_again_lets_go_of_what_it_had():
    x = np.zeros(3, np.float32)
    capsule = x.__dlpack__()
    assert ext.load_twice(capsule, x) == (True, True)
    assert "used" not in repr(capsule)
