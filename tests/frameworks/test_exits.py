"""Whatever an exit made can be worked with: every framework, every layout, an operation of its own on the result.

Promised (law 3; the facts table behind `t.to(…)`): a framework is never handed memory that it cannot work with. Where
it would copy, misread or end the process, the exit refuses and says why (needs_copy or bad_layout; consumer_failed with
the words of the framework); what it makes shows the tensor's own elements through the framework's own operations. Each
framework has a process of its own, and another behind a layout that ends it.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import processes
import pytest

ext = pytest.importorskip("isthmus_test_ext")

LAYOUTS = {
    "aligned to 64": "ext.pages([4, 4], data=data)",
    "aligned to 32": "ext.pages([4, 4], offset=32, data=data)",
    "aligned to 16": "ext.pages([4, 4], offset=16, data=data)",
    "aligned to its elements": "ext.pages([4, 4], offset=4, data=data)",
    "reversed": "ext.tensor_of(np.asarray(ext.pages([4, 4], data=data))[::-1])",
    "rows reversed": "ext.tensor_of(np.asarray(ext.pages([4, 4], data=data))[:, ::-1])",
    "both reversed": "ext.tensor_of(np.asarray(ext.pages([4, 4], data=data))[::-1, ::-1])",
    "transposed": "ext.tensor_of(np.asarray(ext.pages([4, 4], data=data)).T)",
    "every other": "ext.tensor_of(np.asarray(ext.pages([4, 4], data=data))[:, ::2])",
    "stride 0": "ext.pages([4, 4], strides=[0, 1], data=data)",
    "stride 0 inside": "ext.pages([4, 4], strides=[1, 0], data=data)",
    "empty": "ext.pages([0, 4])",
    "empty, not aligned": "ext.pages([4, 0], offset=4)",
    "0-d": "ext.pages([], data=data)",
    "0-d, not aligned": "ext.pages([], offset=4, data=data)",
    "one element, negative stride": "ext.pages([1], strides=[-1], data=data)",
}
# Of each framework: the module, and its operations, each giving something that np.asarray reads.
OPERATIONS = {
    "numpy": ("numpy", ["x + 1", "x.reshape(-1) + 1", "(x * x).sum()"]),
    "torch": ("torch", ["x + 1", "x.reshape(-1) + 1", "(x * x).sum()", "x.contiguous() + 1"]),
    "jax": ("jax", ["x + 1", "x.reshape(-1) + 1", "(x * x).sum()"]),
    "tensorflow": (
        "tensorflow",
        [
            "x + 1",
            "tf.reshape(x, (-1,)) + 1",
            "tf.reduce_sum(x * x)",
            "tf.linalg.matmul(tf.reshape(x, (-1, 1)), tf.ones((1, 2)))",
        ],
    ),
    "paddle": (
        "paddle",
        ["x.numpy() + 1", "x.cpu().numpy() + 1", "x + 1", "x.reshape((-1,)) + 1", "(x * x).sum()"],
    ),
    "pyarrow": ("pyarrow", ["x.to_numpy() + 1"]),
    "mlx": ("mlx.core", ["x + 1"]),
    "warp": ("warp", ["x.numpy() + 1"]),
    "onnxruntime": ("onnxruntime", ["x.numpy() + 1"]),
    "tvm_ffi": ("tvm_ffi", ["np.from_dlpack(x) + 1"]),
}
NOT_HERE = {"tensor", "capsule", "capsule_legacy", "cupy"}  # no framework; no memory of the host
SCRIPT = """
import json, sys
import numpy as np
import isthmus_test_ext as ext
framework, operations, layouts = json.loads(sys.argv[1])
data = np.arange(64, dtype=np.float32)

def outcome(layout, sized):
    t = eval(layout)
    shape = ext.own(t)["shape"]
    wanted = np.frombuffer(ext.own_elements(t), np.float32).reshape(shape) if sized else np.zeros(shape, "f4")
    try:
        x = t.to(framework)
    except ext.Error as error:
        return f"refused {error.code} {error}"
    names = {"np": np, "x": x}
    if framework == "tensorflow":
        import tensorflow as tf
        names["tf"] = tf
    for operation in operations:
        made = np.asarray(eval(operation, names))
        if "sum(" in operation:
            right = np.allclose(made, (wanted * wanted).sum())
        elif "matmul" in operation:
            right = np.allclose(made, np.repeat(wanted.reshape(-1, 1), 2, 1))
        elif "-1" in operation:
            right = np.array_equal(made, wanted.reshape(-1) + 1)
        else:
            right = np.array_equal(made, wanted + 1)
        if not right:
            return f"{operation}: {made.tolist()} of {wanted.tolist()}"
    return "right"

for name, layout in layouts:
    try:
        said = outcome(layout, "empty" not in name)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    print(json.dumps([name, said]), flush=True)
"""


def test_every_framework_is_asked() -> None:
    package = pytest.importorskip("isthmus._isthmus")
    assert set(OPERATIONS) == set(package._framework_names()) - NOT_HERE


def run(framework: str, layouts: list[str]) -> subprocess.CompletedProcess[str]:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "GLOG_minloglevel": "3", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    asked = json.dumps([framework, OPERATIONS[framework][1], [(layout, LAYOUTS[layout]) for layout in layouts]])
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", SCRIPT, asked],
        env=processes.environment(Path(ext.__file__).parent, **quiet),
        capture_output=True,
        text=True,
        timeout=300,
    )


@functools.cache
def outcomes(framework: str) -> dict[str, str]:
    """What became of each layout. Where the process ends at one, another goes on with those behind it."""
    said: dict[str, str] = {}
    while left := list(LAYOUTS)[len(said) :]:
        done = run(framework, left)
        said.update(json.loads(line) for line in done.stdout.splitlines() if line.startswith('["'))
        if done.returncode != 0:
            under_way = (list(LAYOUTS)[len(said) :] or [left[-1]])[0]  # or it was the end of the process
            said[under_way] = f"exit status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}"
    return said


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("framework", OPERATIONS)
def test_works_or_is_refused(framework: str, layout: str) -> None:
    module, _ = OPERATIONS[framework]
    if importlib.util.find_spec(module.split(".")[0]) is None:
        pytest.skip(f"{module} is not installed")
    said = outcomes(framework)[layout]
    refused = [["refused", code] for code in ("needs_copy", "bad_layout", "consumer_failed")]
    assert said == "right" or said.split()[:2] in refused, said
