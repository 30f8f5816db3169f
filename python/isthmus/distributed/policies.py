"""The permitted use of a tensor that arrives: the policy of each engine in this process."""

from __future__ import annotations

from typing import Literal

#: copy_on_write: writes stay in this process; impossible for frameworks with read-only arrays (NumPy, JAX,
#: isthmus.Tensor) where other readers of the message map the same pages. tensor: everything arrives as a read-only
#: isthmus.Tensor. copy: over a copy.
Policy = Literal["copy_on_write", "tensor", "copy"]
POLICIES: tuple[Policy, ...] = ("copy_on_write", "tensor", "copy")

_chosen: dict[str, Policy] = {}


def choose(engine: str, policy: Policy) -> None:
    _chosen[engine] = policy


def forget(engine: str) -> None:
    _chosen.pop(engine, None)


def policy_of(engine: str, otherwise: Policy = "copy_on_write") -> Policy:
    """This process's own policy, or the sender's if this process has none."""
    return _chosen.get(engine, otherwise)
