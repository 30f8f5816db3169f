// The table of producers about which something must be known that their protocol does not say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/errors.h>  // Python.h must come before any standard header

#include "../protocol/protocol.h"
#include <isthmus/python/runtime/classes.h>

ISTHMUS_BEGIN

namespace detail {

struct KnownProducer {
    const char* public_name;             ///< the class, where its package shows it
    const char* names[2] = {};           ///< and what it calls itself, which tells also while the package is out of sys.modules
    Protocol protocol = Protocol::none;  ///< none: as any other type
    bool immutable = false;              ///< see ProducerType
    bool only_dlpack = false;            ///< see ProducerType
    bool is_eager_tensor = false;
    const char* refusal = nullptr;
};
/// The first row of which a type is an instance counts.
inline constexpr KnownProducer known_producers[] = {
    {.public_name = "jax.core.Tracer",
     .names = {"jax._src.core.Tracer"},
     .refusal = "a traced value has no memory; call it outside jit, vmap and grad, or through jax.pure_callback"},
    {.public_name = "jax.Array",
     .names = {"jaxlib._jax.ArrayImpl", "jaxlib.xla_extension.ArrayImpl"},
     .protocol = Protocol::buffer_or_dlpack,
     .immutable = true},
    {.public_name = "tensorflow.python.framework.ops.SymbolicTensor",
     .names = {"tensorflow.python.framework.ops.SymbolicTensor"},
     .refusal = "a traced value has no memory; call it outside tf.function, or through tf.numpy_function"},
    {.public_name = "tensorflow.Tensor",
     .names = {"tensorflow.python.framework.ops.EagerTensor"},
     .protocol = Protocol::buffer_or_dlpack,
     .immutable = true,
     .is_eager_tensor = true},
    {.public_name = "torch.utils.dlpack.ReadOnlyTensorWrapper",
     .names = {"torch.utils.dlpack.ReadOnlyTensorWrapper"},
     .immutable = true},
    {.public_name = "torch.nn.parameter.UninitializedTensorMixin",
     .names = {"torch.nn.parameter.UninitializedTensorMixin"},
     .refusal = "it is uninitialized, and has neither shape nor values yet; call .materialize(shape), or run the module once"},
    {.public_name = "torch._subclasses.fake_tensor.FakeTensor",
     .names = {"torch._subclasses.fake_tensor.FakeTensor"},
     .refusal = "a fake tensor has no memory; call this outside of FakeTensorMode and torch.compile"},
    // Its buffer does not hold the memory: `x *= y` frees it, and gives it to another array. It is always writable.
    {.public_name = "mlx.core.array", .names = {"mlx.core.array"}, .only_dlpack = true},
    {.public_name = "openvino.Tensor", .names = {"openvino._pyopenvino.Tensor"}, .protocol = Protocol::openvino},
    {.public_name = "numpy.ma.MaskedArray",
     .names = {"numpy.ma.MaskedArray", "numpy.ma.core.MaskedArray"},
     .refusal = "its mask would be lost; call .filled() or take .data"},
};

/// If the class cannot be found its name decides: a module that was never imported has no instances, so its absence leaves
/// nothing uncertain.
inline bool is_producer(PyTypeObject* type, const KnownProducer& known) {
    for (const char* name : known.names)
        if (name != nullptr && has_base_called(type, name)) return true;
    bool found = true;
    return is_of_class(type, known.public_name, found);
}

inline const KnownProducer* find_known_producer(const ProducerType& type) {
    for (const KnownProducer& known : known_producers)
        if (is_producer(type.type, known)) return &known;
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
