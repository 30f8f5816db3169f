"""A result that shows the memory of an instance keeps it: by PyOwner, reference_internal and keep_alive,
in every framework."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import libraries
import processes
import pytest
from casters import CASTERS

#: How the memory leaves the instance, and what is then made of the result: the instance must live as long as `x`.
WAYS = {
    "reference_internal": "grid.tensor()",
    "reference_internal, As<numpy>": "grid.numpy()",
    "reference_internal, As<torch>": "grid.torch()",
    "reference_internal, Reply to NumPy": "grid.like(np.zeros(1, np.float32))",
    "reference_internal, Reply to torch": "grid.like(torch.zeros(1))",
    "a property": "grid.cells",
    "a property of a stored tensor": "grid.member",
    "keep_alive": "grid.kept_alive()",
    "keep_alive of a part": "grid.part_kept_alive()",
    "keep_alive of a part of a part": "grid.part_kept_alive()[0:]",
    "keep_alive, As<numpy>": "grid.numpy_kept_alive()",
    "PyOwner": "grid.owned()",
    "PyOwner of a span": "grid.owned_elements()",
    "an owner that wants the instance": "grid.counted()",
}
EXITS = {
    "as it is": "np.asarray(x)",
    "numpy": "np.from_dlpack(x)[1:]",
    "torch": "torch.from_dlpack(x).detach()[1:]",
    "capsule": "np.from_dlpack(Capsule(x))",
    "buffer": "np.asarray(memoryview(x))",
}
if libraries.is_usable("jax"):
    EXITS["jax"] = "tensor_to(x, 'jax')"
#: What `np.from_dlpack` understands.
MAX_VERSION = (1, 0) if libraries.NUMPY_KNOWS_VERSIONS else None
CODE = """
import gc, importlib, numpy as np, torch
Grid = importlib.import_module({ext!r}).Grid
gc.freeze()  # what torch has made takes a collection a third of a second

class Capsule:
    def __init__(self, x):
        self.capsule = x.__dlpack__(max_version={max_version})
    def __dlpack_device__(self):
        return (1, 0)
    def __dlpack__(self, **_):
        return self.capsule

def tensor_to(x, framework):
    if type(x).__module__ != "isthmus":
        raise TypeError("no isthmus.Tensor")
    return x.to(framework)

def leave(way, out):
    grid = Grid()
    x = eval(way)
    del grid
    gc.collect()
    assert Grid.alive() == 1, "the result keeps the instance"
    return eval(out, dict(globals(), x=x))

def check(way, name, out):
    try:
        y = leave(way, out)
    except (TypeError, AttributeError) as error:  # a torch.Tensor has no buffer, an ndarray no capsule of this kind
        assert name in ("buffer", "capsule", "jax"), error
        return
    gc.collect()
    assert float(y.reshape(-1)[-1]) == 15 and Grid.alive() == 1, "alive until the end"
    del y
    gc.collect()
    assert Grid.alive() == 0, "and let go then"

for title, way in {ways!r}.items():
    for name, out in {exits!r}.items():
        print(title, "->", name, flush=True)
        check(way, name, out)
"""


@pytest.fixture(params=CASTERS)
def ext(request) -> Path:
    pytest.importorskip("torch")
    found = importlib.util.find_spec(request.param)
    if found is None or found.origin is None:
        pytest.skip(f"{request.param} was not built: its library is not installed")
    return Path(found.origin)


@pytest.mark.slow
def test_the_instance_lives_as_long_as_what_shows_its_memory(ext: Path) -> None:
    code = CODE.format(ext=ext.name.split(".")[0], ways=WAYS, exits=EXITS, max_version=MAX_VERSION)
    done = processes.run_python(code, ext.parent)
    assert len(done.stdout.splitlines()) == len(WAYS) * len(EXITS)


def test_who_the_owner_is(ext: Path) -> None:
    code = f"""
    import gc, {ext.name.split(".")[0]} as ext
    grid = ext.Grid()
    for x in (grid.tensor(), grid.cells, grid.member, grid.counted(), grid.owned(), grid.owned_elements()):
        assert x.owner is grid, x
    assert grid.copied().owner is None, "memory of its own needs nobody"
    x = grid.counted()
    before = ext.Grid.sum_at_the_end()
    del grid, x
    gc.collect()
    assert ext.Grid.alive() == 0 and ext.Grid.sum_at_the_end() == before + 15, "the owner ends before the instance"
    """
    processes.run_python(code, ext.parent)
