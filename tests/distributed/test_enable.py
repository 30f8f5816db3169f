"""isthmus.distributed.enable and disable, whatever the engine."""

from __future__ import annotations

import copyreg
import importlib.util
import io
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler

import pytest

isthmus = pytest.importorskip("isthmus", reason="isthmus is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("jax", reason="JAX is not installed")


ENGINES = ("ray", "dask", "multiprocessing", "joblib", "mpi4py")


@pytest.mark.parametrize("call", [isthmus.distributed.enable, isthmus.distributed.disable])
@pytest.mark.parametrize("engine", ["spark", "", None, 3, "Ray"])
def test_an_unknown_engine_is_an_error_that_names_the_known_ones(call, engine):
    with pytest.raises(isthmus.Error, match="engine") as caught:
        call(engine)
    assert repr(engine) in str(caught.value)
    assert all(repr(known) in str(caught.value) for known in ENGINES)


@pytest.mark.parametrize("policy", ["readonly", None, True])
def test_an_unknown_policy_is_an_error_that_names_the_known_ones(policy):
    with pytest.raises(isthmus.Error, match="read_only") as caught:
        isthmus.distributed.enable("multiprocessing", read_only=policy)
    assert all(repr(known) in str(caught.value) for known in ("copy_on_write", "tensor", "copy"))
    assert ForkingPickler._extra_reducers[torch.Tensor].__module__.startswith("torch")


def test_an_engine_that_is_not_installed_is_an_error_that_says_so():
    program = """
import sys, importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "mpi4py" else find(name, *rest)
import isthmus
try:
    isthmus.distributed.enable("mpi4py")
except isthmus.Error as error:
    print(error.code, error)
"""
    assert "unavailable argument 'engine': 'mpi4py', but mpi4py is not installed" in run(program)


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_disable_restores_what_was_there_and_twice_is_once():
    before, own = dict(ForkingPickler._extra_reducers), dict(vars(ForkingPickler))
    isthmus.distributed.enable("multiprocessing")
    during = dict(ForkingPickler._extra_reducers)
    isthmus.distributed.enable("multiprocessing", "copy")
    assert ForkingPickler._extra_reducers == during
    assert during[torch.Tensor] is not before[torch.Tensor]
    isthmus.distributed.disable("multiprocessing")
    assert ForkingPickler._extra_reducers == before
    isthmus.distributed.disable("multiprocessing")
    assert ForkingPickler._extra_reducers == before
    assert dict(vars(ForkingPickler)) == own


def test_what_somebody_else_registered_since_stays():
    isthmus.distributed.enable("multiprocessing")
    ours = ForkingPickler._extra_reducers[torch.Tensor]

    def theirs(x):
        return ours(x)

    ForkingPickler.register(torch.Tensor, theirs)
    isthmus.distributed.disable("multiprocessing")
    assert ForkingPickler._extra_reducers[torch.Tensor] is theirs
    ForkingPickler.register(torch.Tensor, torch.multiprocessing.reductions.reduce_tensor)


def test_no_framework_is_imported_and_one_imported_later_is_taken_in():
    out = run("""
import sys, isthmus
from multiprocessing.reduction import ForkingPickler
finders = list(sys.meta_path)
isthmus.distributed.enable("multiprocessing")
print([name for name in ("torch", "jax", "numpy", "tensorflow") if name in sys.modules])
import torch, jax
reducers = ForkingPickler._extra_reducers
print(reducers[torch.Tensor].__module__, type(jax.numpy.ones(3)) in reducers)
import torch.nn
isthmus.distributed.disable("multiprocessing")
reducers = ForkingPickler._extra_reducers
print(reducers[torch.Tensor].__module__, type(jax.numpy.ones(3)) in reducers)
print(sys.meta_path == finders)
""")
    assert out.splitlines() == [
        "[]",
        "isthmus.distributed.frameworks True",
        "torch.multiprocessing.reductions False",
        "True",
    ]


def test_disabled_before_the_framework_is_imported():
    out = run("""
import sys, isthmus
isthmus.distributed.enable("multiprocessing")
isthmus.distributed.disable("multiprocessing")
import torch
from multiprocessing.reduction import ForkingPickler
print(ForkingPickler._extra_reducers[torch.Tensor].__module__)
""")
    assert out.strip() == "torch.multiprocessing.reductions"


def test_copyreg_and_checkpoints_are_left_alone():
    before = dict(copyreg.dispatch_table)
    isthmus.distributed.enable("multiprocessing")
    if importlib.util.find_spec("joblib") is not None:
        isthmus.distributed.enable("joblib")
    assert copyreg.dispatch_table == before
    file = io.BytesIO()
    torch.save({"w": torch.nn.Parameter(torch.ones(1000, 1000))}, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True)["w"], torch.ones(1000, 1000))


def test_stats_has_its_names():
    assert {"shared", "copy_on_write", "copied"} <= set(isthmus.distributed.stats())
