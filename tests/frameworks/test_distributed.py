"""TensorFlow's and Paddle's tensors between processes, by isthmus.distributed:
other frameworks have tests/distributed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfd")

PROGRAM = """
import multiprocessing
import numpy as np
import isthmus
isthmus.distributed.enable("multiprocessing")
{imports}
ours, theirs = multiprocessing.Pipe()
for rows in (1, 1000):
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        x = {make}
        ours.send([x, x])
        y, again = theirs.recv()
        assert y is again and type(y) is type(x) and y.dtype == x.dtype
        assert tuple(y.shape) == tuple(x.shape) == (rows, 300)
        assert bool({equal}), dtype
        {more}
stats = isthmus.distributed.stats()
assert stats[{counted!r}] == 4, stats
isthmus.distributed.enable("multiprocessing", "tensor")
ours.send(x)
assert type(theirs.recv()) is isthmus.Tensor
print("good")
"""

ROWS = {
    "tensorflow": {
        "imports": "import tensorflow as tf",
        "make": "tf.cast(tf.reshape(tf.range(rows * 300), (rows, 300)), dtype)",
        "equal": "tf.reduce_all(x == y)",
        "more": "ours.send(tf.constant(['text'])); assert theirs.recv().numpy()[0] == b'text'",
        "counted": "copy_on_write",
    },
    "paddle": {
        "imports": "import paddle",
        "make": "paddle.arange(rows * 300).reshape([rows, 300]).astype(dtype)",
        "equal": "paddle.all(x == y)",
        "more": "y[:] = 0; assert x.astype('float32').sum() > 0; assert y.stop_gradient == x.stop_gradient",
        "counted": "copy_on_write",
    },
}


@pytest.mark.parametrize("framework", ROWS)
def test_there_and_back(framework: str):
    # Imported in a process of its own: two of them in one end it.
    if importlib.util.find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    program = PROGRAM.format(**ROWS[framework])
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=200)
    assert (done.returncode, done.stdout.strip().split("\n")[-1]) == (0, "good"), done.stderr[-3000:]
