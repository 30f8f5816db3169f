"""How a type is classified: by what it is, not by what it is called, what its metaclass has, or when it was first met.

Promised (docs/import.md, "Import paths"): the type of the object decides, once, under CPython's version tag of it. What
a framework needs to be known about is known of that framework's own classes; protocols are looked for where Python
looks for special methods, on the type and its bases; an attribute that raises is the cause of the error,
not "not a tensor".
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

import isthmus_test_ext as ext

isthmus = pytest.importorskip("isthmus")


def dlpack(self: object, **keywords: object) -> object:
    return self.memory.__dlpack__(max_version=keywords.get("max_version"))


def producer(name: str, module: str, base: type = object, **members: object) -> object:
    members = {"memory": np.arange(3.0), "__dlpack__": dlpack, "__dlpack_device__": lambda self: (1, 0), **members}
    return type(name, (base,), {"__module__": module, **members})()


LOOKALIKES = [
    ("jax_utils", "ArrayImpl"), ("jaxlib_extras.arrays", "ArrayImpl"), ("jax_md", "DynamicJaxprTracer"),
    ("numpy_ext", "MaskedArray"), ("numpy_groupies", "MaskedArray"), ("tensorflow_probability", "EagerTensor"),
    ("torch_geometric", "ReadOnlyTensorWrapper"), ("my.jax", "ArrayImpl"), ("jaxtyping", "ArrayImpl"),
    # Within the package, yet not the package's class.
    ("jax.example", "ArrayImpl"), ("numpy.mine", "MaskedArray"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name"), LOOKALIKES)
def test_a_name_alone_says_nothing(take, module: str, name: str) -> None:
    x = producer(name, module)
    found = take(x)
    assert found["data"] == x.memory.ctypes.data
    assert not found["read_only"]
    x.memory.flags.writeable = False
    assert take(x)["read_only"]


@pytest.mark.parametrize("package", ["torch_utils", "numpy_ext", "jax_md", "torch", "numpy", "jax"])
def test_a_package_alone_makes_no_array(package: str) -> None:
    """`t.to(framework)` gives an array of that framework, not whatever object has its package's name."""
    framework = package.split("_")[0]
    kind = {"torch": "Tensor", "numpy": "ndarray", "jax": "ArrayImpl"}[framework]
    pytest.importorskip(framework)
    x = producer("Wrapper", package + ".mine", memory=np.asarray(ext.pages([16])))
    assert type(isthmus.from_dlpack(x).to(framework)).__name__ == kind


def test_the_real_ones_are_still_known(take) -> None:
    with pytest.raises(ext.Error) as info:
        take(np.ma.masked_array([1.0, 2.0], [True, False]))
    assert info.value.code == "not_values"
    jax = pytest.importorskip("jax")
    assert take(jax.numpy.zeros(3))["read_only"]
    with pytest.raises(ext.Error) as info:
        jax.jit(take)(jax.numpy.zeros(3))
    assert "traced" in str(info.value)


PROTOCOLS = [
    "__dlpack__",
    "__dlpack_c_exchange_api__",
    "__cuda_array_interface__",
    "__arrow_c_array__",
    "__arrow_c_device_array__",
]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_metaclass_is_not_the_type(take, name: str) -> None:
    """Special methods are looked up on the type and its bases; what the metaclass has belongs to the class object."""

    def never(cls: type, *_: object, **__: object) -> object:
        raise AssertionError("the metaclass was asked")

    memory = np.arange(3.0)
    meta = type("Meta", (type,), {name: never})
    x = meta("Shown", (), {"__array_interface__": memory.__array_interface__})()
    assert take(x)["data"] == memory.ctypes.data
    y = meta("Instance", (), {})()
    y.__array_interface__ = memory.__array_interface__
    assert take(y)["data"] == memory.ctypes.data


def test_a_metaclass_that_answers_everything(take) -> None:
    meta = type("Meta", (type,), {"__getattr__": lambda cls, name: 1})
    memory = np.arange(3.0)
    x = meta("Shown", (), {"__array_interface__": memory.__array_interface__})()
    assert take(x)["data"] == memory.ctypes.data


def test_a_metaclass_does_not_make_a_tensor(take, refused) -> None:
    x = type("Meta", (type,), {"__dlpack__": lambda cls: None})("Plain", (), {})()
    refused("not_a_tensor", TypeError, take, x)


NAMES = ["__dlpack__", "__cuda_array_interface__", "__array_interface__", "__arrow_c_array__"]


