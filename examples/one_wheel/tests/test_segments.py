"""The package as its users have it: installed, on any CPython from 3.10 on, with the frameworks that are there."""

import numpy as np
import pytest
from segments import segment_sum, starts

VALUES = np.array([[1, 2], [3, 4], [5, 6], [7, 8]], np.float32)
LENGTHS = np.array([1, 0, 3])
SUMS = [[1, 2], [0, 0], [15, 18]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("integer", [np.int32, np.int64])
def test_numpy(dtype, integer):
    sums = segment_sum(VALUES.astype(dtype), LENGTHS.astype(integer))
    assert type(sums) is np.ndarray
    assert sums.dtype == dtype
    assert sums.tolist() == SUMS


def test_any_strides():
    assert segment_sum(VALUES[::-1, ::-1], LENGTHS).tolist() == [
        [8, 7],
        [0, 0],
        [12, 9],
    ]


def test_starts():
    assert starts(LENGTHS).tolist() == [0, 1, 1, 4]
    assert starts(LENGTHS[:0]).tolist() == [0]


@pytest.mark.parametrize(
    ("lengths", "said"),
    [
        (
            [1, 2],
            "argument 'lengths': the segments have 3 rows, and argument 'values' has 4",
        ),
        ([1, 4], "argument 'lengths': segment 1 has 4 rows, and 3 are left"),
        ([-1, 5], "argument 'lengths': segment 0 has -1 rows, and 4 are left"),
        ([0.5, 3.5], "argument 'lengths': expected"),
    ],
)
def test_lengths_that_do_not_fit(lengths, said):
    with pytest.raises(ValueError, match=said):
        segment_sum(VALUES, np.array(lengths))


def test_broadcast():
    """One array, cut in two ways."""
    cuts = np.array([[1, 0, 3], [2, 2, 0]])
    assert segment_sum.ufunc(VALUES, cuts).tolist() == [
        SUMS,
        [[4, 6], [12, 14], [0, 0]],
    ]


class TestTorch:
    torch = property(lambda self: pytest.importorskip("torch"))

    def test_the_gradient(self):
        values = self.torch.from_numpy(VALUES.astype(np.float64)).requires_grad_()
        lengths = self.torch.from_numpy(LENGTHS)
        sums = segment_sum(values, lengths)
        assert isinstance(sums, self.torch.Tensor)
        assert sums.tolist() == SUMS
        assert starts(lengths).tolist() == [0, 1, 1, 4]
        assert self.torch.autograd.gradcheck(lambda x: segment_sum(x, lengths), values)

    def test_compile(self):
        values, lengths = (
            self.torch.from_numpy(VALUES).requires_grad_(),
            self.torch.from_numpy(LENGTHS),
        )
        loss = self.torch.compile(
            lambda x: (segment_sum(x, lengths) ** 2).sum(),
            fullgraph=True,
            backend="aot_eager",
        )
        loss(values).backward()
        assert values.grad.tolist() == [[2, 4], [30, 36], [30, 36], [30, 36]]


class TestJax:
    jax = property(lambda self: pytest.importorskip("jax"))

    def test_the_gradient(self):
        lengths = LENGTHS.astype(np.int32)
        sums = self.jax.jit(segment_sum)(VALUES, lengths)
        assert isinstance(sums, self.jax.Array)
        assert sums.tolist() == SUMS
        loss = self.jax.jit(
            self.jax.grad(lambda x: (segment_sum(x, lengths) ** 2).sum())
        )
        assert loss(VALUES).tolist() == [[2, 4], [30, 36], [30, 36], [30, 36]]

    def test_vmap(self):
        cuts = np.array([[1, 0, 3], [2, 2, 0]], np.int32)
        sums = self.jax.vmap(segment_sum, (None, 0))(VALUES, cuts)
        assert sums.tolist() == [SUMS, [[4, 6], [12, 14], [0, 0]]]
