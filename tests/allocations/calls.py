"""The calls that the sweep of allocations makes: for each world (what is imported) functions that make a call ready."""

from __future__ import annotations

import ctypes
import functools
import importlib
import importlib.util
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from first_uses import first_uses
from making import Make, as_is, prepared
from stand_ins import stand_ins

WORLDS = ("package", "bridge", "nanobind", "pybind11", "operators", "torch", "first_uses", "stand_ins")
#: Of these no second call is swept, which would be another one.
ONCE = ("first_uses",)


def stack(trace: str) -> list[tuple[str, str]]:
    """(file, function) of the trace, innermost first: of where the process died, if it did."""
    lines = trace.rpartition("died in:\n")[2].splitlines()
    return [(line.partition("!")[0].strip(), line.partition("!")[2]) for line in lines]


def is_binders(module: str, call: str, *own: str) -> Callable[[str], bool]:
    """Whether all that ran of the module in the binder's `call` of a function was the binder's own."""

    def is_its_own(trace: str) -> bool:
        ours = [function for file, function in stack(trace) if file.startswith(module)]
        calls = [i for i, function in enumerate(ours) if function.startswith(call)]
        return bool(calls) and all(function.startswith(own) for function in ours[: calls[0]])

    return is_its_own


is_nanobinds = is_binders("isthmus_nanobind", "nanobind::detail::nb_func_vectorcall", "nanobind::", "nb_")
is_pybind11s = is_binders("isthmus_pybind11", "pybind11::cpp_function::dispatcher", "pybind11::", "std::")


def is_cpythons_loop(trace: str) -> bool:
    """Whether nothing but CPython's own functions ran, below its loop over bytecode."""
    for file, function in stack(trace):
        if function.startswith("_PyEval_EvalFrameDefault"):
            return True
        if not file.startswith(("libpython", "failing_malloc", "libasan", "libc.so", "python")):
            return False
    return False


def is_torchs(trace: str) -> bool:
    """Whether the process died in libtorch."""
    below = ("failing_malloc", "libc.so", "libstdc++", "libgcc_s")
    died = next((file for file, _ in stack(trace) if not file.startswith(below)), "")
    return died.startswith(("libtorch", "libc10"))


def asked_by(function: str) -> Callable[[str], bool]:
    """Whether this function of CPython asked for the memory that the last of the failed calls did not get."""

    def is_first(trace: str) -> bool:
        allocators = ("failing_malloc.so!malloc", "libasan")
        last = trace.rpartition("at last in:\n")[2].splitlines()
        asked = [line for line in last if not line.strip().startswith(allocators)]
        return f"!{function}" in "".join(asked[:2])

    return is_first


def within(function: str) -> Callable[[str], bool]:
    """Whether this function ran when the memory was lacking."""
    return lambda trace: any(other.startswith(function) for _, other in stack(trace))


def is_socketpairs(trace: str) -> bool:
    """Whether the exception came from socket.socketpair(), or has no traceback for lack of memory."""
    raised = {("socket.py", "socketpair"), ("socket.py", "__init__"), ("armed.py", "armed")}
    return not raised.isdisjoint(stack(trace))


def anywhere(_: str) -> bool:
    return True


class Known(NamedTuple):
    """An outcome that is not ours to mend: patterns of the world, of the call and of what is said of it."""

    why: str
    world: str
    call: str
    said: str
    place: Callable[[str], bool] = anywhere


