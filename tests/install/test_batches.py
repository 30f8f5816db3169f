"""Containers of tensors as results of nanobind's functions, with <isthmus/nanobind_stl.h> and no other header."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import compiling
import pytest

isthmus = pytest.importorskip("isthmus")

pytestmark = pytest.mark.skipif("ISTHMUS_SANITIZER" in os.environ, reason="the compiler would run under the sanitizer")

SOURCE = """
#include <isthmus/nanobind_stl.h>
#include <string>
using namespace isthmus;
using Floats = Argument<View<const float, 1>, "x">;
using Numpy = As<Framework::numpy>;

static Tensor made(const Floats& x) { return copy_of(*x).value(); }
static Reply reply(const Floats& x) { return x.reply(made(x)); }

NB_MODULE(batches, m) {
    m.def("tensors", [](Floats x) { return std::vector<Tensor>{made(x), made(x)}; });
    m.def("arrays", [](Floats x) { return std::vector<Numpy>{made(x), made(x)}; });
    m.def("replies", [](Floats x) { return std::vector<Reply>{reply(x), reply(x)}; });
    m.def("listed", [](Floats x) { return std::list<Reply>{reply(x), reply(x)}; });
    m.def("fixed", [](Floats x) { return std::array<Reply, 2>{reply(x), reply(x)}; });
    m.def("nested", [](Floats x) { return std::vector<std::vector<Reply>>{{reply(x)}, {}}; });
    m.def("pair", [](Floats x) { return std::pair<Reply, int>{reply(x), 2}; });
    m.def("tuple", [](Floats x) { return std::tuple<Tensor, Numpy, Reply>{made(x), made(x), reply(x)}; });
    m.def("map", [](Floats x) { return std::map<std::string, Reply>{{"a", reply(x)}}; });
    m.def("unordered", [](Floats x) { return std::unordered_map<std::string, Tensor>{{"a", made(x)}}; });
    m.def("maybe", [](Floats x, bool some) { return some ? std::optional<Reply>(reply(x)) : std::nullopt; });
    m.def("either", [](Floats x, bool some) { return some ? std::variant<Reply, int>(reply(x)) : 2; });
    m.def("total", [](const std::vector<Tensor>& batch) {
        std::int64_t count = 0;
        for (const Tensor& t : batch) count += t.numel();
        return count;
    });
}
"""
USE = """
import batches, isthmus, numpy as np
x = np.ones(3, np.float32)
kinds = lambda result: [type(each) for each in result]
assert kinds(batches.tensors(x)) == [isthmus.Tensor] * 2
for made in (batches.arrays(x), batches.replies(x), batches.listed(x), batches.fixed(x), batches.nested(x)[0] * 2):
    assert kinds(made) == [np.ndarray] * 2 and made[0].tolist() == [1, 1, 1], made
assert kinds(batches.pair(x)) == [np.ndarray, int]
assert kinds(batches.tuple(x)) == [isthmus.Tensor, np.ndarray, np.ndarray]
assert kinds(batches.map(x).values()) == [np.ndarray] and kinds(batches.unordered(x).values()) == [isthmus.Tensor]
assert type(batches.maybe(x, True)) is np.ndarray and batches.maybe(x, False) is None
assert type(batches.either(x, True)) is np.ndarray and batches.either(x, False) == 2
assert batches.total([x, x]) == 6
"""


def test_results_in_containers(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    pytest.importorskip("nanobind_backend", reason="nanobind-backend is not installed")
    nanobind = compiling.package_folder("nanobind")
    if nanobind is None:
        pytest.skip("nanobind is not installed")
    (tmp_path / "batches.cpp").write_text(SOURCE)
    split = ["-DNB_BACKEND_MODULE=nanobind_backend", "-DPy_LIMITED_API=0x030A0000", f"-isystem{nanobind / 'include'}"]
    flags = ["-O0", *isthmus.get_cflags(abi3=True), *split, "-shared", "-Wl,-z,now"]
    command = [compiling.CXX, *flags, "batches.cpp", "-o", "batches.abi3.so"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([sys.executable, "-c", USE], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
