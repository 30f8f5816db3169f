"""What JAX's differentiation does with an operator: the rule of its gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero

from ._registry import LISTS, argument_prefix

if TYPE_CHECKING:
    from ._jax import JaxOperator


class Differentiated:
    """One call of an operator that has a gradient, as a function of its operands that JAX can differentiate."""

    def __init__(
        self, known: JaxOperator, said: Sequence[Any], places: Sequence[int], run: Callable[..., tuple[Any, ...]]
    ) -> None:
        assert known.plan is not None
        self.known, self.plan, self.said, self.places = known, known.plan, said, places
        self.results = known.check(said)
        self.function = jax.custom_vjp(run)
        self.function.defvjp(self.forward, self.backward, symbolic_zeros=True)

    def __call__(self, operands: Sequence[Any]) -> Any:
        return self.function(*operands)

    def forward(self, *primals: Any) -> Any:
        inputs = self.known.inputs
        for place, operand in zip(self.places, primals, strict=True):
            if _is_perturbed(operand) and inputs[place]["kind"] in ("number", *LISTS):
                refuse_differentiated(self.known, inputs[place]["name"])
        operands = tuple(jax.tree.map(lambda leaf: leaf.value, operand, is_leaf=_is_primal) for operand in primals)
        results = self.function(*operands)
        values = self.known.filled(self.said, self.places, operands)
        kept = [self.kept(kind, place, values, results) for kind, place in self.plan.sources]
        perturbed = {place for place, operand in zip(self.places, primals, strict=True) if _is_perturbed(operand)}
        return results, (kept, Known(self.plan.needed(perturbed.__contains__)))

    def kept(self, kind: str, place: Any, values: Sequence[Any], results: Sequence[Any]) -> Any:
        """What the backward pass has of one input of the gradient: an array, or None."""
        if kind == "result":
            return results[place]
        if kind == "input" and place in self.places:
            return values[place]
        if kind == "sizes" and values[place] is not None:
            return jnp.zeros((*values[place].shape, 0), values[place].dtype)
        return None

    def backward(self, residual: Any, gradients: Sequence[Any]) -> tuple[Any, ...]:
        """By operand, its gradient, or None."""
        kept, needed = residual
        taken = [
            self.taken(kind, place, array, gradients, needed.value)
            for (kind, place), array in zip(self.plan.sources, kept, strict=True)
        ]
        by_input: list[Any] = [None] * len(self.known.inputs)
        for bit, (place, result) in enumerate(zip(self.plan.of, self.known.gradient.bind(taken), strict=True)):
            if self.said[place] is not None and needed.value >> bit & 1:
                by_input[place] = _summed(_conjugated(result), self.said[place].shape)
        return tuple(by_input[i] for i in self.places)

    def taken(self, kind: str, place: Any, kept: Any, gradients: Sequence[Any], needed: int) -> Any:
        """One input of the gradient."""
        if kind == "grad":
            gradient, (dtype, _) = gradients[place], self.results[place]
            if isinstance(gradient, SymbolicZero) or gradient.dtype == jax.dtypes.float0:
                # An integer result has none, and its place is filled.
                return jnp.zeros(gradient.shape, jax.dtypes.canonicalize_dtype(dtype))
            return _conjugated(gradient)
        if kind == "needed":
            return needed
        if kind == "size":
            argument, dimension = self.plan.places[place]
            return self.said[argument].shape[dimension]
        return self.said[place] if kind == "input" and kept is None else kept


def refuse_differentiated(known: JaxOperator, name: str) -> NoReturn:
    """Raises the error of a derivative by something else than a tensor."""
    raise NotImplementedError(
        f"{argument_prefix(known.function, name)}it is differentiated, and an operator has derivatives of its "
        f"tensors alone; expected jax.lax.stop_gradient({name}), or a tensor argument"
    )


def _is_primal(operand: Any) -> bool:
    return hasattr(operand, "perturbed")


def _is_perturbed(operand: Any) -> bool:
    """Of an operand, or of some element of a list of operands."""
    return any(primal.perturbed for primal in jax.tree.leaves(operand, is_leaf=_is_primal))


@jax.tree_util.register_pytree_node_class
class Known:
    """A value that is known while JAX traces, among the arrays of a residual."""

    def __init__(self, value: int) -> None:
        self.value = value

    def tree_flatten(self) -> tuple[tuple[()], int]:
        return (), self.value

    @classmethod
    def tree_unflatten(cls, value: int, _children: Any) -> Known:
        return cls(value)


def _summed(gradient: Any, shape: Sequence[Any]) -> Any:
    """Over the dimensions that were broadcast."""
    extra = gradient.ndim - len(shape)
    gradient = gradient.sum(tuple(range(extra))) if extra else gradient
    spread = tuple(d for d, size in enumerate(shape) if size != gradient.shape[d])
    return gradient.sum(spread, keepdims=True) if spread else gradient


def _conjugated(gradient: Any) -> Any:
    """From torch's convention for the gradient of a complex number, which operators have, to JAX's, or back."""
    return gradient.conj() if jnp.iscomplexobj(gradient) else gradient
