"""tensor_protocol(): instances of a bound class are tensors to every framework, and live as long as what is made of
them."""

from __future__ import annotations

import gc
import operator

import libraries
import numpy as np
import pytest

isthmus = pytest.importorskip("isthmus")

WAYS = {
    "isthmus": isthmus.from_dlpack,
    "numpy.from_dlpack": np.from_dlpack,
    "numpy.asarray": np.asarray,
    "array interface": lambda x: np.asarray(Only(x, "__array_interface__")),
    "__array__": lambda x: x.__array__(),
    "memoryview": lambda x: np.asarray(memoryview(x)),
    "a capsule": lambda x: isthmus.from_dlpack(x.__dlpack__(max_version=(1, 0))),
}


class Only:
    """Has one attribute of another object."""

    def __init__(self, of, name):
        self.of = of
        setattr(self, name, getattr(of, name))


@pytest.mark.parametrize("way", WAYS)
def test_an_instance_is_a_tensor(ext, way):
    before = ext.Producer.alive()
    producer = ext.Producer()
    shown = WAYS[way](producer)
    del producer
    gc.collect()
    assert ext.Producer.alive() == before + 1
    array = np.asarray(shown)
    assert array.tolist() == np.arange(16).reshape(4, 4).tolist()
    array[0, 0] = 7
    assert np.asarray(shown)[0, 0] == 7
    del shown, array
    gc.collect()
    assert ext.Producer.alive() == before


def test_two_ways_share_the_memory(ext, torch):
    producer = ext.Producer()
    torch.from_dlpack(producer)[0, 1] = 9
    assert np.asarray(producer)[0, 1] == 9
    assert np.shares_memory(np.from_dlpack(producer), np.asarray(memoryview(producer)))


def test_a_method_of_the_class(ext):
    producer = ext.Producer()
    assert ext.Producer.__array__(producer).tolist() == np.asarray(producer).tolist()
    with pytest.raises(TypeError, match=r"^__dlpack__\(\) needs an instance$"):
        ext.Producer.__dlpack__()


def test_what_devices_and_options_are_is_the_tensors_answer(ext):
    producer = ext.Producer()
    assert producer.__dlpack_device__() == (1, 0)
    assert producer.__array__(np.float64).dtype == np.float64
    with pytest.raises(AttributeError):
        _ = producer.__cuda_array_interface__
    with pytest.raises(BufferError):
        producer.__dlpack__(dl_device=(2, 0), copy=False)


def test_functions_of_this_module_take_it(ext):
    assert ext.sum(ext.Producer()) == 120
    assert ext.describe(ext.Holder()) == "float32(3,)"


def test_a_member_that_keeps_its_memory(ext):
    holder = ext.Holder()
    x = np.from_dlpack(holder)
    holder.drop()
    assert x.tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match=r"argument '__isthmus_tensor__\(\)': expected a tensor .*, got None"):
        np.from_dlpack(holder)


@pytest.mark.parametrize("way", ["isthmus", "numpy.from_dlpack", "memoryview", "__array__"])
def test_an_error_of_the_function_is_the_callers(ext, way):
    with pytest.raises(BufferError, match="no tensor today") as raised:
        WAYS[way](ext.Failing())
    assert raised.value.code == "bad_layout" or raised.value.__cause__.code == "bad_layout"


def test_a_subclass_in_python_is_one_too(ext):
    class Mine(ext.Producer):
        pass

    assert np.asarray(Mine())[3, 3] == 15
    assert memoryview(Mine()).shape == (4, 4)


def test_other_frameworks(ext):
    makers = {"torch": "from_dlpack", "jax": "dlpack.from_dlpack"}
    for name, make in makers.items():
        if libraries.is_usable(name):
            module = pytest.importorskip(name)
            if name == "jax":
                pytest.importorskip("jax.dlpack")
            assert float(operator.attrgetter(make)(module)(ext.Producer())[3, 3]) == 15
