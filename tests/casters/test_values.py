"""Dtypes, devices and Results through nanobind, pybind11 and the bare API."""

from __future__ import annotations

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus")

DTYPES = [
    ("float32", "float32"),
    (isthmus.DType("bfloat16"), "bfloat16"),
    (np.dtype("int16"), "int16"),
    (np.float64, "float64"),
    ((2, 32, 4), "float32x4"),
    ((1, 8), "uint8"),
]
DEVICES = [("cpu", "cpu"), ("cuda:1", "cuda:1"), (isthmus.Device("cuda:2"), "cuda:2"), ((1, 0), "cpu")]


class TestArguments:
    @pytest.mark.parametrize(("said", "name"), DTYPES)
    def test_a_dtype(self, ext, said, name):
        assert ext.dtype_name(said) == name
        assert ext.dtype_back(said) == isthmus.DType(name)

    @pytest.mark.parametrize(("said", "name"), DEVICES)
    def test_a_device(self, ext, said, name):
        assert ext.device_name(said) == name
        assert ext.device_back(said) == isthmus.Device(name)

    def test_a_frameworks_own(self, ext, torch):
        assert ext.dtype_name(torch.bfloat16) == "bfloat16"
        assert ext.empty_of(torch.complex64).dtype == torch.zeros(1, dtype=torch.complex64).numpy().dtype

    @pytest.mark.parametrize(
        "wrong", ["float33", "", (9, 9, 1), (1, 2, 3, 4), (), None, 3, [], np.dtype(">f4"), object()]
    )
    def test_what_is_none_is_refused(self, ext, wrong):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            ext.dtype_name(wrong)
        with pytest.raises(TypeError, match="incompatible function arguments"):
            ext.device_name(wrong)

    def test_an_interrupt_passes_through(self, ext):
        class dtype:  # noqa: N801  # as frameworks call it
            @property
            def name(self):
                raise KeyboardInterrupt("mine")

        with pytest.raises(KeyboardInterrupt, match="mine"):
            ext.dtype_name(dtype())

    def test_a_text_is_a_text_first(self, ext):
        assert ext.text_or_dtype("float32") == "text"
        assert ext.text_or_dtype(np.dtype("float32")) == "dtype"
        assert ext.text_or_dtype((2, 32)) == "dtype"

    def test_an_overload_set_says_what_is_wrong(self, ext):
        assert ext.made_of("int8").dtype == "int8"
        with pytest.raises(
            TypeError, match=r"argument 'dtype': found 'float33'; expected a name such as 'float32', a dtype of isthmus"
        ):
            ext.made_of("float33")


class TestResults:
    def test_they_are_the_packages_own(self, ext):
        x = np.zeros(2, np.float32)
        assert type(ext.wider(x)) is isthmus.DType
        assert ext.wider(x) == np.float64
        assert type(ext.device_of(x)) is isthmus.Device
        assert ext.device_of(x) == "cpu"

    def test_a_result_is_what_it_holds(self, ext):
        assert ext.tensor_or_error(True).dtype == "int16"
        assert ext.dtype_or_error(True) == "int16"
        assert ext.number_or_error(True) == 2.5
        assert ext.nothing_or_error(True) is None

    @pytest.mark.parametrize(
        ("what", "kind", "code"),
        [("tensor", BufferError, "needs_copy"), ("dtype", ValueError, "bad_dtype"), ("number", ValueError, "overflow"),
         ("nothing", ValueError, "read_only")],
    )  # fmt: skip
    def test_or_the_error_that_it_holds(self, ext, what, kind, code):
        with pytest.raises(kind, match=f"no.* {'this' if what == 'nothing' else what} t") as raised:
            getattr(ext, f"{what}_or_error")(False)
        assert (type(raised.value).__module__, raised.value.code) == ("isthmus", code)


def test_signatures_say_what_is_wanted(ext):
    if "213" not in ext.__name__:  # pybind11 2.13 has one name for both ways
        assert "isthmus.typing.DTypeLike" in ext.dtype_back.__doc__
        assert "isthmus.typing.DeviceLike" in ext.device_back.__doc__
    assert "-> isthmus.DType" in ext.dtype_back.__doc__
    assert "-> isthmus.Device" in ext.device_back.__doc__
    assert "-> isthmus.Tensor" in ext.tensor_or_error.__doc__
    assert "-> float" in ext.number_or_error.__doc__
    assert "-> None" in ext.nothing_or_error.__doc__