KNOWN = (
    Known(
        "CPython loses the exception if there is no memory for a frame of its traceback",
        *(".*", ".*", ".*SystemError"),
        asked_by("_PyObject_GC_NewVar"),
    ),
    Known(
        "CPython's iterator over a dict's items untracks itself before it is tracked if its tuple has no memory",
        *(".*", ".*", ".*SIGSEGV"),
        within("dictiter_dealloc"),
    ),
    Known(
        "CPython repeats without an end if there is no memory for the place where a handler goes on",
        *(".*", ".*", ".*takes too long"),
        is_cpythons_loop,
    ),
    Known(
        "CPython 3.11 loses the arguments of a call if there is no memory for the cell of one",
        *(".*", ".*", "loses"),
        asked_by("PyCell_New"),
    ),
    Known(
        "CPython loses the list or tuple by which an empty list is extended if there is no memory for its items",
        *(".*", ".*", "loses"),
        asked_by("list_extend"),
    ),
    Known(
        "CPython's assembler writes to freed memory if there is none for another line of its tables",
        *("first_uses|operators", "import_operators|signature", ".*dies of"),
        lambda trace: "!assemble+" in trace,
    ),
    Known(
        "CPython's compiler loses what it has made so far if there is no memory for the rest",
        *("operators", "signature", "loses"),
        lambda trace: "!PyRun_String" in trace,
    ),
    Known("CPython's re loses its state if there is no memory for a repeat", ".*", ".*", "loses", asked_by("sre_")),
    Known(
        "the standard library loses a descriptor while it is a number (socket.socketpair)",
        *("package", "shared_channel", "loses . files"),
        is_socketpairs,
    ),
    Known(
        "CPython keeps a list in its table of those that are printed if there is no memory to take it out",
        *(".*", ".*", "the next call: .*"),
        within("Py_ReprLeave"),
    ),
    Known(
        "NumPy makes dtypes of dicts and texts without asking whether there is memory (arraydescr_new)",
        *(".*", ".*(records|events|times|owned_points)", ".*(dies of|ValueError)"),
        within("arraydescr_new"),
    ),
    Known(
        "CPython's PyType_FromSpec() fails without an exception if there is no memory for the name or the members",
        *("first_uses", "import_", ".*failed without raising an exception"),
        asked_by("PyType_FromModuleAndSpec"),
    ),
    Known(
        "the dynamic linker has its own words for a lack of memory",
        *("first_uses", "import_", "raises ImportError: .*: cannot "),
        within("_dl_"),
    ),
    Known("NumPy frees half of a method without memory (PyArrayMethod_FromSpec_int)", ".*", "ufunc", ".*SIGSEGV"),
    Known(
        "NumPy loses memory when it is asked for the name of such a dtype, with all the memory there is",
        *(".*", ".*(_swapped|_objects|_of_numpy)$", "loses"),
    ),
    Known(
        "the translator of errors is registered with the first error: without memory a binder's own class is raised",
        *("nanobind|pybind11", "(tree_wrong|protocol_failing)", "raises RuntimeError: (argument|no tensor today)"),
        within("nanobind::detail::register_exception_translator"),
    ),
    Known(
        "nanobind makes instances and bound methods without asking whether there is memory",
        *("nanobind|first_uses", "protocol|nanobind_records_returned", ".*dies of"),
        within("nanobind::detail::"),
    ),
    Known(
        "nanobind prints the arguments that it refuses without asking whether there is memory",
        *("nanobind|first_uses", ".*", ".*(dies of|incompatible function arguments)"),
        is_nanobinds,
    ),
    Known(
        "pybind11 makes instances without asking whether there is memory",
        *("pybind11", "protocol", ".*dies of"),
        within("pybind11_"),
    ),
    Known(
        "pybind11 makes texts of results and arguments that it could not convert where no exception may pass",
        *("pybind11", ".*", ".*(dies of SIG(ABRT|SEGV)|incompatible function arguments|Could not allocate)"),
        is_pybind11s,
    ),
    Known(
        "libtorch throws std::bad_alloc where no exception may pass (TensorMaker), or keeps the text of one",
        *("torch", ".*", ".*dies of SIGABRT"),
        is_torchs,
    ),
    Known(
        "torch.from_dlpack() calls the deleter if it has no memory for the tensor, and the capsule calls it again",
        *("torch", "torch_from_dlpack", ".*(SIGSEGV|SIGABRT)"),
        lambda trace: "TensorMaker11make_tensor" in trace,
    ),
    Known("torch's own name for a lack of memory", "torch", ".*", ".*OutOfMemoryError: Failed to allocate a Tensor"),
    Known("a tensor that there is no memory to list is left out of isthmus.live()", ".*", "live_traced$", "0$"),
)


def known(world: str, name: str, said: str, trace: str) -> str:
    """Why an outcome is not ours to mend; "" if it is."""
    for row in KNOWN:
        of_call = re.match(row.world, world) and re.match(row.call, name) and re.match(row.said, said, re.DOTALL)
        if of_call and row.place(trace):
            return row.why
    return ""


