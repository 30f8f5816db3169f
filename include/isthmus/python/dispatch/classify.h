// A type's first look: its framework, and the first protocol of the table that it offers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/dispatch/protocols.h>  // Python.h must come before any standard header

#include <isthmus/python/dispatch/known_producers.h>
#include <isthmus/python/dispatch/type_cache.h>
#include <isthmus/python/framework/facts.h>

ISTHMUS_BEGIN

namespace detail {

/// The framework whose array type this is, or is derived from: told by the package of each base.
inline Framework framework_of(PyTypeObject* type) {
    PyObject* bases = type->tp_mro;
    for (Py_ssize_t i = 0; bases != nullptr && i < PyTuple_GET_SIZE(bases); ++i) {
        PyObject* base = PyTuple_GET_ITEM(bases, i);
        if (!PyType_Check(base)) continue;
        const std::string full = type_name(reinterpret_cast<PyTypeObject*>(base));
        const std::string_view package = std::string_view(full).substr(0, full.find('.'));
        for (const FrameworkFacts& facts : framework_facts)
            if (package == facts.package || package == facts.other_package) return facts.framework;
    }
    return Framework::none;
}

inline Protocol choose_protocol(ProducerType& type) {
    if (offers_isthmus_tensor(type)) return Protocol::isthmus_tensor;
    if (const KnownProducer* known = find_known_producer(type.type)) {
        type.immutable = known->immutable;
        type.refusal = known->refusal;
        type.string_dtype_aborts = known->string_dtype_aborts;
        if (known->protocol != Protocol::none || known->refusal != nullptr) return known->protocol;
    }
    for (const ProtocolFacts& row : protocols)
        if (offers(row, type)) return row.protocol;
    return Protocol::none;
}

/// Looks at a type for the first time. NULL with a Python exception set when even that failed.
ISTHMUS_NOINLINE inline const ProducerType* classify(PyTypeObject* type, ProducerType& scratch) {
    if (!make_interned() || shared_runtime() == nullptr) return nullptr;
    scratch = ProducerType{.type = type, .framework = framework_of(type)};
    scratch.protocol = choose_protocol(scratch);
    if (scratch.protocol == Protocol::dlpack_method) expect_driver();
    if (PyErr_Occurred() != nullptr) return nullptr;
    scratch.version = version_of(type);  // asking for attributes has given it one, unless CPython ran out of them
    if (scratch.version != 0 && scratch.protocol != Protocol::none) type_cache.begin().entry(type) = scratch;
    return &scratch;
}

/// What is known of a type; `scratch` holds it where this is the first look. NULL with a Python exception set.
inline const ProducerType* find_type(PyTypeObject* type, ProducerType& scratch) {
    const ProducerType* known = cached_type(type);
    return ISTHMUS_LIKELY(known != nullptr) ? known : classify(type, scratch);
}

}  // namespace detail

ISTHMUS_END
