"""Arguments that must not share memory with the others of their call, through nanobind, pybind11 and the bare API."""

from __future__ import annotations

import re

import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus")

SOURCE = """
#include <isthmus/module.h>

using Row = isthmus::View<const float, 1>;
using Apart = isthmus::View<float, 1, isthmus::distinct>;

void reversed_into(const Row& x, const Apart& out) {
    for (std::int64_t i = 0; i < out.size(); ++i) out(i) = x(x.size() - 1 - i);
}
"""


@pytest.fixture(scope="module")
def bare():
    return isthmus.load_inline(SOURCE, functions=["reversed_into"])


def refused(other: str, argument: str = "out", function: str = "reversed_into"):
    said = f"{function}(): argument '{argument}': shares memory with argument '{other}'"
    return pytest.raises(isthmus.Error, match=re.escape(said))


def check_reversed_into(function):
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    function(x, out)
    assert out.tolist() == [5, 4, 3, 2, 1, 0]
    with refused("x"):
        function(x, x)
    with refused("x"):
        function(x[:4], x[3:])
    assert x.tolist() == [0, 1, 2, 3, 4, 5], "nothing was written"
    function(x[:3], x[3:])
    assert x.tolist() == [0, 1, 2, 2, 1, 0]
    y = np.arange(6, dtype=np.float32)
    function(y[::2], y[1::2])
    assert y.tolist() == [0, 4, 2, 2, 4, 0], "interleaved, and not shared"
    with refused("x"):
        function(y[::2], y[2::-2])
    function(y, y[:0])


def test_through_a_binder(ext):
    check_reversed_into(ext.reversed_into)


def test_without_a_binder(bare):
    check_reversed_into(bare.reversed_into)


def test_any_framework(ext, torch):
    x = torch.arange(6, dtype=torch.float32)
    with refused("x"):
        ext.reversed_into(x, x.numpy())
    ext.reversed_into(x.clone().numpy(), x)
    assert x.tolist() == [5, 4, 3, 2, 1, 0]


def test_columns_of_one_matrix(ext):
    x = np.zeros((1000, 8))
    assert ext.any_rank(x[:, :4], x[:, 4:]) == 8000
    assert ext.any_rank(x[:, ::2], x[:, 1::2]) == 8000
    assert ext.any_rank(x[::2], x[1::2].T) == 8000
    with refused("x", function="any_rank"):
        ext.any_rank(x[:, :5], x[:, 4:])
    with refused("x", function="any_rank"):
        ext.any_rank(x.T, x)
    assert ext.any_rank(np.zeros((0, 3)), x) == 8000


def test_every_kind_of_argument(ext):
    a, b, c, d = (np.zeros(4, np.float32) for _ in range(4))
    assert ext.beside_all(a, [b, b], c, d) == 14
    assert ext.beside_all(a, [b, a], None, a) == 9, "the others may share"
    for kept, rows, named, other in ((c, [b], d, "kept"), (a, [b, c], d, "rows"), (a, [], c, "named")):
        with refused(other, function="beside_all"):
            ext.beside_all(kept, rows, c, named)


def test_a_refused_call_writes_nothing_and_counts_no_write(ext, torch):
    x = torch.zeros(4)
    version = x._version
    with refused("x"):
        ext.reversed_into(x, x)
    assert x._version == version


def test_the_signature_says_so(ext):
    assert "distinct" in ext.reversed_into.__doc__
