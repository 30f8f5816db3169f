"""Workers that use one model's weights without a copy each: by multiprocessing, or by Ray (run.py ray)."""

import functools
import multiprocessing
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file

import isthmus


def own_mib() -> float:
    """The memory of this process alone, and of no file and no other process."""
    text = Path("/proc/self/smaps_rollup").read_text()
    return (
        sum(
            int(line.split()[1])
            for line in text.splitlines()
            if line.startswith("Anonymous:")
        )
        / 1024
    )


def load(path):
    return {name: tensor.to("torch") for name, tensor in isthmus.load(path).items()}


def work(get_weights, x):
    """The answer for `x`, and by how many MiB the process's own memory grew."""
    torch.set_num_threads(1)
    before = own_mib()
    weights = get_weights()
    y = torch.relu(torch.from_numpy(x) @ weights["hidden"]) @ weights["out"]
    return y.numpy(), own_mib() - before


def by_multiprocessing(path, inputs):
    """Each worker maps the same file: its pages are in memory once."""
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        return pool.map(functools.partial(work, functools.partial(load, path)), inputs)


def by_ray(path, inputs):
    """The weights go into Ray's object store once, and each worker maps them there."""
    import ray

    isthmus.distributed.enable("ray")
    quiet = {
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": "error",
    }
    ray.init(num_cpus=2, object_store_memory=1 << 28, **quiet)
    weights = ray.put(load(path))
    task = ray.remote(work)
    answers = ray.get(
        [task.remote(functools.partial(ray.get, weights), x) for x in inputs]
    )
    ray.shutdown()
    return answers


if __name__ == "__main__":
    random = np.random.default_rng(0)
    model = {
        "hidden": random.normal(size=(1024, 8192)),
        "out": random.normal(size=(8192, 10)),
    }
    model = {name: weights.astype(np.float32) for name, weights in model.items()}
    inputs = [random.normal(size=(4, 1024)).astype(np.float32) for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_file(model, path)
        answers = (by_ray if "ray" in sys.argv else by_multiprocessing)(path, inputs)
    expected = [np.maximum(x @ model["hidden"], 0) @ model["out"] for x in inputs]
    right = [
        np.allclose(y, z, rtol=1e-3, atol=1e-2)
        for (y, _), z in zip(answers, expected, strict=True)
    ]
    print("the answers are right:", all(right))
    print(
        "weights, MiB:",
        round(sum(weights.nbytes for weights in model.values()) / (1 << 20)),
    )
    print(
        "each worker's own memory grew by less than a quarter of that:",
        max(grown for _, grown in answers) < 8,
    )