@pytest.mark.parametrize("raised", [RuntimeError, ValueError, OSError, KeyError])
@pytest.mark.parametrize("name", NAMES)
def test_an_attribute_that_raises(take, name: str, raised: type) -> None:
    """On an instance (a proxy whose remote side is gone, a lazy module): the object's own words are the cause."""

    class Proxy:
        def __getattr__(self, wanted: str) -> object:
            if wanted == name:
                raise raised("the remote side is gone")
            raise AttributeError(wanted)

    with pytest.raises(ext.Error) as info:
        take(Proxy())
    assert info.value.code == "producer_failed"
    assert isinstance(info.value, BufferError)
    assert type(info.value.__cause__) is raised
    assert "the remote side is gone" in str(info.value)


@pytest.mark.parametrize("name", NAMES)
def test_a_property_that_raises(take, name: str) -> None:
    def fail(self: object) -> object:
        raise RuntimeError("the remote side is gone")

    with pytest.raises(ext.Error) as info:
        take(type("Property", (), {name: property(fail)})())
    assert info.value.code == "producer_failed"
    assert type(info.value.__cause__) is RuntimeError


def test_an_attribute_that_is_not_there_is_no_failure(take, refused) -> None:
    class Quiet:
        def __getattr__(self, wanted: str) -> object:
            raise AttributeError(wanted)

    refused("not_a_tensor", TypeError, take, Quiet())


MET_WHILE = """
    import sys
    import torch
    import isthmus_test_ext as ext
    class Mine(torch.Tensor): pass
    class Parameter(torch.nn.Parameter): pass
    kept = {name: sys.modules.pop(name) for name in NAMES}
    hidden = []
    for x in (torch.zeros(3), torch.zeros(3).as_subclass(Mine), Parameter(torch.zeros(3))):
        for call in (ext.borrow, ext.own):
            try:
                call(x)
            except ext.Error:
                pass  # refused while torch is hidden is right too
    sys.modules.update(kept)
    lazy = torch._neg_view(torch.ones(3)), torch.ones(3, dtype=torch.complex64).conj()
    for x in (*lazy, *(x.as_subclass(Mine) for x in lazy)):
        for call in (ext.borrow, ext.own):
            try:
                call(x)
            except ext.Error as error:
                assert error.code == "not_values", error
            else:
                raise SystemExit(f"{type(x)}: bytes that are not the values were taken")
    x = torch.zeros(3, requires_grad=True)
    assert ext.own(x)["read_only"] and ext.own(Parameter(torch.zeros(3)))["read_only"]
    assert ext.tensor_of(x).to("torch") is x
"""


@pytest.mark.parametrize("hidden", [["torch._C"], ["torch"], ["torch", "torch._C"]], ids="+".join)
def test_torch_met_while_its_module_is_hidden(child, hidden: list[str]) -> None:
    """Test isolation takes modules out of sys.modules and puts them back. What was seen in between is not remembered: a
    subclass of torch.Tensor is guarded afterwards, whatever was known when it was first met."""
    pytest.importorskip("torch")
    child(f"    NAMES = {hidden!r}\n" + MET_WHILE)


def test_numpy_met_while_its_module_is_hidden(child) -> None:
    child("""
        import sys
        import numpy as np
        import isthmus_test_ext as ext
        class Mine(np.ndarray): pass
        kept = sys.modules.pop("numpy")
        for x in (np.zeros(3), np.zeros(3).view(Mine)):
            try:
                ext.own(x)
            except ext.Error:
                pass
        sys.modules["numpy"] = kept
        for x in (np.zeros(3), np.zeros(3).view(Mine)):
            assert not ext.own(x)["read_only"]
            assert ext.tensor_of(x).to("numpy") is x
        try:
            ext.own(np.zeros(3, "M8[s]").view(Mine))
        except ext.Error as error:
            assert error.code == "bad_dtype"
    """)


@pytest.mark.skipif(sys.version_info >= (3, 11), reason="from CPython 3.11 on a version tag is never used twice")
def test_version_tags_that_are_used_again(child) -> None:
    """CPython 3.10: sys._clear_type_cache() starts to count from the beginning."""
    child("""
        import gc, sys
        import numpy as np
        import isthmus_test_ext as ext
        for turn in range(200):
            array = type("Array", (np.ndarray,), {})
            ext.own(np.zeros(3).view(array))
            del array
            gc.collect()
            sys._clear_type_cache()
            other = type("Other", (bytes,), {})
            assert ext.own(other(b"123"))["dtype"] == "uint8"
            del other
            gc.collect()
            sys._clear_type_cache()
    """)


