"""The way out to JAX by jaxlib's own entry: the array that jax.dlpack.from_dlpack makes, or that function itself."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from waiting import eventually

jax = pytest.importorskip("jax")
isthmus = pytest.importorskip("isthmus")
import jax.numpy as jnp  # noqa: E402

SHAPES: list[tuple[int, ...]] = [(), (3,), (2, 0, 3), (1, 1), (4, 5)]
DTYPES = [
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "uint32",
    "float16",
    "bfloat16",
    "float32",
    "complex64",
    "float8_e4m3fn",
]


def aligned(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """JAX copies what is not aligned to 64 bytes."""
    kind = jnp.dtype(dtype)
    memory = np.ones(int(np.prod(shape)) * kind.itemsize + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start : memory.size - 64 + start].view(kind).reshape(shape)


def facts(array: jax.Array) -> tuple:
    """What JAX tells two arrays apart by, and the memory."""
    return (
        type(array),
        array.aval,
        array.weak_type,
        array.committed,
        array.sharding,
        array.dtype,
        array.shape,
        array.size and array.unsafe_buffer_pointer(),  # one without elements has memory of its own
    )


def both(tensor: isthmus.Tensor) -> tuple[jax.Array, jax.Array]:
    return jax.dlpack.from_dlpack(tensor), tensor.to("jax")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_the_array_that_from_dlpack_makes(dtype: str, shape: tuple[int, ...]) -> None:
    public, ours = both(isthmus.from_dlpack(aligned(shape, dtype)))
    assert facts(ours) == facts(public)
    assert np.asarray(ours).tobytes() == np.asarray(public).tobytes()


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex128"])
def test_wide_dtypes_within_the_setting_of_a_thread(dtype: str) -> None:
    tensor = isthmus.from_dlpack(aligned((3,), dtype))
    enabled = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
    with enabled(True):
        public, ours = both(tensor)
        assert facts(ours) == facts(public)
    with enabled(False), pytest.raises(isthmus.Error, match=r"call jax\.config\.update"):
        tensor.to("jax")


def test_compiled_functions_do_not_tell_them_apart() -> None:
    public, ours = both(isthmus.from_dlpack(aligned((4,))))
    twice = jax.jit(lambda x: x * 2)
    twice(public)
    compiled = twice._cache_size()
    assert twice(ours).tolist() == twice(public).tolist()
    assert twice._cache_size() == compiled
    assert jax.grad(lambda x: (x * x).sum())(ours).tolist() == jax.grad(lambda x: (x * x).sum())(public).tolist()


def test_inside_a_traced_function() -> None:
    tensor = isthmus.from_dlpack(aligned((4,)))
    made = []

    def body(x: jax.Array) -> jax.Array:
        made.extend(both(tensor))
        return x + made[0] + made[1]

    jax.jit(body)(jnp.ones(4))
    assert facts(made[0]) == facts(made[1])


@pytest.mark.parametrize("end", ["delete", "donate", "drop"])
def test_the_memory_ends_with_the_array(end: str) -> None:
    memory = aligned((1024,))
    before = sys.getrefcount(memory)
    array = isthmus.from_dlpack(memory).to("jax")
    assert sys.getrefcount(memory) > before
    if end == "delete":
        array.delete()
    elif end == "donate":
        jax.jit(lambda x: x + 1, donate_argnums=0)(array).block_until_ready()
    del array
    eventually(lambda: sys.getrefcount(memory) == before)  # what was donated, by the thread that computed


def test_after_the_backends_were_cleared() -> None:
    run("""
        import jax.extend
        tensor = isthmus.from_dlpack(memory)
        tensor.to("jax")
        jax.extend.backend.clear_backends()
        array = tensor.to("jax")
        assert array.device is jax.devices("cpu")[0]
        assert (array + 1).tolist() == [1, 1, 1, 1]
    """)


PROGRAM = """
import numpy as np, jax, jaxlib._jax as entry, isthmus
raw = np.zeros(128, np.uint8)
memory = raw[-raw.ctypes.data % 64 :][:16].view(np.float32)
real, calls = entry.dlpack_managed_tensor_to_buffer, []
public_real, public = jax.dlpack.from_dlpack, []
def count(*arguments):
    public.append(1)
    return public_real(*arguments)
