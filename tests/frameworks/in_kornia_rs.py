"""kornia_rs images: height, width, channels of bytes; they share what they import."""

import kornia_rs
import numpy as np
from checks import gone, made
from waiting import eventually

import isthmus_test_ext as ext

try:
    from kornia_rs.image import Image
except ImportError:
    from kornia_rs import Image

VERSION = kornia_rs.__version__


def image():
    return Image.from_numpy(np.arange(24, dtype=np.uint8).reshape(2, 4, 3))


def check_producer():
    x = image()
    t = ext.tensor_of(x)
    assert (t.dtype.name, t.shape, t.strides) == ("uint8", (2, 4, 3), (12, 3, 1))
    assert ext.own_elements(t) == bytes(range(24))
    assert t.owner is x


def check_producer_lifetime():
    kept = ext.keep(image())
    assert ext.kept_elements(kept) == bytes(range(24))
    ext.drop_on_thread(kept, False)


def check_consumer():
    t = made("uint8", (2, 4, 3))
    x = Image.from_dlpack(t)
    assert bytes(memoryview(np.from_dlpack(ext.tensor_of(x)))) == bytes(range(24))


def check_consumer_lifetime():
    before = gone()
    t = made("uint8", (2, 4, 3))
    x = Image.from_dlpack(t)
    del t
    assert ext.own_elements(x) == bytes(range(24))
    del x
    eventually(lambda: ext.owners()[1] == before + 1)
