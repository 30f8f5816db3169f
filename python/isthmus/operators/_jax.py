"""Operators under jax.jit."""

from typing import Any


def register(op: Any) -> None:
    return None


def must_see(values: Any) -> bool:
    return False