class Capsules:
    """A producer of legacy capsules alone."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


class Versioned(Capsules):
    def __dlpack__(self, stream=None, max_version=None, dl_device=None, copy=None) -> Any:
        return self.array.__dlpack__(max_version=max_version)


class Interface:
    def __init__(self, array: Any) -> None:
        self.__array_interface__ = array.__array_interface__
        self.array = array


class Arrow:
    """A producer of Arrow arrays alone."""

    def __init__(self, array: Any) -> None:
        import isthmus

        self.tensor = isthmus.from_dlpack(array)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self.tensor.__arrow_c_array__()


class Failing:
    """A producer that raises."""

    def __dlpack__(self, **_: Any) -> Any:
        raise ValueError("no memory to show")

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def arrow_format(schema: Any) -> bytes | None:
    """The first member of an ArrowSchema."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    try:
        return ctypes.c_char_p.from_address(pointer(schema, b"arrow_schema")).value
    except ctypes.ArgumentError:  # as which ctypes tells a lack of memory
        raise MemoryError from None


def producers() -> dict[str, Callable[[], Any]]:
    import array

    import numpy as np

    def grid() -> Any:
        return np.arange(6, dtype=np.float32).reshape(2, 3)

    def frozen() -> Any:
        frozen = grid()
        frozen.flags.writeable = False
        return frozen

    return {
        "numpy": grid,
        "numpy_strided": lambda: grid()[:, ::2],
        "numpy_frozen": frozen,
        "numpy_swapped": lambda: grid().astype(">f4"),
        "numpy_objects": lambda: np.array([None, 1]),
        "legacy": lambda: Capsules(grid()),
        "versioned": lambda: Versioned(grid()),
        "interface": lambda: Interface(grid()),
        "arrow": lambda: Arrow(np.arange(6.0)),
        "buffer": lambda: bytearray(b"12345678"),
        "array": lambda: array.array("d", [1, 2, 3]),
        "number": lambda: 3,
        "none": lambda: None,
        "list": lambda: [1.0, 2.0],
        "failing": Failing,
    }


