// How a type is classified, once, and the cache of the answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include "../framework/facts.h"
#include "../protocol/import_request.h"
#include "producers.h"
#include "protocols.h"
#include "type_cache.h"

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_STATE PerSession<TypeCache> type_cache;

#if PY_VERSION_HEX < 0x030B0000
/// Before CPython 3.11 sys._clear_type_cache() takes the tags from all types and counts from the beginning again:
/// another type, or the same one in another state, may then get a tag that is known here. The witness is a class that
/// nobody looks up attributes on: it loses its tag with the others, and gets a new one only here.
inline bool tags_are_the_same() noexcept {
    return type_cache->witness != nullptr && version_of(type_cache->witness) == type_cache->witness_version;
}
/// Forgets what was known under earlier tags. False with a Python exception set.
inline bool start_type_cache() {
    if (ISTHMUS_LIKELY(tags_are_the_same())) return true;
    PyType_Slot type_slots[] = {{0, nullptr}};
    PyType_Spec spec{"isthmus._TagWitness", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, type_slots};
    PyTypeObject* witness =
        type_cache->witness != nullptr ? type_cache->witness : reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (witness == nullptr) return false;
    (void)_PyType_Lookup(witness, interned().dlpack);
    type_cache.begin() = TypeCache();
    type_cache.begin().witness = witness;
    type_cache.begin().witness_version = version_of(witness);
    return true;
}
#else
constexpr bool tags_are_the_same() noexcept { return true; }
constexpr bool start_type_cache() noexcept { return true; }
#endif

/// NULL for a type that is not in the cache. A type that dies and another
/// that gets its address have different tags, and so have two states of one type; no entry has 0, the tag of a type
/// without one.
#if defined(Py_GIL_DISABLED)
inline const ProducerType* cached_type(PyTypeObject* type, ProducerType& copy) noexcept {
    return ISTHMUS_LIKELY(type_cache->find(type, copy)) ? &copy : nullptr;
}
#else
inline bool is_current(const ProducerType& entry, PyTypeObject* type) noexcept {
    return ISTHMUS_LIKELY(entry.type == type && entry.version == version_of(type) && tags_are_the_same());
}
ISTHMUS_NOINLINE inline const ProducerType* overflowed_type(PyTypeObject* type) noexcept {
    const TypeSlot* slot = type_cache->overflow_slot(type);
    return slot != nullptr && is_current(slot->entry(), type) ? &slot->entry() : nullptr;
}
inline const ProducerType* cached_type(PyTypeObject* type, const TypeCopy&) noexcept {
    const ProducerType& entry = type_cache->entry(type);
    return ISTHMUS_LIKELY(is_current(entry, type)) ? &entry : overflowed_type(type);
}
#endif

/// The framework that a type belongs to, and whether its instances are arrays there. The package alone does not tell:
/// it also has dtypes, streams and buffers, and any class may use its name.
ISTHMUS_COLD inline void find_framework_of(ProducerType& type) {
    if (offers_isthmus_tensor(type)) {
        type.framework = Framework::tensor;
        type.is_array = true;
        return;
    }
    const auto is = [&](const char* name) { return name != nullptr && is_of_class(type, name, type.complete); };
    for (std::size_t i = 0; i < std::size(framework_facts); ++i) {
        if (!may_be_of(type, packages_of_frameworks[i])) continue;
        const FrameworkFacts& facts = framework_facts[i];
        type.is_array = is(facts.array) || is(facts.other_array);
        if (!type.is_array && !is(facts.scalar)) continue;
        type.framework = facts.framework;
        return;
    }
}

/// The protocol of a type, and what its importer wants to know of it.
ISTHMUS_COLD inline Protocol choose_protocol(ProducerType& type) {
    type.is_known = type.is_array;
    if (const KnownProducer* known = find_known_producer(type)) {
        type.immutable = known->immutable;
        type.only_dlpack = known->only_dlpack;
        type.refusal = known->refusal;
        type.is_eager_tensor = known->is_eager_tensor;
        if (known->protocol != Protocol::none || known->refusal != nullptr) return known->protocol;
    }
    if ((type.own_dlpack = has_own_dlpack(type))) {
        type.is_known = false;
        return Protocol::dlpack_method;
    }
    if ((type.refusal = find_override(type)) != nullptr) return Protocol::none;
    const Hint* hint = find_hint(type);
    if (hint != nullptr) type.hint = hint->call;
    type.is_known = type.is_known || hint != nullptr;
    type.converts = (hint != nullptr && hint->converts) || makes_buffers_in_python(type.type);
    for (const ProtocolFacts& row : protocols) {
        if (offers(row, type))
            return hint != nullptr && hint->is_table && row.of_tables ? Protocol::none : row.protocol;
        if (PyErr_Occurred() != nullptr) break;  // an interrupt, which the next look into a type would clear
    }
    return Protocol::none;
}

