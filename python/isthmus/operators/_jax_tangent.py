"""What JAX's differentiation does with an operator that has a Jacobian-vector product: forward mode by it, and reverse
mode by the operator's gradient, as the transpose of that product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_derivatives import SymbolicZero, zero_from_primal
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

from ._jax_grad import Differentiated, Known, refuse_differentiated

if TYPE_CHECKING:
    from ._jax import JaxOperator


class ForwardDifferentiated:
    """One call of an operator that has a Jacobian-vector product, as a function of its operands that JAX can
    differentiate."""

    def __init__(
        self, known: JaxOperator, said: Sequence[Any], places: Sequence[int], run: Callable[..., tuple[Any, ...]]
    ) -> None:
        self.known, self.said, self.places = known, said, places
        self.of, self.gives = known.tangents
        self.reverse = Differentiated(known, said, places, run) if known.plan is not None else None
        self.function = jax.custom_jvp(run)
        self.function.defjvp(self.rule, symbolic_zeros=True)

    def __call__(self, operands: Sequence[Any]) -> Any:
        return self.function(*operands)

    def rule(self, primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
        results = self.function(*primals)
        given = {
            place: tangent
            for place, tangent in zip(self.places, tangents, strict=True)
            if any(not isinstance(leaf, SymbolicZero) for leaf in jax.tree.leaves(tangent, is_leaf=_is_zero))
        }
        for place in given:
            if place not in self.of:
                refuse_differentiated(self.known, self.known.inputs[place]["name"])
        values = self.known.filled(self.said, self.places, primals)
        made = iter(self.bind(values, results, given))
        return results, tuple(
            next(made) if i in self.gives else zero_from_primal(result, symbolic_zeros=True)
            for i, result in enumerate(results)
        )

    def bind(self, values: Sequence[Any], results: Sequence[Any], given: dict[int, Any]) -> Sequence[Any]:
        """The tangents of the floating-point results, as a linear function of those that are given."""
        arrays = [values[i] for i in self.places]
        needed, kept = 0, None
        if self.reverse is not None:
            plan = self.reverse.plan
            needed = plan.needed(given.__contains__)
            kept = [self.reverse.kept(kind, place, values, results) for kind, place in plan.sources]
        residual, tree = jax.tree.flatten((arrays, kept))

        def product(residual: Sequence[Any], tangents: Sequence[Any]) -> list[Any]:
            arrays, _kept = jax.tree.unflatten(tree, residual)
            return self.product(arrays, dict(zip(given, tangents, strict=True)))

        def transposed(residual: Sequence[Any], gradients: Sequence[Any]) -> list[Any]:
            _arrays, kept = jax.tree.unflatten(tree, residual)
            return self.transposed(kept, needed, list(given), results, gradients)

        return _product_p.bind(  # type: ignore[no-any-return, no-untyped-call, unused-ignore]
            *residual, *given.values(), product=product, transposed=transposed, residuals=len(residual)
        )

    def product(self, arrays: Sequence[Any], tangents: dict[int, Any]) -> list[Any]:
        values = self.known.filled(self.said, self.places, arrays)
        jvp = self.known.jvp
        taken = []
        for row, place in zip(jvp.inputs, self.of, strict=False):
            absent = values[place] is None or (row["optional"] and place not in tangents)
            taken.append(None if absent else tangents.get(place, jnp.zeros_like(values[place])))
        return list(jvp.bind([*taken, *values]))

    def transposed(
        self, kept: Any, needed: int, places: Sequence[int], results: Sequence[Any], gradients: Sequence[Any]
    ) -> list[Any]:
        if self.reverse is None:
            raise NotImplementedError(f"{self.known.name} {self.known.why_no_gradient()}")
        made = iter(gradients)
        by_result = [
            next(made) if i in self.gives else np.zeros(result.shape, jax.dtypes.float0)
            for i, result in enumerate(results)
        ]
        by_operand = self.reverse.backward((kept, Known(needed)), by_result)
        return [by_operand[self.places.index(place)] for place in places]


def _is_zero(tangent: Any) -> bool:
    return isinstance(tangent, SymbolicZero)


# A linear function of its last operands, `product(residual, tangents)`, with its transpose, `transposed(residual,
# gradients)`: the first `residuals` operands are the residual.
_product_p = Primitive("isthmus_jvp")
_product_p.multiple_results = True


def _run(*operands: Any, product: Any, transposed: Any, residuals: int) -> list[Any]:
    made: list[Any] = product(operands[:residuals], operands[residuals:])
    return made


def _abstract(*operands: Any, product: Any, transposed: Any, residuals: int) -> list[Any]:
    made = jax.eval_shape(product, operands[:residuals], operands[residuals:])
    return [jax.core.ShapedArray(result.shape, result.dtype) for result in made]


def _transpose(gradients: Sequence[Any], *operands: Any, product: Any, transposed: Any, residuals: int) -> list[Any]:
    given = [jnp.zeros(g.aval.shape, g.aval.dtype) if isinstance(g, ad.Zero) else g for g in gradients]
    made = transposed(operands[:residuals], given)
    by_tangent = [
        (ad.Zero(tangent.aval) if gradient is None else gradient) if ad.is_undefined_primal(tangent) else None
        for tangent, gradient in zip(operands[residuals:], made, strict=True)
    ]
    return [None] * residuals + by_tangent


def _batch(operands: Sequence[Any], dims: Sequence[Any], *, product: Any, transposed: Any, residuals: int) -> Any:
    size = next(o.shape[d] for o, d in zip(operands, dims, strict=True) if d is not None)
    moved = [o if d is None else jnp.moveaxis(o, d, 0) for o, d in zip(operands, dims, strict=True)]
    axes = tuple(None if d is None else 0 for d in dims[:residuals])
    for i in range(residuals, len(moved)):
        if dims[i] is None:
            moved[i] = jnp.broadcast_to(moved[i], (size, *moved[i].shape))
    made = _product_p.bind(  # type: ignore[no-untyped-call, unused-ignore]
        *moved,
        product=jax.vmap(product, (axes, 0)),
        transposed=jax.vmap(transposed, (axes, 0)),
        residuals=residuals,
    )
    return made, [0] * len(made)


def _differentiate(
    operands: Sequence[Any], tangents: Sequence[Any], *, product: Any, transposed: Any, residuals: int
) -> Any:
    if any(not isinstance(t, ad.Zero) for t in tangents[:residuals]):
        raise NotImplementedError("a jvp of an operator cannot be differentiated by the operator's arguments")
    params = {"product": product, "transposed": transposed, "residuals": residuals}
    more = [ad.instantiate_zeros(t) for t in tangents[residuals:]]
    return (
        _product_p.bind(*operands, **params),  # type: ignore[no-untyped-call, unused-ignore]
        _product_p.bind(*operands[:residuals], *more, **params),  # type: ignore[no-untyped-call, unused-ignore]
    )


_product_p.def_impl(_run)
_product_p.def_abstract_eval(_abstract)
mlir.register_lowering(_product_p, mlir.lower_fun(_run, multiple_results=True))
ad.primitive_transposes[_product_p] = _transpose
ad.primitive_jvps[_product_p] = _differentiate
batching.primitive_batchers[_product_p] = _batch
