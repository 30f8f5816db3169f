"""What errors of operators say, and their classes: the same by every way to a call."""

from __future__ import annotations

import numpy as np
import pytest

HUGE = 1 << 22


@pytest.fixture
def torch(torch_runs, torch_jvp):
    return pytest.importorskip("torch")


@pytest.mark.parametrize("hidden", ["", "1"])
def test_the_class_of_a_kernels_error(run_script, hidden):
    """With torch's shims and without."""
    pytest.importorskip("torch")
    code = """
        import torch
        import isthmus_operators_parameters_test_ext, isthmus_operators_gradients_test_ext, isthmus.operators
        isthmus.operators.register("torch")
        parameters, gradients = torch.ops.parameters, torch.ops.gradients
        for call in (
            lambda: gradients.cube(torch.zeros(3)),
            lambda: parameters.fold(torch.zeros(3), torch.zeros(2), torch.zeros(2)),
            lambda: parameters.first_rows(torch.zeros(3), 99),
            lambda: parameters.unfold(torch.zeros(1, 4), 3, 1),
        ):
            try:
                call()
            except Exception as error:
                print(type(error).__name__, str(error).splitlines()[0])
    """
    lines = run_script(code, **({"ISTHMUS_NO_TORCH_SHIMS": hidden} if hidden else {})).strip().splitlines()
    assert lines == [
        "RuntimeError cube(): argument 'x': expected float64[n] on cpu, got float32[3] on cpu: dtype differs",
        "RuntimeError fold(): argument 'x': expected float32[h*w] on cpu, got float32[3] on cpu: dimension 0 has size "
        "3, and h*w is 4 (h is 2, w is 2)",
        "RuntimeError Out::resize(): found 99 rows; expected 0 to 6",
        "RuntimeError unfold(): argument 'out': its size c/(h*w) is no whole number (c is 4, h is 3, w is 1)",
    ]


def test_a_result_beyond_memory(runs, torch_runs, torch):
    x, y = np.zeros(HUGE, "float32"), np.zeros(1 << 23, "float32")
    with pytest.raises(MemoryError, match=r"outer\(\): .*(4194304, 8388608)"):
        runs.outer(x, y)
    with pytest.raises(MemoryError, match=r"outer\(\): .*(4194304, 8388608)"):
        runs.outer(torch.from_numpy(x), torch.from_numpy(y))
    with pytest.raises(RuntimeError, match=r"outer\(\): torch made no tensor of float32\(4194304, 8388608\)"):
        torch_runs.outer(torch.from_numpy(x), torch.from_numpy(y))
    jax = pytest.importorskip("jax")
    with pytest.raises(MemoryError, match=r"outer\(\): .*(4194304, 8388608)"):
        runs.outer(jax.numpy.asarray(x), jax.numpy.asarray(y))


def test_an_integer_that_is_no_size(parameters, torch_parameters, torch):
    words = r"unfold\(\): argument 'h': found -1; expected a size, 0 or more"
    with pytest.raises(ValueError, match=words):
        parameters.unfold(np.zeros((1, 4), "float32"), -1, 2)
    with pytest.raises(RuntimeError, match=words):
        torch_parameters.unfold(torch.zeros(1, 4), -1, 2)


def test_what_can_have_no_gradient(gradients, torch_jvp, torch):
    x = torch.ones(3, dtype=torch.float64, requires_grad=True)
    first = torch.autograd.grad(gradients.cube(x).sum(), x, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), x, create_graph=True)[0]
    with pytest.raises(RuntimeError, match=r"cube_gradient_gradient has no gradient; register .* with one more"):
        torch.autograd.grad(second.sum(), x)
    made = torch_jvp.scaled_jvp(x, None, x, None, 2)
    with pytest.raises(RuntimeError, match=r"jvp::scaled_jvp has no gradient, as no Jacobian-vector product has"):
        made.sum().backward()
    with pytest.raises(RuntimeError, match=r"jvp::sine has no gradient; register it in C\+\+ with .gradient<g>\(\)"):
        torch_jvp.sine(x).sum().backward()


def test_out_that_does_not_fit_in_a_compiled_call(gradients, torch):
    x = torch.ones(3, dtype=torch.float64)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, out: gradients.cube(x, out=out), backend="aot_eager")
    for out, words in (
        (torch.empty(2, dtype=torch.float64), r"'out': expected sizes \(3,\), got float64\[2\] on cpu"),
        (torch.empty(3), r"'out': expected (writable )?float64.*, got float32\[3\] on cpu: dtype differs"),
    ):
        for f in (compiled, lambda x, out: gradients.cube(x, out=out)):
            with pytest.raises(ValueError, match=words):
                f(x, out)
