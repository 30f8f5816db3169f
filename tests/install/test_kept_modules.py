"""Modules of the stable ABI that were compiled with the headers of an earlier commit, on the backend of today."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import compiling
import pytest

isthmus = pytest.importorskip("isthmus")
pytest.importorskip("numpy")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

ROOT = Path(__file__).resolve().parents[2]
KEPT = Path(__file__).parent / "kept"
#: Commits whose headers somebody may have compiled with, by the number of rows, and the modules made with each.
#: One more after each release.
COMMITS = {
    174: ("82c272aae23e4a674e23ad41e1cfb730043e3141", ("bare", "operators", "structs", "split")),
    195: ("9268c285314b013703911c60189c044fc5ba83b5", ("bare", "memory")),
}
USES = {
    "bare": """
import bare, json, struct
x = np.arange(4, dtype=np.float32)
assert bare.borrowed_sum(x) == 6 and bare.back(x) is x
assert bare.parts(x).tolist() == [0, 5] and not bare.parts(x).flags.writeable
assert bare.scaled(x, x.astype(np.int16), negative=True).tolist() == [0, -1, -4, -9]
assert bare.alive() == "1 C++ 24"
header = json.dumps({"__metadata__": {"made": "here"}, "x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}})
header += " " * (-len(header) % 8)
path = sys.argv[1] + "/x.safetensors"
open(path, "wb").write(struct.pack("<Q", len(header)) + header.encode() + bytes(4))
assert bare.loaded(path) == "x made=here float32"
t = isthmus.empty((3,), "float32")
assert bare.back(t) is t
raises(TypeError, "argument 'x'", bare.borrowed_sum, 3)
raises(TypeError, "'b'", bare.scaled, x)
raises(ValueError, "scaled(): argument 'b'", bare.scaled, x, x[:2])
raises(isthmus.Error, "nowhere", bare.loaded, "nowhere")
""",
    "operators": """
import operators
x = np.arange(6, dtype=np.float32).reshape(2, 3)
assert operators.scaled(x[0]).tolist() == [0, 2, 4] and operators.scaled(x, 3.0).tolist()[1] == [9, 12, 15]
assert operators.scaled.ufunc(x, 2.0).tolist() == (2 * x).tolist()
raises(ValueError, "the kernel says no", operators.fails, x[0])
raises(IndexError, "far out", operators.fails, x[1])
""",
    "structs": """
import structs
csr = {"indptr": np.zeros(2, np.int32), "values": np.ones(3)}
assert structs.total(csr) == 3
assert {name: value.shape for name, value in structs.grown(csr).items()} == {"indptr": (2,), "values": (1,)}
assert structs.leaves({"a": [csr["values"], csr["values"]]}).count(";") == 2
raises(TypeError, "values", structs.total, {"indptr": csr["indptr"]})
""",
    "memory": """
import memory, os, socket, isthmus.shared
for t in (memory.pooled(), memory.cut()):
    assert isthmus.shared.is_shared(t)
ends = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
came = memory.passed(ends[0].fileno(), ends[1].fileno(), np.arange(3.0))
assert came.read_only and np.asarray(came).tolist() == [0, 1, 2]
raises(isthmus.Error, "is not a socket", memory.passed, os.open(os.devnull, os.O_RDONLY), 0, came)
""",
    "split": """
import split
x = np.arange(3.0)
assert split.total(x) == 3 and split.total(x.astype(np.float32)) == -1
assert isinstance(split.back(x), isthmus.Tensor) and split.like(x).shape == (3,) and split.count([x, x]) == 2
raises(TypeError, "x", split.like, 3)
""",
}
PREAMBLE = """
import gc, sys
import isthmus, numpy as np

def raises(kind, words, call, *arguments):
    try:
        call(*arguments)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(words)
"""


def headers_of(commit: str) -> Path:
    """`include` as it was."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("no git repository: the headers of an earlier commit are not here")
    archive = subprocess.run(
        [git, "archive", "--format=zip", commit, "include"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode != 0:
        pytest.skip(f"a shallow clone: commit {commit[:12]} is not here (git fetch --unshallow)")
    folder = compiling.BUILT / "kept" / commit
    if not folder.exists():
        part = folder.with_name(f"{commit}.{os.getpid()}")
        with zipfile.ZipFile(io.BytesIO(archive.stdout)) as members:
            members.extractall(part)
        try:
            part.rename(folder)
        except OSError:
            shutil.rmtree(part)
    return folder / "include"


def compiled(kind: str, headers: Path) -> Path:
    flags = [f"-I{headers}", *isthmus.get_cflags(abi3=True)]  # which also know where <dlpack/dlpack.h> is
    if kind == "split":
        nanobind = pytest.importorskip("nanobind", "3.0", reason="nanobind before 3.0 has no split mode")
        pytest.importorskip("nanobind_backend")
        flags += [
            f"-I{nanobind.include_dir()}",
            "-DNB_BACKEND_MODULE=nanobind_backend",
            "-DNB_DOMAIN=kept",
            "-DPy_LIMITED_API=0x030A0000",
        ]
    return compiling.compiled(
        f"{kind}.abi3.so", [compiling.CXX, *flags, "-O1", "-shared", "-Wl,-z,now", KEPT / f"{kind}.cpp"]
    )


@pytest.mark.parametrize(("rows", "kind"), [(rows, kind) for rows, (_, kinds) in COMMITS.items() for kind in kinds])
def test_a_module_of_an_earlier_commit_runs(rows: int, kind: str, tmp_path: Path) -> None:
    if kind == "memory" and not hasattr(os, "memfd_create"):
        pytest.skip("this system has no memfd")
    headers = headers_of(COMMITS[rows][0])
    assert f"ISTHMUS_BACKEND_COUNT {rows}\n" in (headers / "isthmus" / "backend" / "functions.h").read_text()
    folder = compiled(kind, headers)
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    done = subprocess.run(
        [sys.executable, "-c", PREAMBLE + USES[kind], tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
