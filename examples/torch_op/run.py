"""RMS normalisation of C++ in eager torch, in autograd and under torch.compile, beside torch's own."""

import sys

import numpy as np
import torch
from rms_norm import rms_norm
from torch.nn.functional import rms_norm as torch_s_own

torch.manual_seed(0)
x = torch.randn(32, 64, requires_grad=True)
weight = torch.rand(64, requires_grad=True)


def gradients(norm):
    return torch.autograd.grad(norm(x).square().sum(), (x, weight))


def ours(x):
    return rms_norm(x, weight, 1e-6)


def theirs(x):
    return torch_s_own(x, (64,), weight, 1e-6)


same = [
    torch.allclose(a, b, atol=1e-4)
    for a, b in zip(gradients(ours), gradients(theirs), strict=True)
]
print(
    "eager, and both gradients:", torch.allclose(ours(x), theirs(x), atol=1e-5), *same
)

compiled = torch.compile(
    ours, fullgraph=True, backend=sys.argv[1] if len(sys.argv) > 1 else "inductor"
)
same = [
    torch.allclose(a, b, atol=1e-4)
    for a, b in zip(gradients(compiled), gradients(theirs), strict=True)
]
print(
    "torch.compile, one graph:",
    torch.allclose(compiled(x), theirs(x), atol=1e-5),
    *same,
)
print("what the graph calls:", torch.ops.example.rms_norm.default)

rows = x.detach().numpy()
print(
    "the same function for NumPy:",
    type(rms_norm(rows, np.ones(64, np.float32))).__name__,
)
