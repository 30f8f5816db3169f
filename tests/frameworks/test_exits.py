"""Whatever an exit made can be worked with: every framework, every layout, an operation of its own on the result.

Promised (law 3; the facts table behind `t.to(…)`): a framework is never handed memory that it cannot work with. Where it
would copy, misread or end the process, the exit refuses and says why (needs_copy or bad_layout; consumer_failed with the
words of the framework); what it makes shows the tensor's own elements through the framework's own operations. Each case
runs in a process of its own.
"""

from __future__ import annotations

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
framework, operations = json.loads(sys.argv[1])
data = np.arange(64, dtype=np.float32)
t = {layout}
shape = ext.own(t)["shape"]
wanted = np.frombuffer(ext.own_elements(t), np.float32).reshape(shape) if {sized} else np.zeros(shape, "f4")
try:
    x = t.to(framework)
except ext.Error as error:
    print("refused", error.code, error)
    raise SystemExit
if framework == "tensorflow":
    import tensorflow as tf
for operation in operations:
    made = np.asarray(eval(operation))
    if "sum(" in operation:
        right = np.allclose(made, (wanted * wanted).sum())
    elif "matmul" in operation:
        right = np.allclose(made, np.repeat(wanted.reshape(-1, 1), 2, 1))
    elif "-1" in operation:
        right = np.array_equal(made, wanted.reshape(-1) + 1)
    else:
        right = np.array_equal(made, wanted + 1)
    if not right:
        raise SystemExit(f"{{operation}}: {{made.tolist()}} of {{wanted.tolist()}}")
print("right")
"""


def test_every_framework_is_asked() -> None:
    package = pytest.importorskip("isthmus._isthmus")
    assert set(OPERATIONS) == set(package._framework_names()) - NOT_HERE


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("framework", OPERATIONS)
def test_works_or_is_refused(framework: str, layout: str) -> None:
    module, operations = OPERATIONS[framework]
    if importlib.util.find_spec(module.split(".")[0]) is None:
        pytest.skip(f"{module} is not installed")
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "GLOG_minloglevel": "3", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
    code = SCRIPT.format(layout=LAYOUTS[layout], sized="empty" not in layout)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", "-c", code, json.dumps([framework, operations])],
        env=processes.environment(Path(ext.__file__).parent, **quiet),
        capture_output=True,
        text=True,
        timeout=300,
    )
    said = done.stdout.splitlines()[-1:]
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}"
    assert said == ["right"] or said[0].split()[1] in ("needs_copy", "bad_layout", "consumer_failed"), said
