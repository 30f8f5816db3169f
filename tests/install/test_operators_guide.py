"""The first program of docs/operators.md, built as it stands there, and what is said of it."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

isthmus = pytest.importorskip("isthmus")
nanobind = pytest.importorskip("nanobind")

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "operators.md").read_text()

USE = """
import sys, geo, numpy as np, torch, jax
assert "isthmus" not in sys.modules
x, y = np.random.rand(7, 5, 3).astype("f4"), np.random.rand(4, 3).astype("f4")
expected = ((x[:, :, None] - y) ** 2).sum(-1)
def same(got, expected): assert np.allclose(np.asarray(got), expected, rtol=1e-4)
same(geo.distance(x[0], y), expected[0])
same(torch.compile(geo.distance, fullgraph=True, backend="aot_eager")(torch.tensor(x[0]), torch.tensor(y)), expected[0])
same(jax.jit(jax.vmap(geo.distance, (0, None)))(x, y), expected)
same(geo.distance.ufunc(x, y), expected)
print(geo.distance.ufunc.signature)
"""


@pytest.mark.slow
def test_the_first_program(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    (tmp_path / "geo.cpp").write_text(re.findall(r"(?ms)^```cpp\n(.*?)^```$", GUIDE)[0])
    folder = Path(nanobind.include_dir()).parent
    headers = [nanobind.include_dir(), folder / "ext" / "robin_map" / "include", sysconfig.get_path("include")]
    flags = ["-O0", "-shared", *isthmus.get_cflags(), *(f"-I{path}" for path in headers)]
    sources = ["geo.cpp", folder / "src" / "nb_combined.cpp"]
    module = f"geo{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = ["c++", *flags, *sources, *isthmus.get_ldflags(), "-o", module]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=600)
    done = subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, "(n,d),(m,d)->(n,m)\n"), done.stderr


SINE = """
using Floats = View<const double, 1, sizes<"n">>;
void sine(Floats x, Out<double, 1, sizes<"n">> y);
void sine_gradient(Floats grad_y, Floats x, Out<double, 1, sizes<"n">> grad_x);
"""


@pytest.mark.parametrize(("block", "before"), [(2, ""), (3, SINE)], ids=["gradient", "jvp"])
def test_a_derivative_compiles(block: int, before: str, tmp_path: Path) -> None:
    functions, registration = re.findall(r"(?ms)^```cpp\n(.*?)^```$", GUIDE)[block].split("\n\n")
    (tmp_path / "derivative.cpp").write_text(
        f"#include <isthmus/op.h>\nusing isthmus::View, isthmus::Out, isthmus::sizes;\n{before}"
        f"{functions}\nvoid bind(PyObject* m) {{ {registration} }}\n"
    )
    command = ["c++", "-fsyntax-only", *isthmus.get_cflags(), f"-I{sysconfig.get_path('include')}", "derivative.cpp"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
