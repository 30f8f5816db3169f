"""Functions of operators for CUDA, as torch and XLA are told of them. Calls over a stand-in for the driver are among
the cases of tests/python/device; a GPU of its own no test here has."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("hidden", ["0", "1"])
def test_torch_has_the_cuda_kernels_of_those_operators_alone(run_script, hidden):
    pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    code = """
    import torch, isthmus_operators_test_ext as ext, isthmus.operators
    isthmus.operators.register("torch")
    for name in ("add", "add_traced", "add_traced_gradient", "add_to", "distance", "dot"):
        for form in (name, name + "_batched"):
            has = [torch._C._dispatch_has_kernel_for_dispatch_key("geo::" + form, key) for key in ("CPU", "CUDA")]
            assert has == [True, name.startswith("add")], (form, has)
    assert str(torch.ops.geo.add.default._schema) == "geo::add(Tensor x, Tensor y) -> Tensor"
    assert str(torch.ops.geo.add_to.default._schema) == "geo::add_to(Tensor(a!) y, Tensor x) -> ()"
    assert torch.equal(torch.ops.geo.add(torch.ones(3), torch.ones(3)), torch.full((3,), 2.0))
    """
    run_script(code, ISTHMUS_NO_TORCH_SHIMS=hidden)


def test_a_fake_result_is_on_the_device(bare):
    torch = pytest.importorskip("torch")
    pytest.importorskip("isthmus.operators")
    bare.add(torch.ones(1), torch.ones(1))  # from now on torch knows it
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(4, device="cuda")
        result = torch.ops.geo.add(x, x)
    assert result.shape == (4,)
    assert result.device == torch.device("cuda", 0)


def test_xla_is_told_of_both_platforms(run_script):
    pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    code = """
    import jax, isthmus_operators_test_ext as ext, isthmus.operators
    told, register = [], jax.ffi.register_ffi_target
    def listen(name, target, platform):
        told.append((name, platform))
        register(name, target, platform=platform)
    jax.ffi.register_ffi_target = listen
    isthmus.operators.register("jax")
    both = ["cpu", "CUDA"]
    for name, platforms in {"add": both, "add_traced": both, "add_traced_gradient": both, "dot": ["cpu"]}.items():
        assert [p for n, p in told if n == "geo::" + name] == platforms, told
    assert ext.dot._xla_cuda_target is None
    x = jax.numpy.ones(3)
    assert jax.jit(ext.add)(x, x).tolist() == [2, 2, 2]
    """
    run_script(code)


def test_a_program_for_cuda_calls_the_operator(bare):
    jax = pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    allowed = [jax.export.DisabledSafetyCheck.custom_call("geo::add")]
    spec = jax.ShapeDtypeStruct((4,), np.float32)
    exported = jax.export.export(jax.jit(bare.add), platforms=["cuda"], disabled_checks=allowed)(spec, spec)
    assert "geo::add" in exported.mlir_module()


def test_the_cuda_handler_asks_xla_for_its_stream(run_script):
    """Called by XLA on the host, which has none: what XLA says of that comes back whole."""
    pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    code = """
    import jax, numpy as np, isthmus_operators_test_ext as ext
    jax.ffi.register_ffi_target("add_on_cuda", ext.add._xla_cuda_target, platform="cpu")
    spec, x = jax.ShapeDtypeStruct((4,), np.float32), jax.numpy.ones(4)
    call = jax.ffi.ffi_call("add_on_cuda", spec)
    try:
        jax.jit(lambda x: call(x, x, how="tt", rank=np.int64(1)))(x).block_until_ready()
    except jax.errors.JaxRuntimeError as error:
        print(error)
    assert ext.last_call()[2] == 0
    """
    said = run_script(code)
    assert "stream" in said.lower() or "gpu" in said.lower(), said


def test_the_cuda_handler_calls_the_function_with_xlas_stream(run_script):
    """XLA's own call frame of the host, with a table that tells a stream: what a GPU's frame has more than that one."""
    pytest.importorskip("jax")
    pytest.importorskip("isthmus.operators")
    code = """
    import ctypes as ct, jax, numpy as np, isthmus_operators_test_ext as ext

    new, get = ct.pythonapi.PyCapsule_New, ct.pythonapi.PyCapsule_GetPointer
    new.restype, new.argtypes = ct.py_object, (ct.c_void_p, ct.c_char_p, ct.c_void_p)
    get.restype, get.argtypes = ct.c_void_p, (ct.py_object, ct.c_char_p)
    HANDLER = ct.CFUNCTYPE(ct.c_void_p, ct.c_void_p)
    real = HANDLER(get(ext.add._xla_cuda_target, None))
    STREAM, API, GET_STREAM, GET_ORDINAL = 0x5000, 2, 10, 23  # places in words

    def say(value, kind):
        def answer(arguments):
            kind.from_address(arguments + 24).value = value
        return HANDLER(answer)

    answers = {GET_STREAM: say(STREAM, ct.c_void_p), GET_ORDINAL: say(0, ct.c_int32)}
    kept = []

    @HANDLER
    def handler(frame):
        words = (ct.c_void_p * 3).from_address(frame)
        if not words[1]:  # a call, not the question for the handler's version
            size = ct.c_size_t.from_address(words[API]).value
            table = ct.create_string_buffer(ct.string_at(words[API], size), size)
            places = (ct.c_void_p * (size // 8)).from_buffer(table)
            for place, answer in answers.items():
                places[place] = ct.cast(answer, ct.c_void_p).value
            kept.append(table)
            words[API] = ct.addressof(table)
        return real(frame)

    jax.ffi.register_ffi_target("told", new(ct.cast(handler, ct.c_void_p), None, None), platform="cpu")
    spec, x = jax.ShapeDtypeStruct((4,), np.float32), jax.numpy.arange(4.0)
    call = jax.ffi.ffi_call("told", spec)
    result = jax.jit(lambda x: call(x, x, how="tt", rank=np.int64(1)))(x)
    assert result.tolist() == [0, 2, 4, 6], result
    assert ext.last_stream() == STREAM
    assert ext.last_call()[0] == x.unsafe_buffer_pointer()
    """
    run_script(code)


def test_the_places_in_xlas_table_are_those_of_its_header(tmp_path):
    jax, isthmus = pytest.importorskip("jax"), pytest.importorskip("isthmus")
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    source = tmp_path / "places.cpp"
    source.write_text(
        "#include <cstddef>\n#include <cstdint>\n"
        "#include <xla/ffi/api/c_api.h>\n#include <bridge/operators/xla_ffi.h>\n"
        + "".join(
            f"static_assert(offsetof(isthmus::detail::xla::{ours}) == offsetof({theirs}));\n"
            for ours, theirs in {
                "Api, create_error": "XLA_FFI_Api, XLA_FFI_Error_Create",
                "Api, get_stream": "XLA_FFI_Api, XLA_FFI_Stream_Get",
                "Api, get_device_ordinal": "XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get",
                "StreamGetArgs, stream": "XLA_FFI_Stream_Get_Args, stream",
                "DeviceOrdinalGetArgs, ordinal": "XLA_FFI_DeviceOrdinal_Get_Args, device_ordinal",
                "CallFrame, context": "XLA_FFI_CallFrame, ctx",
                "CallFrame, attributes": "XLA_FFI_CallFrame, attrs",
            }.items()
        )
    )
    folders = [
        ROOT / "include",
        ROOT / "src",
        jax.ffi.include_dir(),
        *isthmus.get_includes(),
    ]  # the last one has DLPack's header
    command = [compiler, "-std=c++20", "-fsyntax-only", *(f"-I{folder}" for folder in folders), source]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