def package() -> dict[str, Make]:
    import os
    import tempfile

    import numpy as np

    import isthmus

    table: dict[str, Make] = {}
    for name, make in producers().items():
        table[f"from_dlpack_{name}"] = prepared(make, isthmus.from_dlpack)
        table[f"to_blob_{name}"] = prepared(make, isthmus.to_blob)
        table[f"copy_{name}"] = prepared(make, lambda x: isthmus.from_dlpack(x, copy=True))

    grid = producers()["numpy"]

    def of_tensor(name: str, call: Callable[[Any], Any], make: Callable[[], Any] = grid) -> None:
        table[name] = prepared(lambda: isthmus.from_dlpack(make()), call)

    of_tensor("repr", repr)
    of_tensor("repr_strided", repr, lambda: grid()[:, ::2])
    of_tensor("shape", lambda t: t.shape)
    of_tensor("strides", lambda t: t.strides)
    of_tensor("dtype", lambda t: str(t.dtype))
    of_tensor("device", lambda t: str(t.device))
    of_tensor("owner", lambda t: t.owner)
    of_tensor("index", lambda t: t[1])
    of_tensor("slice", lambda t: t[:, 1:])
    of_tensor("index_wrong", lambda t: t[7])
    of_tensor("iterate", list)
    of_tensor("shape_large", lambda t: t.shape, lambda: np.empty((1000, 2000), np.int8))
    of_tensor("dtype_equals_text", lambda t: t.dtype == "float32")
    of_tensor("to_numpy", lambda t: t.to("numpy"))
    of_tensor("to_capsule", lambda t: t.to("capsule"))
    of_tensor("to_capsule_legacy", lambda t: t.to("capsule_legacy"))
    of_tensor("from_capsule", lambda t: isthmus.from_dlpack(t.__dlpack__(max_version=(1, 3))))
    of_tensor("to_unknown", lambda t: t.to("paper"))
    of_tensor("memoryview", memoryview)
    of_tensor("np_asarray", np.asarray)
    of_tensor("np_from_dlpack", np.from_dlpack)
    of_tensor("dlpack", lambda t: t.__dlpack__())
    of_tensor("dlpack_versioned", lambda t: t.__dlpack__(max_version=(1, 3)))
    of_tensor("dlpack_copy", lambda t: t.__dlpack__(max_version=(1, 3), copy=True))
    of_tensor("dlpack_wrong_stream", lambda t: t.__dlpack__(stream="x"))
    of_tensor("dlpack_device", lambda t: t.__dlpack_device__())
    of_tensor("interface", lambda t: t.__array_interface__["shape"])
    of_tensor("struct", lambda t: t.__array_struct__)
    of_tensor("arrow", lambda t: t.__arrow_c_array__())
    of_tensor("arrow_format", lambda t: arrow_format(t.__arrow_c_array__()[0]))
    of_tensor("arrow_wrong", lambda t: t.__arrow_c_array__(), lambda: grid()[:, ::2])
    of_tensor("dtype_hash", lambda t: hash(t.dtype) and None)
    of_tensor("dtype_equals", lambda t: t.dtype == np.dtype("f4"))
    of_tensor("dtype_numpy", lambda t: str(np.dtype(t.dtype)))
    of_tensor("reduce", lambda t: t.__reduce_ex__(5)[1])
    of_tensor("bool", bool)
    of_tensor("hash", lambda t: hash(t) and None)
    of_tensor("len", len)
    of_tensor("eq", lambda t: t == t)

    def plain(name: str, call: Callable[[], Any]) -> None:
        table[name] = as_is(call)

    plain("empty", lambda: isthmus.empty((2, 3), "float32"))
    plain("empty_large", lambda: isthmus.empty((2048, 3000), "float32"))
    plain("empty_wrong", lambda: isthmus.empty((-2, 3), "float32"))
    plain("dtype_of_name", lambda: str(isthmus.DType("bfloat16")))
    plain("dtype_of_numpy", lambda: str(isthmus.DType(np.dtype("f4"))))
    plain("dtype_of_numbers", lambda: str(isthmus.DType(2, 32, 1)))
    plain("dtype_wrong", lambda: isthmus.DType("float99"))
    plain("device_of_name", lambda: str(isthmus.Device("cuda:1")))
    plain("device_wrong", lambda: isthmus.Device("cpx"))
    plain("trim", isthmus.trim)
    plain("error", lambda: isthmus.Error("x"))

    def live() -> Callable[[], Any]:
        isthmus.live.enable(tracing=True)
        x = grid()

        def call() -> Any:
            t = isthmus.from_dlpack(x)
            said = len(isthmus.live())
            del t
            return said

        return call

    table["live_traced"] = live

    def listing() -> int:
        kept = [isthmus.from_dlpack(listed)]
        isthmus.live.enable()
        try:
            kept.clear()  # which was made before
            return len([isthmus.from_dlpack(listed)]) + len(isthmus.live())
        finally:
            isthmus.live.disable()

    listed = grid()
    plain("live_enabled", listing)

    class Own(np.ndarray):
        """Whose facts are those of its base, which is looked at first."""

    table["from_dlpack_subclass"] = prepared(lambda: grid().view(Own), isthmus.from_dlpack)
    table["from_dlpack_device"] = prepared(lambda: Versioned(grid()), lambda x: isthmus.from_dlpack(x, device="cpu"))
    if importlib.util.find_spec("ml_dtypes") is not None:
        importlib.import_module("ml_dtypes")  # an import within a call takes long
    bfloat16 = isthmus.empty((2, 3), "bfloat16")
    plain("to_numpy_bfloat16", lambda: type(bfloat16.to("numpy")).__name__)
    table["from_blob"] = prepared(lambda: isthmus.to_blob(grid()), isthmus.from_blob)
    table["from_blob_wrong"] = prepared(
        lambda: isthmus.to_blob(grid()) | {"dtype": "x"} if isinstance(isthmus.to_blob(grid()), dict) else {"ptr": 3},
        isthmus.from_blob,
    )

    def shared_empty() -> Any:
        return isthmus.shared.empty((64, 64), "float32")

    plain("shared_empty", shared_empty)
    plain("shared_empty_wrong", lambda: isthmus.shared.empty((-64, 64), "float32"))

    def pair(call: Callable[[Any, Any], Any]) -> Make:
        import socket

        def ready() -> Callable[[], Any]:
            def both() -> Any:
                return call(*ends)

            ends = socket.socketpair()
            for end in ends:
                end.settimeout(5)
            return both

        return ready

    def send_receive(a: Any, b: Any) -> Any:
        isthmus.shared.send(a, tensor)
        return isthmus.shared.receive(b).shape

    tensor = shared_empty()
    table["shared_send_receive"] = pair(send_receive)
    table["shared_send_wrong"] = pair(lambda a, b: isthmus.shared.send(a, {"x": tensor}))

    def load() -> Callable[[], Any]:
        import json
        import struct

        header = json.dumps({"w": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
        folder = tempfile.mkdtemp()
        path = os.path.join(folder, "model.safetensors")
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(header)) + header + bytes(16))
        return lambda: isthmus.load(path)["w"].shape

    table["load"] = load

    def load_gguf() -> Callable[[], Any]:
        import struct

        import isthmus.gguf_file  # which CPython imports at the first file

        text = struct.pack("<Q", 1) + b"w"
        header = b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + text + struct.pack("<IQQIQ", 2, 2, 2, 0, 0)
        path = os.path.join(tempfile.mkdtemp(), "model.gguf")
        with open(path, "wb") as file:
            file.write(header + bytes(-len(header) % 32 + 16))
        return lambda: isthmus.load(path)["w"].shape

    table["load_gguf"] = load_gguf

    def load_npz(savez: Callable[..., None]) -> Make:
        def ready() -> Callable[[], Any]:
            path = os.path.join(tempfile.mkdtemp(), "arrays.npz")
            savez(path, w=grid())
            file = isthmus.load(path)  # not in the call: without memory zipfile's own functions repeat without an end
            return lambda: file["w"].shape

        return ready

    table["load_npz"] = load_npz(np.savez)
    table["load_npz_compressed"] = load_npz(np.savez_compressed)

    def save() -> Callable[[], Any]:
        path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
        x = grid()
        return lambda: isthmus.save(path, {"w": x})

    table["save"] = save

    def channel() -> Callable[[], Any]:
        x = grid()

        def both() -> Any:
            left, right = isthmus.shared.Channel.pair()
            with left, right:
                left.send({"x": x, "step": 3})
                return right.receive()["x"].shape

        return both

    table["shared_channel"] = channel
    plain("load_missing", lambda: isthmus.load("/nowhere/model.safetensors"))
    return table


