# SPDX-License-Identifier: Apache-2.0
"""What each library returns for tensors whose memory does not say all: a bit of torch's that changes the elements,
an autograd graph, an array that nobody may write, a dtype that NumPy has no letter for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stories.libraries import Function, Library


@dataclass(frozen=True)
class Question:
    """`ask` returns what a library answers, as the table shows it, and raises what the library raises."""

    expected: tuple[str, ...]
    ask: Callable[[Library], str]


REFUSED = "refused"
QUESTIONS: dict[str, Question] = {}


class NotOffered(Exception):
    """The library has no function for the question."""


def question(title: str, *expected: str) -> Callable[[Callable[[Library], str]], Callable[[Library], str]]:
    def register(ask: Callable[[Library], str]) -> Callable[[Library], str]:
        QUESTIONS[title] = Question(expected, ask)
        return ask

    return register


def answer(library: Library, title: str) -> str:
    """Of one question: the library's answer, "refused" with the exception's name, or a dash."""
    try:
        return QUESTIONS[title].ask(library)
    except (NotOffered, ImportError):  # a package that is not installed is no refusal
        return "–"  # noqa: RUF001
    except Exception as error:
        return f"{REFUSED} ({type(error).__name__})"


def is_right(title: str, answered: str) -> bool:
    return answered in QUESTIONS[title].expected or answered.split(" (")[0] in QUESTIONS[title].expected


def offered(function: Function | None) -> Function:
    if function is None:
        raise NotOffered
    return function


def number(value: float) -> str:
    return f"{value:g}"


@question("the imaginary part of a conjugate view of 1+2j (-2)", "-2", REFUSED)
def conjugate(library: Library) -> str:
    import torch

    return number(offered(library.imaginary)(torch.tensor([1 + 2j]).conj()))


@question("a negative-bit view, `x.conj().imag` of the same (-2)", "-2", REFUSED)
def negative(library: Library) -> str:
    import torch

    library.keep(torch.tensor([1 + 2j]).conj().imag)
    return number(library.peek()[1])


def after_write(library: Library, x: object, first: Callable[[], float]) -> str:
    library.write(x)
    return "written" if first() == 5 else "not written"


@question("a write to a leaf that requires grad", REFUSED)
def leaf(library: Library) -> str:
    import torch

    w = torch.zeros(4, requires_grad=True)
    return after_write(library, w, lambda: float(w.detach()[0]))


@question("the version counter of a tensor after a write to it", "moved", REFUSED)
def version(library: Library) -> str:
    import torch

    x = torch.zeros(4)
    library.write(x)
    return "moved" if x._version else "not moved"


@question("a gradient that needs the value before the write (1)", "an error of autograd", REFUSED)
def gradient(library: Library) -> str:
    import torch

    x, w = torch.ones(4), torch.ones(4, requires_grad=True)
    loss = (w * x).sum()
    library.write(x)
    try:
        loss.backward()
    except RuntimeError:
        return "an error of autograd"
    return number(float(w.grad[0]))


@question("a write to an immutable JAX array", REFUSED)
def immutable(library: Library) -> str:
    import jax.numpy as jnp

    x = jnp.zeros(4, jnp.float32)
    return after_write(library, x, lambda: float(x[0]))


@question("a write to a read-only NumPy array", REFUSED)
def read_only(library: Library) -> str:
    x = np.zeros(4, np.float32)
    x.flags.writeable = False
    return after_write(library, x, lambda: float(x[0]))


def dtype_of(library: Library, x: Any) -> str:
    return offered(library.dtype)(x)


@question("the dtype of a bfloat16 NumPy array", "bfloat16")
def bfloat16(library: Library) -> str:
    import ml_dtypes

    return dtype_of(library, np.zeros(4, ml_dtypes.bfloat16))


@question("the dtype of a float8_e4m3fn NumPy array", "float8_e4m3fn")
def float8(library: Library) -> str:
    import ml_dtypes

    return dtype_of(library, np.zeros(4, ml_dtypes.float8_e4m3fn))


@question("the dtype of a float8_e4m3fn torch.Tensor", "float8_e4m3fn")
def float8_of_torch(library: Library) -> str:
    import torch

    return dtype_of(library, torch.zeros(4, dtype=torch.float8_e4m3fn))