/// Whether the bases of a class are its base and the bases of that, in this order.
inline bool has_bases_of_base(PyTypeObject* type) {
    const Ref all = bases_of(type), rest = bases_of(type->tp_base);
    const Py_ssize_t count = rest ? PyTuple_GET_SIZE(rest.get()) : 0;
    if (!all || PyTuple_GET_SIZE(all.get()) != count + 1) return false;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (PyTuple_GET_ITEM(all.get(), i + 1) != PyTuple_GET_ITEM(rest.get(), i)) return false;
    return count != 0 && PyTuple_GET_ITEM(all.get(), 0) == reinterpret_cast<PyObject*>(type);
}
/// Whether the facts about a class are those of its base: it is of no known package, has no buffers and no special
/// names that its base has not.
ISTHMUS_COLD inline bool is_as_its_base(PyTypeObject* type) {
    const auto lender = [](PyTypeObject* t) {
        return t->tp_as_buffer != nullptr ? t->tp_as_buffer->bf_getbuffer : nullptr;
    };
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_base != nullptr && !may_define_special(type) &&
           has_bases_of_base(type) && lender(type) == lender(type->tp_base) && package_bit(ClassName(type).module) == 0;
}
inline const ProducerType* find_type(PyTypeObject* type, ProducerType& scratch);

/// The facts about a type, of a base that it is like or by looking at all that tells of it. False with a Python
/// exception set.
ISTHMUS_COLD inline bool find_facts(PyTypeObject* type, ProducerType& facts) {
    // A descriptor may answer differently for each class.
    const Ref api = type_item(type, interned().exchange_api);
    PyTypeObject* base = type;
    while ((!api || Py_TYPE(api.get())->tp_descr_get == nullptr) && is_as_its_base(base)) base = base->tp_base;
    facts = ProducerType{.type = type};
    if (base != type) {
        const Ref kept = Ref::borrow(reinterpret_cast<PyObject*>(base));
        const ProducerType* of_base = find_type(base, facts);
        if (of_base == nullptr) return false;
        facts = *of_base;
        facts.type = type;
        facts.version = 0;
        return true;
    }
    facts.packages = packages_of(type);
    find_framework_of(facts);
    facts.protocol = choose_protocol(facts);
    return true;
}

/// Looks at a type for the first time. NULL with a Python exception set when even that failed.
ISTHMUS_COLD inline const ProducerType* classify(PyTypeObject* type, ProducerType& scratch) {
    if (!make_interned() || shared_runtime() == nullptr || !start_type_cache()) return nullptr;
    // Being asked gives a type a version, unless CPython ran out of them.
    if (version_of(type) == 0) (void)type_item(type, interned().dlpack);
    const unsigned int version = version_of(type);
    if (!find_facts(type, scratch)) return nullptr;
    if (scratch.protocol == Protocol::dlpack_method) expect_driver();
    if (PyErr_Occurred() != nullptr) return nullptr;
    // The result holds for that version only: another thread may have changed the type meanwhile.
    if (version == version_of(type)) scratch.version = version;
    if (scratch.version != 0 && scratch.complete) type_cache.begin().remember(scratch);
    return &scratch;
}

/// The facts about a type; `scratch` may hold them, and does on the first look. NULL with a Python exception set. The
/// caller copies the result before foreign code runs, which may replace the cache entry.
inline const ProducerType* find_type(PyTypeObject* type, ProducerType& scratch) {
    const ProducerType* known = cached_type(type, scratch);
    return ISTHMUS_LIKELY(known != nullptr) ? known : classify(type, scratch);
}

/// The same for a caller that may have an exception set, and for which an unknown type is not an error. NULL: unknown.
inline const ProducerType* find_type_quietly(PyTypeObject* type, ProducerType& scratch) {
    if (const ProducerType* known = cached_type(type, scratch); ISTHMUS_LIKELY(known != nullptr)) return known;
    const PendingException pending;
    const ProducerType* found = classify(type, scratch);
    if (found == nullptr) PyErr_Clear();
    return found;
}

}  // namespace detail

ISTHMUS_END