def bridge() -> dict[str, Make]:
    ext: Any = importlib.import_module("isthmus_test_ext")
    table: dict[str, Make] = {}
    for name, make in producers().items():
        table[f"borrow_{name}"] = prepared(make, ext.borrow)
        table[f"own_{name}"] = prepared(make, ext.own)

        def hand(x: Any) -> Any:
            return ext.hand(ext.tensor_of(x), "numpy") if hasattr(ext, "tensor_of") else None

        table[f"hand_{name}"] = prepared(make, hand)
    import numpy as np

    def interface_kept() -> Callable[[], Any]:
        """Its producer takes the pairs that CPython has kept for the next one."""
        pairs: list[object] = []
        described = dict(row.__array_interface__)

        class Source:
            @property
            def __array_interface__(self) -> Any:
                pairs.extend((i, i) for i in range(8))
                return described

        def call() -> Any:
            try:
                return ext.own(source)
            finally:
                pairs.clear()

        source = Source()
        return call

    a, row = np.ones((2, 3), np.float32), np.ones(3, np.float32)
    t, wide = ext.tensor_of(row), np.arange(3)
    arguments: dict[str, Callable[[], Any]] = {
        "arguments_missing": lambda: ext.distances(a),
        "arguments_unknown": lambda: ext.distances(a, c=a),
        "argument_wrong": lambda: ext.image_height(np.ones((2, 2))),
        "overloads": lambda: ext.dot(row, row),
        "owned": lambda: ext.keep_typed(row, y=np.ones(3)),
        "owned_list": lambda: ext.keep_all_typed([row, wide], True),
        "owned_wrong": lambda: ext.keep_typed(a),
        "list": lambda: ext.total_of([row, row], 2),
        "dict": lambda: ext.total_by_name({"a": row}),
        "dict_wrong": lambda: ext.total_by_name({"a": row, "b": wide}),
        "dict_returned": lambda: ext.named(row),
        "hand_like": lambda: ext.hand_like(t, wide),
        "values": lambda: ext.dtype_back(np.dtype("int8"), "cuda:1"),
        "own_device": functools.partial(ext.own, Versioned(row), device=(1, 0), max_version=(1, 1)),
        "too_large": lambda: ext.ones_like(1 << 70),
        "too_large_by_far": lambda: ext.ones_like(1 << 7000),
        "made_a_tensor": lambda: ext.made_a_tensor(type("Made", (), {})).__name__,
        "capsule": lambda: ext.give(row, "capsule"),
    }
    alone = ext.without_owner(row)
    arguments |= {
        "without_owner_to_numpy": lambda: alone.to("numpy"),
        "without_owner_to_capsule": lambda: alone.to("capsule"),
        "without_owner_dlpack": lambda: alone.__dlpack__(max_version=(1, 3)),
        "without_owner_arrow": lambda: alone.__arrow_c_array__(),
    }

    def many_types() -> Callable[[], Any]:
        """More than have a place in the cache of types."""
        objects = [type(f"Of{i}", (Interface,), {})(row) for i in range(24)]
        return lambda: sum(ext.borrow(x)["shape"][0] for x in objects)

    def like_new_class() -> Callable[[], Any]:
        """The example's class is looked at in the call, and looked for in a package that no other is of."""
        example = wide.view(type("New", (np.ndarray,), {"__module__": "mlx.core"}))
        return lambda: ext.hand_like(t, example)

    table["hand_like_new_class"] = like_new_class
    table["own_interface_kept"] = interface_kept
    table["borrow_many_types"] = many_types
    return table | {name: as_is(call) for name, call in arguments.items()}


