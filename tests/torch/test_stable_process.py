"""When torch comes, and how it goes: each story in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import libraries
import processes
import pytest

ext = pytest.importorskip("isthmus_torch_stable_ext")

HERE = Path(__file__).resolve().parent


def test_torch_is_imported_later(run_script) -> None:
    run_script("""
import sys, numpy as np, isthmus_torch_stable_ext as ext
a = np.arange(3.0)
assert ext.own(a)["data"] == a.ctypes.data
assert "torch" not in sys.modules
import torch
x = torch.ones(3)
assert ext.there_and_back(x) is x
""")


def test_torch_is_not_imported_at_all(run_script) -> None:
    run_script("""
import sys, isthmus_torch_stable_ext as ext
Fake = type("Tensor", (), {"__module__": "torch"})
for x in (Fake(), object(), None, 3):
    try:
        ext.own(x)
    except TypeError as error:
        assert "expected a tensor" in str(error), error
    else:
        raise AssertionError
assert "torch" not in sys.modules
""")


def test_the_way_out_imports_torch(run_script) -> None:
    run_script("""
import sys, isthmus_torch_stable_ext as ext
n = ext.buffer(4)
assert "torch" not in sys.modules
x = ext.give(n, "torch")
assert type(x) is sys.modules["torch"].Tensor and x.tolist() == [0, 1, 2, 3]
""")


@libraries.from_torch("2.14", "a torch that is taken out of sys.modules is still known")
def test_torch_is_forgotten_and_imported_again(run_script) -> None:
    run_script("""
import sys, torch, isthmus_torch_stable_ext as ext
x = torch.ones(3)
assert ext.there_and_back(x) is x
kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "torch"}
class Later(torch.Tensor): pass
y = torch.ones(3).as_subclass(Later)
assert ext.own(y)["shape"] == (3,) and ext.there_and_back(x) is x
try:
    import torch as again
except Exception:
    pass  # torch itself does not bear it
assert ext.there_and_back(x) is x
""")


def test_torch_is_broken(run_script, tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("raise ImportError('broken on purpose')")
    run_script(f"""
import sys
sys.path.insert(0, {str(tmp_path)!r})
import isthmus_torch_stable_ext as ext
n = ext.buffer(4)
try:
    ext.give(n, "torch")
except BufferError as error:
    assert error.code == "unavailable" and "broken on purpose" in str(error), error
else:
    raise AssertionError
ext.drop(n)
assert ext.buffers() == 0
""")


def test_a_module_called_torch_that_is_none(run_script) -> None:
    run_script("""
import sys, types
fake = types.ModuleType("torch"); fake.Tensor = type("Tensor", (), {})
sys.modules["torch"] = fake
core = sys.modules["torch._C"] = types.ModuleType("torch._C"); core.TensorBase = fake.Tensor
import isthmus_torch_stable_ext as ext
try:
    ext.own(fake.Tensor())
except (TypeError, BufferError, ValueError):
    pass
else:
    raise AssertionError
n = ext.buffer(4)
try:
    ext.give(n, "torch")
except (BufferError, TypeError, ValueError):
    pass
else:
    raise AssertionError
""")


@pytest.mark.parametrize("hidden", ["0", "1"])
def test_the_interpreter_ends_with_tensors_on_both_sides(run_script, hidden: str) -> None:
    code = """
import torch, isthmus_torch_stable_ext as ext
x = torch.ones(1000); x.note = "python's"
ext.keep(x)
ext.keep_until_exit(ext.keep(torch.ones(10, requires_grad=True) * 2))
n = ext.buffer(1000)
mine = ext.give(n, "torch")
view = mine[3:]
ext.drop(n)
ext.keep_until_exit(ext.keep(mine))
torch.kept_by_the_module = ext.give(ext.buffer(10), "torch")
"""
    assert run_script(code, ISTHMUS_NO_TORCH_SHIMS=hidden).stderr == ""


def test_threads_drop_while_the_interpreter_ends(run_script) -> None:
    code = """
import torch, isthmus_torch_stable_ext as ext
for i in range(60):
    x = torch.ones(10); x.note = i
    ext.drop_later(ext.keep(x), 500 * i)
    n = ext.buffer(10); y = ext.give(n, "torch"); y.note = i
    ext.drop_later(n, 500 * i)
    ext.drop_later(ext.keep(y), 700 * i)
"""
    for _ in range(3):
        run_script(code)


def test_two_extensions_share_a_tensor(run_script, tmp_path: Path) -> None:
    """An isthmus.Tensor over a torch handle reaches an extension that has met no tensor of torch yet."""
    other = tmp_path / Path(ext.__file__).name
    other.write_bytes(Path(ext.__file__).read_bytes())
    run_script(f"""
import importlib.util, torch, isthmus_torch_stable_ext as first
spec = importlib.util.spec_from_file_location("isthmus_torch_stable_ext", {str(other)!r})
second = importlib.util.module_from_spec(spec); spec.loader.exec_module(second)
assert second is not first
x = torch.ones(3); x.note = "kept"
n = first.keep(x)
shared = first.give(n, "tensor")
m = second.keep(shared)
first.drop(n)
assert second.give(m, "torch") is x and "torch.Tensor" in repr(shared), repr(shared)
del shared, x
assert second.give(m, "torch").note == "kept"
second.drop_on_thread(m)
""")


@pytest.mark.skipif(bool(os.environ.get("ISTHMUS_TEST_INNER")), reason="this is the inner run")
@pytest.mark.parametrize(
    "without",
    [
        {"ISTHMUS_TEST_NO_UNPROMISED": "1"},
        {"ISTHMUS_NO_TORCH_SHIMS": "1"},
        {"ISTHMUS_NO_TORCH_SHIMS": "1", "ISTHMUS_TEST_NO_EXCHANGE_API": "1"},
    ],
    ids=["unpromised", "shims", "exchange API"],
)
def test_without(without: dict[str, str]) -> None:
    """Everything above, as another torch would offer it: one that hides what it never promised, or an older one."""
    environment = processes.environment(Path(ext.__file__).parent, **without, ISTHMUS_TEST_INNER="1")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(HERE / "test_stable.py")],
        env=environment, cwd=HERE.parent.parent, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
