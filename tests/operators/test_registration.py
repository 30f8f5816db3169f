"""What is not registered as an operator, and why: by the module with the functions, the sentence of each."""

from __future__ import annotations

import pytest

REFUSED = {
    "kinds": {
        "like nothing": "result 'out' has the dtype of argument 'y'; expected the name of an input",
        "like scalar": "result 'out' has the dtype of argument 'k'; expected the name of a tensor argument",
        "like optional": "result 'out' has the dtype of argument 'x', which may be None; expected a required",
        "set of optional": "result 'out' has the dtype of argument 'x', which may be None; expected a required",
        "set of others": "result 'out' is float32|float64[:] on cpu, and no tensor argument says which dtype; expected",
        "set of more": "result 'out' is float32|float64[:] on cpu, and no tensor argument says which dtype; expected",
        "ones": "it has no tensor argument; expected at least one",
        "nothing": "it has no tensor argument; expected at least one",
    },
    "parameters": {
        "result": "result 'out' has the size n, which no input has",
        "argument": "argument 'x' has the size n, which no input has",
        "batch": "leading dimensions do not broadcast if a result says how many rows it has",
    },
    "gradients": {
        "takes": "takes 'y'; expected 'grad_out', 'out' or the name of an argument or of a size of one",
        "count": "takes 2 inputs; expected 1: grad_out",
        "of": "is of 'z', which is not an argument of the operator",
        "twice": "is of 'x' twice",
        "results": "has 2 results; expected 1, one for each of x",
        "integer": "is of 'index', which is not of floating-point numbers",
        "named": "is another operator, bad::other; expected .takes to name its arguments",
        "absent": "result 'out' may be absent; expected a result of every call",
        "writes": "cannot be, since it writes an argument in place",
        "random": "it has 2 arguments of isthmus::Random; expected one",
        "autocast": "found autocast to int32; expected a floating-point dtype of torch",
    },
    "jvp": {
        "inputs": "its jvp takes 1 inputs; expected 2: a tangent for each floating-point tensor input",
        "results": "its jvp has 2 results; expected 1, a tangent for each floating-point result",
        "kind": "its jvp takes 'x' as another kind",
        "optional": "its jvp takes 'tangent_w', which may be None",
        "writes": "its jvp cannot be, since it writes an argument in place",
    },
    "lists": {
        "batch": "leading dimensions do not broadcast if an argument is a list of tensors",
        "formula": "argument 'xs' is a list of tensors with a size by formula, or a run of dimensions; expected names",
        "set": "and no tensor argument says which dtype",
        "device": "its device function has 'xs' as float64[n] on cuda; expected the dtype and sizes of float32",
        "gradient": "its gradient is of 'xs', which is not a tensor",
    },
    "runs": {
        "apart": "the runs of dimensions of argument 'x', float32[a..., b...] on cpu, cannot be told apart",
        "unknown": "result 'out' has the dimensions c..., which no input has",
        "list": "argument 'xs' is a list of tensors with a size by formula, or a run of dimensions; expected names",
        "batch": "leading dimensions broadcast only where the rank is fixed, and argument 'x'",
    },
}
CASES = [(module, name) for module, refused in REFUSED.items() for name in refused]


@pytest.mark.parametrize(("module", "name"), CASES, ids=[f"{module}: {name}" for module, name in CASES])
def test_it_is_refused(request, module, name):
    refuse = request.getfixturevalue(module).refuse
    with pytest.raises(ValueError, match="operator 'bad::") as caught:
        refuse(name)
    assert REFUSED[module][name] in str(caught.value)