def casters(binder: str) -> dict[str, Make]:
    ext: Any = importlib.import_module(f"isthmus_{binder}_test_ext")
    table: dict[str, Make] = {}
    import numpy as np

    repr(producers()["numpy_swapped"]())  # binders print what they refuse, and NumPy's first print is NumPy's
    for name, make in producers().items():
        table[f"sum_{name}"] = prepared(make, ext.sum)
        table[f"count_{name}"] = prepared(make, ext.count)
        table[f"which_{name}"] = prepared(make, ext.which)
        table[f"keep_{name}"] = prepared(make, lambda x: (ext.keep(x), None)[1])
    row, doubles = np.arange(3, dtype=np.float32), np.ones(3)
    for call in ("twice", "twice_there", "twice_replied", "describe", "seen_float32", "signal_sum", "leaves_of"):
        table[call] = prepared(lambda: row, getattr(ext, call))
        table[call + "_doubles"] = prepared(lambda: doubles, getattr(ext, call))
    for call in ("counting", "counting_numpy"):
        table[call] = prepared(lambda: 4, getattr(ext, call))
    table["nothing"] = lambda: ext.nothing
    return table | compound(ext)


def compound(ext: Any) -> dict[str, Make]:
    """Arguments and results of several parts: lists of numbers, records, structs, trees, containers; and values."""
    import copy  # noqa: F401  an import within a call repeats without an end if there is no memory
    import dataclasses  # noqa: F401
    import types
    from collections import OrderedDict, namedtuple

    import numpy as np

    ints, floats = np.array([0, 1, 1, 3], np.int32), np.array([1.0, 2, 4], np.float32)
    matrix = {"indptr": ints, "indices": ints[:3], "data": np.ones(3), "shape": (3, 4)}
    ragged = (np.array([0, 2, 3]), floats)
    Point = namedtuple("Point", "x y")

    class Bag(list):
        """Which copy.copy() copies."""

    class Empty(list):
        """Of which a copy is without elements."""

        def __copy__(self) -> Empty:
            return Empty()

    class Shown:
        """Which only `__array__` shows, in another dtype."""

        def __array__(self) -> Any:
            return ints

    tree = {"a": [floats, (np.ones(2), Point(floats, None))], "step": 3, "bag": Bag([floats])}
    layer = {"weight": np.ones((2, 2), np.float32), "bias": floats[:2]}
    model = {"first": layer, "second": {"weight": layer["weight"]}, "scale": 1.5}
    point = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f8")])
    event = [
        ("at", "M8[ns]"), ("took", "m8[ms]"), ("code", "S8"), ("name", "U8"), ("where", point),
        ("matrix", "f4", (2, 3)), ("good", "?"),
    ]  # fmt: skip
    points, events = np.ones(2, point), np.zeros(1, np.dtype(event, align=True))

    def nothing() -> None:
        pass

    def call(name: str, *arguments: Any) -> Make:
        return lambda: functools.partial(getattr(ext, name), *arguments)

    producer = ext.Producer()
    ext.twice_ragged(ragged)  # which compiles Python code: without memory CPython's compiler ends the process
    return {
        "list": call("numbers_float32", [[1, 2], [3, 4]]),
        "list_of_arrays": call("numbers_float64", [np.arange(3), np.ones(3)]),
        "list_of_scalars": call("numbers_int64", [np.int16(1), np.uint8(2)]),
        "list_of_any": call("numbers_of_any", [[1, 2.5], [3, 4]]),
        "list_uneven": call("numbers_float32", [[1, 2], [3]]),
        "list_of_text": call("numbers_float32", ["1"]),
        "list_columns": call("numbers_columns", [[1, 2], [3, 4]]),
        "list_of_shown": call("numbers_float32", Shown()),
        "list_or_number": call("numbers_then", [1, 2], nothing),
        "records": call("sum_points", points),
        "records_wrong": call("sum_points", np.ones(2, [("x", "f4"), ("y", "f4"), ("z", "f4")])),
        "records_returned": call("make_points", 3),
        "events": call("copy_events", events),
        "times": call("since", np.zeros(2, "M8[ns]")),
        "dict": call("matrix_sum", matrix),
        "object": call("matrix_sum", types.SimpleNamespace(**matrix)),
        "dict_returned": call("twice_matrix", matrix),
        "dict_lacks": call("matrix_sum", {"indptr": ints}),
        "object_lacks": call("matrix_sum", types.SimpleNamespace(indptr=ints)),
        "dict_of_own": call("twice_matrix", OrderedDict(matrix)),
        "tuple_returned": call("twice_ragged", ragged),
        "list_as_struct": call("matrix_sum", list(matrix.values())),
        "structs": call("negate_model", model),
        "struct_as_dict": call("twice_matrix_as_dict", matrix),
        "kept": lambda: lambda: (ext.keep_pair((floats, np.ones(3))), ext.kept_pair() and None)[1],
        "tree": call("leaves_of", tree),
        "tree_returned": call("copied_tree", tree, False),
        "tree_of_own": call("copied_tree", Empty([floats] * 9), False),
        "tree_wrong": call("leaves_of", {"a": [object()]}),
        "dtype": call("dtype_back", "float32"),
        "dtype_of_numpy": call("dtype_back", np.dtype("f4")),
        "dtype_wrong": call("dtype_back", "float99"),
        "device": call("device_back", "cpu"),
        "made": call("made_of", "int8"),
        "made_there": call("zeros_there", floats, [2, 3], "int16"),
        "vector": call("total_of_vector", [floats, floats], nothing),
        "vector_wrong": call("total_of_vector", [floats, None], nothing),
        "map": call("total_of_map", {"a": floats}, nothing),
        "nested": call("total_of_nested", {"a": [floats]}, nothing),
        "replies": call("replies", floats),
        "replies_by_name": call("replies_by_name", floats),
        "owned": call("own_vector", [floats]),
        "owned_converted": call("own_converted", np.ones((2, 3))),
        "owned_points": call("own_points", points),
        "overloads": call("own_which", np.arange(3)),
        "overloads_wrong": call("own_which", "x"),
        "overloads_refused": call("totals", "x"),
        "overloads_by_name": lambda: functools.partial(ext.totals, x="x", power=2.0),
        "protocol_dlpack": as_is(lambda: producer.__dlpack__(max_version=(1, 3))),
        "protocol_array": as_is(producer.__array__),
        "protocol_interface": as_is(lambda: producer.__array_interface__["shape"]),
        "protocol_failing": as_is(lambda: ext.Failing().__array__()),
    }


