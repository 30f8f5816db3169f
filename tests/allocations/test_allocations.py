"""The short form of `make sweep-allocations`: in every call a few of its allocations fail."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

np = pytest.importorskip("numpy")

SWEEP = Path(__file__).resolve().parent / "sweep.py"
pytestmark = [
    pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the sanitizer has taken malloc for itself"),
    pytest.mark.skipif(sys.platform != "linux", reason="malloc is replaced by names of glibc"),
    pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="objects do not come from malloc"),
]


def sweep(*options: str) -> subprocess.CompletedProcess[str]:
    folders = [option for path in sys.path if path for option in ("--pythonpath", path)]
    command = [sys.executable, SWEEP, *options, *folders]
    return subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.parametrize(
    ("world", "fewest"),
    [("package", 20), ("bridge", 20), ("operators", 20), ("first_uses", 10), ("stand_ins", 10)],
)
def test_each_ends_with_memory_error_or_well(world: str, fewest: int) -> None:
    done = sweep("--short", "--world", world)
    assert done.returncode == 0, done.stdout + done.stderr
    if "not here" in done.stdout:
        pytest.skip(done.stdout.strip())
    assert done.stdout.count(" 0 wrong") > fewest, done.stdout


def test_torchs_lack_of_memory_is_a_memory_error() -> None:
    """libtorch tells it as a text."""
    pytest.importorskip("torch", reason="PyTorch is not installed")
    done = sweep("--world", "torch", "--only", "to_torch")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count(" 0 wrong") == 6, done.stdout


#: Calls that meet most of the library's allocations, each of which fails here: minutes, for tools/mutate.py.
WHOLE = [
    "package.from_dlpack_numpy", "package.from_dlpack_legacy", "package.from_dlpack_interface",
    "package.from_dlpack_arrow", "package.from_dlpack_number", "package.to_blob_buffer", "package.copy_numpy_strided",
    "package.repr", "package.slice", "package.strides", "package.np_asarray", "package.memoryview",
    "package.dlpack_versioned", "package.dlpack_wrong_stream", "package.interface", "package.arrow", "package.reduce",
    "package.dtype_hash", "package.dtype_numpy", "package.live_traced", "package.shared_send_receive", "package.load",
    "bridge.borrow_versioned", "bridge.own_failing", "bridge.hand_numpy", "bridge.argument", "bridge.overloads",
    "bridge.owned", "bridge.list", "bridge.dict", "bridge.hand_like",
    "nanobind.records", "nanobind.events", "nanobind.list", "nanobind.dict", "nanobind.object", "nanobind.tuple",
    "nanobind.struct", "nanobind.tree", "nanobind.made", "nanobind.vector", "nanobind.replies", "nanobind.owned",
    "nanobind.protocol",
    "operators.dot", "operators.shift", "operators.ufunc", "operators.repr", "operators.gradient", "operators.infer",
    "package.shape_large", "package.dtype_equals_text", "package.live_enabled", "package.from_capsule",
    "package.to_capsule", "bridge.own_interface_kept", "bridge.without_owner", "bridge.too_large",
    "bridge.made_a_tensor",
    "nanobind.list_columns", "nanobind.list_as_struct", "nanobind.overloads", "nanobind.tree_of_own",
    "first_uses.import_test", "first_uses.import_operators", "first_uses.nanobind", "stand_ins.",
    "torch.to_torch", "torch.from_dlpack", "torch.made_there",
]  # fmt: skip


@pytest.mark.skipif("ISTHMUS_ALL_ALLOCATIONS" not in os.environ, reason="minutes: by tools/mutate.py")
@pytest.mark.parametrize("call", WHOLE)
def test_every_allocation_of_a_call(call: str) -> None:
    done = sweep("--world", call.partition(".")[0], "--only", call)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_sees_what_goes_wrong() -> None:
    done = sweep("--short", "--world", "itself")
    assert done.returncode == 1, done.stdout + done.stderr
    said = done.stdout
    assert "raises ValueError: swallowed" in said
    assert "blocks in 200 calls" in said
    assert "dies of SIGABRT" in said
    assert "itself.good (warm): " in said
    assert said.count(" 0 wrong") >= 2, said