jax.dlpack.from_dlpack = count
"""


def run(body: str) -> None:
    if importlib.util.find_spec("jaxlib._jax") is None:
        pytest.skip(
            f"jaxlib {jax.lib.__version__} has no module _jax, whose entry is counted here; jaxlib 0.10 has one"
        )
    code = PROGRAM + textwrap.dedent(body)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_public_function_is_called_once() -> None:
    run("""
        tensor = isthmus.from_dlpack(memory)
        arrays = [tensor.to("jax") for _ in range(5)]
        assert len(public) == 1
    """)


def remade(aval: str, committed: bool) -> str:
    """The entry of a version that leaves its array to from_dlpack to finish."""
    return (
        "entry.dlpack_managed_tensor_to_buffer = lambda *a: (lambda x:"
        f" type(x)({aval}, x.sharding, [x], {committed}, _skip_checks=True))(real(*a))"
    )


@pytest.mark.parametrize(
    "version",
    [
        remade("x.aval.update(weak_type=True)", True),
        remade("x.aval", False),
        "del entry.dlpack_managed_tensor_to_buffer",
        "entry.dlpack_managed_tensor_to_buffer = lambda capsule, device: real(capsule, device, None, None, 1)",
        "entry.dlpack_managed_tensor_to_buffer = lambda *a: None",
        "import jax.numpy as jnp; entry.dlpack_managed_tensor_to_buffer = lambda *a: jnp.asarray(1.0) + real(*a)",
        "import jax.numpy as jnp; entry.dlpack_managed_tensor_to_buffer = lambda *a: jnp.array(real(*a), copy=True)",
        "import jax._src.xla_bridge as bridge; real_one = bridge.get_backend; bridge.get_backend = lambda: real_one()",
    ],
    ids=[
        "weak-type",
        "uncommitted",
        "no-entry",
        "other-arguments",
        "no-array",
        "another-array",
        "a-copy",
        "other-backend",
    ],
)
def test_a_version_with_another_entry_is_left_alone(version: str) -> None:
    """The entry is replaced for ours alone; JAX's own function keeps the real one."""
    run(f"""
        import types, jax._src.dlpack as own, jax._src.xla_bridge as own_bridge
        own._jax = types.SimpleNamespace(**vars(entry))
        own.xla_bridge = types.SimpleNamespace(**vars(own_bridge))
        {version}
        tensor = isthmus.from_dlpack(memory)
        for _ in range(3):
            array = tensor.to("jax")
            assert array.unsafe_buffer_pointer() == memory.ctypes.data
        # The first look asks for an array of its own where it comes that far.
        assert len(public) in (3, 4), len(public)
    """)


def test_an_entry_that_fails_later_is_made_up_for() -> None:
    run("""
        broken = []
        def entry_that_breaks(*arguments):
            if broken:
                raise RuntimeError("broken")
            return real(*arguments)
        entry.dlpack_managed_tensor_to_buffer = entry_that_breaks
        tensor = isthmus.from_dlpack(memory)
        tensor.to("jax")
        before = len(public)
        broken.append(True)
        import jax._src.dlpack as own, types
        own._jax = types.SimpleNamespace(**{**vars(entry), "dlpack_managed_tensor_to_buffer": real})
        assert tensor.to("jax").unsafe_buffer_pointer() == memory.ctypes.data
        assert len(public) == before + 1
    """)


@pytest.mark.parametrize("first", [False, True])
def test_an_interrupt_is_not_swallowed(first: bool) -> None:
    run(f"""
        import jax._src.dlpack as own, types
        own._jax = types.SimpleNamespace(**vars(entry))  # JAX's own function would answer
        interrupting = []
        def entry_with_interrupt(*arguments):
            if interrupting:
                raise KeyboardInterrupt
            return real(*arguments)
        entry.dlpack_managed_tensor_to_buffer = entry_with_interrupt
        tensor = isthmus.from_dlpack(memory)
        if not {first}:  # the entry is looked for then
            tensor.to("jax")
        interrupting.append(True)
        try:
            tensor.to("jax")
        except KeyboardInterrupt:
            pass
        else:
            raise AssertionError("swallowed")
        interrupting.clear()
        assert type(tensor.to("jax")).__name__ == "ArrayImpl"
    """)
