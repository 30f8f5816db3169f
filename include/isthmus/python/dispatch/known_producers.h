// The table of producers about whom something must be known that their protocol does not say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/errors.h>  // Python.h must come before any standard header

#include <string_view>

#include <isthmus/python/protocol/protocol.h>

ISTHMUS_BEGIN

namespace detail {

struct KnownProducer {
    const char* module_prefix;
    const char* name;
    Protocol protocol = Protocol::none;  ///< none: as any other type
    bool immutable = false;              ///< see ProducerType
    bool string_dtype_aborts = false;
    const char* refusal = nullptr;
};
inline constexpr KnownProducer known_producers[] = {
    {.module_prefix = "jaxlib", .name = "ArrayImpl", .protocol = Protocol::buffer_or_dlpack, .immutable = true},
    {.module_prefix = "jax", .name = "ArrayImpl", .protocol = Protocol::buffer_or_dlpack, .immutable = true},
    {.module_prefix = "tensorflow",
     .name = "EagerTensor",
     .protocol = Protocol::buffer_or_dlpack,
     .immutable = true,
     .string_dtype_aborts = true},
    {.module_prefix = "torch", .name = "ReadOnlyTensorWrapper", .immutable = true},
    {.module_prefix = "numpy", .name = "MaskedArray", .refusal = "its mask would be lost; call .filled() or take .data"},
    {.module_prefix = "jax",
     .name = "DynamicJaxprTracer",
     .refusal = "a traced value has no memory; call it outside jit, or through jax.pure_callback"},
};

inline const KnownProducer* find_known_producer(PyTypeObject* type) {
    PyObject* bases = type->tp_mro;
    if (bases == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
        auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i));
        if (!PyType_Check(reinterpret_cast<PyObject*>(base))) continue;
        const std::string full = type_name(base);
        const std::string_view view = full;
        for (const KnownProducer& known : known_producers) {
            const std::string_view prefix = known.module_prefix, name = known.name;
            if (view.size() > prefix.size() + name.size() && view.substr(0, prefix.size()) == prefix &&
                view.substr(view.size() - name.size()) == name && view[view.size() - name.size() - 1] == '.' &&
                (view[prefix.size()] == '.' || view[prefix.size()] == '_'))
                return &known;
        }
    }
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
