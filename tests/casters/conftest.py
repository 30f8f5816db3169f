"""What the tests of the casters share: the modules under test, by each library, and the frameworks that some want."""

from __future__ import annotations

import libraries
import pytest
from casters import CASTERS


@pytest.fixture(params=CASTERS)
def ext(request):
    return pytest.importorskip(request.param, reason=f"{request.param} was not built: its library is not installed")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.fixture
def jax():
    return libraries.library("jax")
