"""examples/operators, built as a user builds it: one kernel in torch.compile, jax.jit and a ufunc."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import readmes

pytest.importorskip("torch")
pytest.importorskip("jax")
pytest.importorskip("isthmus")

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "operators"
BY_HAND = ("by_hand/nearest_by_hand.cpp", "by_hand/nearest_by_hand.py")


def test_the_same_fit_by_torch_and_jax(build_example: Callable[..., Path]) -> None:
    build = build_example("operators", missing={"nanoflann_dir": "nanoflann is not installed"})
    done = subprocess.run(
        [sys.executable, EXAMPLE / "fit.py", "aot_eager"],
        env=os.environ | {"PYTHONPATH": str(build)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (said,) = (text for language, text in readmes.blocks(EXAMPLE) if language == "text")
    assert readmes.shown(said, done.stdout) == ""
    readmes.run_sessions(EXAMPLE, build)


def lines_of_code(*files: str) -> int:
    text = "\n".join((EXAMPLE / file).read_text() for file in files)
    return len([line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("//", "#"))])


def test_the_readme_counts_the_lines() -> None:
    readme = (EXAMPLE / "README.md").read_text()
    counts = [int(count) for count in re.findall(r"\| (\d+) \|", readme)]
    assert counts == [lines_of_code("nearest.cpp"), lines_of_code(*BY_HAND)]


def test_by_hand_it_is_the_same(build_example: Callable[..., Path]) -> None:
    build = build_example("operators", missing={"nanoflann_dir": "nanoflann is not installed"})
    subprocess.run(["cmake", "--build", build, "--target", "nearest_by_hand_ext"], check=True, timeout=300)
    path = os.pathsep.join(map(str, (build, EXAMPLE / "by_hand")))
    done = subprocess.run(
        [sys.executable, "-c", COMPARE],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


COMPARE = """
import jax, nearest, nearest_by_hand, numpy as np, torch
points, queries = (np.random.default_rng(0).random(shape, np.float32) for shape in ((20, 2), (3, 5, 2)))
ours, by_hand = nearest.nearest, nearest_by_hand

def same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)

same(ours.ufunc(points, queries), by_hand.ufunc(points, queries))
same(jax.vmap(ours, (None, 0))(points, queries), jax.vmap(by_hand.find_jax, (None, 0))(points, queries))
def gradient(find):
    return jax.jit(jax.grad(lambda points: find(points, queries[0])[0].sum()))(points)
same(gradient(ours), gradient(by_hand.find_jax))

points, queries = torch.from_numpy(points).requires_grad_(), torch.from_numpy(queries)
def gradient(find):
    loss = torch.compile(lambda points: find(points, queries[0])[0].sum(), fullgraph=True, backend="aot_eager")
    return torch.autograd.grad(loss(points), points)[0].numpy()
same(gradient(ours), gradient(by_hand.find))
def mapped(find):
    return [t.numpy() for t in torch.vmap(find, (None, 0))(points.detach(), queries)]
same(mapped(ours), mapped(by_hand.find))
"""
