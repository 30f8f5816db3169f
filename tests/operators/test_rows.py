"""Results that say during a call how many rows they have: narrowed, an unbacked size in a graph, padded in XLA."""

from __future__ import annotations

import sys

import numpy as np
import pytest

BOXES = np.array([[0, 0, 10, 10], [1, 0, 11, 10], [20, 20, 30, 30], [0, 1, 10, 11], [50, 50, 60, 60]], "float32")
SCORES = np.array([0.5, 0.9, 0.3, 0.8, 0.7], "float32")
KEPT = [1, 4, 2]


def test_plain_calls(parameters):
    torch = pytest.importorskip("torch")
    kept = parameters.nms(BOXES, SCORES, 0.5)
    assert isinstance(kept, np.ndarray)
    assert kept.dtype == np.int32
    assert kept.tolist() == KEPT
    kept = parameters.nms64(torch.from_numpy(BOXES), torch.from_numpy(SCORES), 0.5)
    assert isinstance(kept, torch.Tensor)
    assert kept.tolist() == KEPT
    rows, where = parameters.masked(BOXES, np.array([True, False, False, True, False]))
    assert where.tolist() == [0, 3]
    assert np.array_equal(rows, BOXES[[0, 3]])
    nothing, _ = parameters.masked(BOXES, np.zeros(5, bool))
    assert nothing.shape == (0, 4)


def test_plain_calls_of_jax(parameters):
    jax = pytest.importorskip("jax")
    for f in (parameters.nms, parameters.nms64):  # by default JAX has no int64
        kept = f(jax.numpy.asarray(BOXES), jax.numpy.asarray(SCORES), 0.5)
        assert isinstance(kept, jax.Array)
        assert kept.tolist() == KEPT
        assert kept.dtype == np.int32


@pytest.mark.parametrize("count", [0, 1, 5, 6])
def test_how_many(parameters, count):
    x = np.arange(3, dtype="float32")
    assert parameters.first_rows(x, count).tolist() == [0, 1, 2, 0, 1, 2][:count]


def test_all_rows_if_the_call_does_not_say(parameters):
    assert parameters.first_rows(np.arange(3, dtype="float32"), -7).shape == (6,)


@pytest.mark.parametrize("count", [-1, 7, 2**62, -(2**63)])
def test_a_number_of_rows_that_cannot_be(parameters, torch_parameters, count):
    import torch

    words = rf"Out::resize\(\): found {count} rows; expected 0 to 6"
    with pytest.raises(ValueError, match=words):
        parameters.first_rows(np.arange(3, dtype="float32"), count)
    with pytest.raises(RuntimeError, match=words):
        torch_parameters.first_rows(torch.arange(3.0), count)


def test_out_is_refused(parameters):
    with pytest.raises(ValueError, match="argument 'out': the call says how many rows there are; expected no out="):
        parameters.nms(BOXES, SCORES, 0.5, out=np.empty(5, np.int32))


def test_torch_ops(torch_parameters):
    import torch

    boxes, scores = torch.from_numpy(BOXES), torch.from_numpy(SCORES)
    kept = torch_parameters.nms(boxes, scores, 0.5)
    assert kept.tolist() == KEPT
    assert kept.is_contiguous()
    assert kept._base is None
    x = boxes.clone().requires_grad_()
    mask = torch.tensor([True, False, False, True, False])
    rows, _ = torch_parameters.masked(x, mask)
    (rows * torch.arange(1.0, 3.0)[:, None]).sum().backward()
    assert x.grad[:, 0].tolist() == [1, 0, 0, 2, 0]
    torch.library.opcheck(torch_parameters.masked.default, (boxes, mask), test_utils=("test_schema", "test_faketensor"))


def test_graphs_of_torch(parameters, torch_parameters):
    import torch

    def best(boxes, scores):
        return boxes[parameters.nms64(boxes, scores, 0.5)].sum(0)

    boxes, scores = torch.from_numpy(BOXES), torch.from_numpy(SCORES)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(best, fullgraph=True, dynamic=True)
        assert torch.equal(compiled(boxes, scores), best(boxes, scores))
        assert torch.equal(compiled(boxes[:3], scores[:3]), best(boxes[:3], scores[:3]))

    class Best(torch.nn.Module):
        def forward(self, boxes, scores):
            return torch_parameters.nms64(boxes, scores, 0.5)

    n = torch.export.Dim("n", min=2)
    exported = torch.export.export(Best(), (boxes, scores), dynamic_shapes=({0: n}, {0: n}))
    assert exported.module()(boxes, scores).tolist() == KEPT
    with pytest.raises(Exception, match="each call says how many rows its result has"):
        torch.func.vmap(parameters.nms, (0, 0, None))(boxes[None], scores[None], 0.5)


def test_padded_in_xla(parameters):
    jax = pytest.importorskip("jax")
    kept = jax.jit(parameters.nms, static_argnums=2)(BOXES, SCORES, 0.5)
    assert kept.tolist() == [*KEPT, -1, -1]
    boxes, scores = np.stack([BOXES, BOXES[::-1]]), np.stack([SCORES, SCORES[::-1]])
    kept = jax.jit(jax.vmap(lambda b, s: parameters.nms(b, s, 0.5)))(boxes, scores)
    assert kept.tolist() == [[*KEPT, -1, -1], [3, 0, 2, -1, -1]]
    mask = np.array([True, False, False, True, False])
    rows, where = jax.jit(parameters.masked)(BOXES, mask)
    assert where.tolist() == [0, 3, -1, -1, -1]
    assert np.array_equal(rows[:2], BOXES[[0, 3]])
    assert not rows[2:].any()
    grad = jax.jit(jax.grad(lambda x: parameters.masked(x, mask)[0].sum()))(jax.numpy.asarray(BOXES))
    assert np.array_equal(grad, np.where(mask[:, None], 1.0, 0.0) * np.ones(4))


def test_no_ufunc(parameters):
    with pytest.raises(ValueError, match="the size <=n of 'out' is a formula"):
        _ = parameters.nms.ufunc


def test_integer_results_are_not_autograds_business(parameters, torch_parameters):
    """No function in Python is between torch.ops and the kernel."""
    import torch

    called = []
    boxes, scores = torch.from_numpy(BOXES).requires_grad_(), torch.from_numpy(SCORES)
    sys.setprofile(lambda frame, event, _arg: called.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        keep = torch_parameters.nms(boxes, scores, 0.5)
    finally:
        sys.setprofile(None)
    assert not [file for file in called if "isthmus" in file]
    assert (keep.tolist(), keep.requires_grad) == (KEPT, False)
    with torch.inference_mode():
        assert torch_parameters.nms(torch.from_numpy(BOXES) + 0, scores, 0.5).tolist() == KEPT

    def area(boxes):
        kept = boxes[torch_parameters.nms(boxes, scores, 0.5).long()]
        return ((kept[:, 2] - kept[:, 0]) * (kept[:, 3] - kept[:, 1])).sum()

    grad = torch.func.grad(area)(torch.from_numpy(BOXES))
    assert sorted(grad.abs().sum(1).nonzero().flatten().tolist()) == sorted(KEPT)
    area(boxes).backward()
    assert torch.equal(boxes.grad, grad)
    torch.library.opcheck(torch_parameters.nms.default, (boxes, scores, 0.5))
