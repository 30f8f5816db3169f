// A type's first look: its framework, and the first protocol of the table that it offers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "protocols.h"  // Python.h must come before any standard header

#include "hints.h"
#include "known_producers.h"
#include "type_cache.h"
#include "../framework/facts.h"

ISTHMUS_BEGIN

namespace detail {

/// The framework that a type belongs to, and whether its instances are arrays there. The package alone does not tell: it also
/// has dtypes, streams and buffers, and any class may use its name.
inline void find_framework_of(ProducerType& type) {
    if (offers_isthmus_tensor(type)) {
        type.framework = Framework::tensor;
        type.is_array = true;
        return;
    }
    const auto is = [&](const char* name) { return name != nullptr && is_of_class(type.type, name, type.complete); };
    for (const FrameworkFacts& facts : framework_facts) {
        if (facts.array == nullptr) continue;
        type.is_array = is(facts.array) || is(facts.other_array);
        if (!type.is_array && !is(facts.scalar)) continue;
        type.framework = facts.framework;
        return;
    }
}

/// The protocol of a type, and what its importer wants to know of it.
inline Protocol choose_protocol(ProducerType& type) {
    if (const KnownProducer* known = find_known_producer(type)) {
        type.immutable = known->immutable;
        type.only_dlpack = known->only_dlpack;
        type.refusal = known->refusal;
        type.is_eager_tensor = known->is_eager_tensor;
        if (known->protocol != Protocol::none || known->refusal != nullptr) return known->protocol;
    }
    const Hint* hint = find_hint(type.type);
    if (hint != nullptr) type.hint = hint->call;
    for (const ProtocolFacts& row : protocols) {
        if (offers(row, type)) return hint != nullptr && hint->is_table && row.of_tables ? Protocol::none : row.protocol;
        if (PyErr_Occurred() != nullptr) break;  // an interrupt, which the next look into a type would clear
    }
    return Protocol::none;
}

/// Looks at a type for the first time. NULL with a Python exception set when even that failed.
ISTHMUS_NOINLINE inline const ProducerType* classify(PyTypeObject* type, ProducerType& scratch) {
    if (!make_interned() || shared_runtime() == nullptr || !start_type_cache()) return nullptr;
    scratch = ProducerType{.type = type};
    (void)type_item(type, interned().dlpack);  // being asked gives a type a version, unless CPython ran out of them
    const unsigned int version = version_of(type);
    find_framework_of(scratch);
    scratch.protocol = choose_protocol(scratch);
    if (scratch.protocol == Protocol::dlpack_method) expect_driver();
    if (PyErr_Occurred() != nullptr) return nullptr;
    // The result holds for that version only: another thread may have changed the type meanwhile.
    if (version == version_of(type)) scratch.version = version;
    if (scratch.version != 0 && scratch.protocol != Protocol::none && scratch.complete) type_cache.begin().remember(scratch);
    return &scratch;
}

/// What is known about a type; `scratch` may hold it, and does on the first look. NULL with a Python exception set. The caller
/// copies the result before foreign code runs, which may replace the cache entry.
inline const ProducerType* find_type(PyTypeObject* type, ProducerType& scratch) {
    const ProducerType* known = cached_type(type, scratch);
    return ISTHMUS_LIKELY(known != nullptr) ? known : classify(type, scratch);
}

/// The same for a caller that may have an exception set, and for which not knowing is no error. NULL: unknown.
inline const ProducerType* find_type_quietly(PyTypeObject* type, ProducerType& scratch) {
    if (const ProducerType* known = cached_type(type, scratch); ISTHMUS_LIKELY(known != nullptr)) return known;
    const PendingException pending;
    const ProducerType* found = classify(type, scratch);
    if (found == nullptr) PyErr_Clear();
    return found;
}

}  // namespace detail

ISTHMUS_END