def operators() -> dict[str, Make]:
    ext: Any = importlib.import_module("isthmus_operators_test_ext")
    import numpy as np

    a = np.arange(3, dtype=np.float64)
    f = a.astype(np.float32)
    i = np.arange(3)
    table: dict[str, Make] = {
        "dot": lambda: lambda: ext.dot(a, a),
        "dot_new_class": lambda: functools.partial(ext.dot, a.view(type("New", (np.ndarray,), {})), a),
        "dot_wrong": lambda: lambda: ext.dot(a, i),
        "dot_missing": lambda: lambda: ext.dot(a),
        "twice": lambda: lambda: ext.twice(f),
        "first": lambda: lambda: ext.first(f, 2),
        "weighted": lambda: lambda: ext.weighted(a, None),
        "add_to": lambda: lambda: ext.add_to(f.copy(), f),
        "shift": lambda: lambda: ext.shift(a, 1.0, 2, True),
        "outer": lambda: lambda: ext.outer(a, a),
        "limit": lambda: lambda: ext.limit(a, 1.0, "x"),
        "repr": lambda: lambda: repr(ext.dot),
        "doc": lambda: lambda: ext.dot.__doc__,
        "table": lambda: lambda: ext.dot._table["name"],
        "gradient": lambda: lambda: type(ext.scale._gradient).__name__,
        "identity": lambda: lambda: ext.dot._identity and None,
        "xla_target": lambda: lambda: type(ext.dot._xla_target).__name__,
        "infer": lambda: lambda: ext.dot._infer([("float64", (3,))] * 2),
        "signature": lambda: lambda: type(ext.scale.__signature__).__name__,
        "ufunc": lambda: lambda: type(ext.dot.ufunc).__name__,
    }
    return table


