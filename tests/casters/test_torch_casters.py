"""at::Tensor through the casters, with libtorch linked."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(params=["isthmus_torch_nanobind_test_ext", "isthmus_torch_pybind11_test_ext"])
def ext(request):
    return pytest.importorskip(request.param, reason=f"{request.param} was not built: it needs -DISTHMUS_TORCH=ON")


def test_the_very_tensor_comes_back(ext):
    x = torch.zeros(2, 3, requires_grad=True)
    assert ext.dimensions(x) == 2
    assert ext.same(x) is x


def test_an_undefined_tensor_is_none(ext):
    assert ext.undefined() is None


@pytest.mark.parametrize("wrong", [None, 3, "text", [1.0]])
def test_what_is_no_tensor_is_a_type_error(ext, wrong):
    with pytest.raises(TypeError, match="incompatible function arguments"):
        ext.dimensions(wrong)


def test_the_signature_says_so(ext):
    assert "torch.Tensor" in ext.same.__doc__