def test_types_that_take_each_others_place_while_one_is_imported(child) -> None:
    """Foreign code that runs during an import may import hundreds of other types: what is known of the first one stays
    known, and no other type's exchange API is called with its object."""
    pytest.importorskip("torch")
    child("""
        import sys
        sys.path.insert(0, "tests/python/hostile")
        import torch
        import isthmus_test_ext as ext
        from descriptors import Managed, api_capsule, make_api, type_with_api

        asked, waiting = [], []

        def give(address, out):
            asked.append(address)
            out[0] = Managed(True).pointer
            return 0

        api = api_capsule(make_api(give))
        crowd = [type_with_api(api)() for _ in range(300)]

        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls, inner):
                return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, device="cpu",
                                                           dispatch_device=True, dispatch_layout=True)

            def __init__(self, inner):
                pass

            @classmethod
            def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
                if "device" in str(function):
                    while waiting:
                        ext.own(waiting.pop())
                    return torch.device("xpu", 0)
                return torch.strided if "layout" in str(function) else NotImplemented

        x = Wrapper(torch.zeros(3))
        for call in (ext.borrow, ext.own):
            for crowded in (False, False, True):  # what is known of the type is remembered before it is replaced
                waiting = [*crowd] if crowded else []
                try:
                    found = call(x)
                except ext.Error as error:
                    assert "ApiProducer" not in str(error), error
                else:
                    raise SystemExit(f"the memory of another object: {found}")
        assert asked and id(x) not in asked, "another type's API was asked"
    """)


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_a_type_is_looked_at_passes(take, raised: type) -> None:
    class Interrupts:
        def __get__(self, instance: object, owner: type | None = None) -> object:
            raise raised

    class Proxy:
        __dlpack_c_exchange_api__ = Interrupts()
        __array_interface__ = np.zeros(3).__array_interface__

    with pytest.raises(raised):
        take(Proxy())


def test_an_interrupt_in_any_look_at_the_base_of_a_type_passes(child) -> None:
    """Each look in turn: nothing is asked after it, and CPython's own look at a type clears no exception of before."""
    child("""
        import sys
        import numpy as np
        import isthmus_test_ext as ext

        class Name(str):
            "Is met wherever numpy is looked for among the modules."
            at, asked = 0, 0
            def __hash__(self):
                return hash("numpy")
            def __eq__(self, other):
                Name.asked += 1
                if Name.asked == Name.at:
                    raise KeyboardInterrupt
                return False

        def of_a_new_class():
            class Base:
                __module__ = "numpy.mine"
                __array_interface__ = np.arange(3.0).__array_interface__
            class Own(Base):
                pass
            return Own()

        module = sys.modules.pop("numpy")
        sys.modules[Name("before")] = None
        sys.modules["numpy"] = module
        for at in range(1, 20):
            x = of_a_new_class()
            Name.at, Name.asked = at, 0
            try:
                assert ext.own(x)["shape"] == (3,)
            except KeyboardInterrupt:
                assert Name.asked == at, "something was asked after the interrupt"
                assert ext.own(x)["shape"] == (3,)
            else:
                assert Name.asked < at, "the interrupt was lost"
                break
        assert at > 3, at
    """)


def test_a_type_that_changes_while_it_is_looked_at_for_the_first_time(child) -> None:
    """What was found is not remembered for the class that it has become, here by a base whose instances are refused."""
    child("""
        import sys
        import numpy as np, numpy.ma
        import isthmus_test_ext as ext

        class Name(str):
            "Is met wherever numpy is looked for among the modules."
            met, act = 0, lambda: None
            def __hash__(self):
                return hash("numpy")
            def __eq__(self, other):
                Name.met += 1
                Name.act()
                return False

        module = sys.modules.pop("numpy")
        sys.modules[Name("before")] = None
        sys.modules["numpy"] = module
        memory = np.arange(3.0)

        def changing():
            class Plain:
                pass
            class Changing(Plain):
                __module__ = "numpy.mine"
                __array_interface__ = memory.__array_interface__
            return Changing()

        for _ in range(2):  # the first of all looks at more
            Name.met = 0
            ext.own(changing())
        last, Name.met = Name.met, 0
        assert last > 0
        Tracer = type("Tracer", (), {"__module__": "jax._src.core"})
        x = changing()
        def change():
            if Name.met == last:
                type(x).__bases__ = (Tracer,)
        Name.act = change
        assert ext.own(x)["shape"] == (3,)
        assert Tracer in type(x).__mro__
        try:
            ext.own(x)
        except ext.Error as error:
            assert error.code == "not_values", error
        else:
            raise AssertionError("the class is taken for what it was")
    """)