def torch() -> dict[str, Make]:
    import isthmus

    torch: Any = importlib.import_module("torch")
    x = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    t = isthmus.from_dlpack(x)
    backwards = t[::-1]  # torch has no negative strides
    lazy = torch._lazy_clone(x)  # copy-on-write

    class Own(torch.Tensor):
        """Of which torch's own handle is held."""

    own = isthmus.from_dlpack(torch.arange(6.0).as_subclass(Own))
    sparse = torch.eye(3).to_sparse()  # torch's own lack of memory while it makes one is another error
    table: dict[str, Make] = {}
    if importlib.util.find_spec("isthmus_pybind11_test_ext") is not None:
        ext: Any = importlib.import_module("isthmus_pybind11_test_ext")
        table["made_there"] = lambda: lambda: type(ext.zeros_there(x, [2, 3], "int16")).__name__
    return table | {
        "from_dlpack": lambda: lambda: isthmus.from_dlpack(x),
        "from_dlpack_sparse": lambda: lambda: isthmus.from_dlpack(sparse),
        "from_dlpack_lazy": lambda: lambda: isthmus.from_dlpack(lazy),
        "to_torch": lambda: lambda: t[0].to("torch"),
        "to_torch_own": lambda: lambda: type(own.to("torch")).__name__,
        "to_torch_copied": lambda: lambda: type(backwards.to("torch", allow_copy=True)).__name__,
        "torch_from_dlpack": lambda: lambda: torch.from_dlpack(t[0]),
    }


def itself() -> dict[str, Make]:
    """Calls that a sweep must find fault with, for its own test."""

    kept: list[object] = []

    def lists() -> int:
        return len([[] for _ in range(4)])

    def swallows() -> int:
        try:
            return lists()
        except MemoryError:
            raise ValueError("swallowed") from None

    def keeps() -> None:
        kept.append([])
        lists()

    def dies() -> None:
        try:
            lists()
        except MemoryError:
            ctypes.CDLL(None).abort()

    made = {"good": lists, "swallows": swallows, "keeps": keeps, "dies": dies}
    return {name: as_is(call) for name, call in made.items()}


def load(world: str) -> dict[str, Make]:
    if world == "itself":
        return itself()
    modules = {
        "package": ("isthmus",),
        "bridge": ("isthmus_test_ext",),
        "nanobind": ("isthmus_nanobind_test_ext",),
        "pybind11": ("isthmus_pybind11_test_ext",),
        "operators": ("isthmus_operators_test_ext",),
        "torch": ("isthmus", "torch"),
        "first_uses": (),
        "stand_ins": ("isthmus_test_ext",),
    }[world]
    if any(importlib.util.find_spec(module) is None for module in (*modules, "numpy")):
        return {}
    make = {
        "package": package, "bridge": bridge, "operators": operators, "torch": torch, "first_uses": first_uses,
        "stand_ins": stand_ins,
    }.get(world)  # fmt: skip
    return make() if make is not None else casters(world)
