// What was found out of the types met so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/protocol.h>
#include <isthmus/python/runtime/interned.h>

#if defined(Py_GIL_DISABLED)
#error "Isthmus needs a CPython with the GIL: its caches are guarded by it"
#endif

ISTHMUS_BEGIN

namespace detail {

/// CPython's tag of this very state of this type; 0 where it has none.
inline unsigned int version_of(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX < 0x030B0000  // which keeps the number of a tag that it takes back
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return type->tp_version_tag;
}

struct TypeCache {
    static constexpr std::size_t slots = 64;
    struct Slot {
        alignas(64) ProducerType entry;  // one cache line each, and quick to find
    };
    Slot entries[slots];
#if PY_VERSION_HEX < 0x030B0000
    PyTypeObject* witness = nullptr;  ///< see tags_are_the_same()
    unsigned int witness_version = 0;
#endif
    ProducerType& entry(PyTypeObject* type) noexcept {
        const auto bits = reinterpret_cast<std::uintptr_t>(type);
        return entries[(bits >> 4 ^ bits >> 10) % slots].entry;
    }
};
ISTHMUS_STATE PerLife<TypeCache> type_cache;

#if PY_VERSION_HEX < 0x030B0000
/// Before CPython 3.11 sys._clear_type_cache() takes the tags from all types and counts from the beginning again: another type,
/// or the same one in another state, may then get a tag that is known here. A class that nobody asks for anything loses its tag
/// with the others, and has it back only from here.
inline bool tags_are_the_same() noexcept {
    return type_cache->witness != nullptr && version_of(type_cache->witness) == type_cache->witness_version;
}
/// Forgets what was known under earlier tags. False with a Python exception set.
inline bool start_type_cache() {
    if (ISTHMUS_LIKELY(tags_are_the_same())) return true;
    PyType_Slot slots[] = {{0, nullptr}};
    PyType_Spec spec{"isthmus._TagWitness", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, slots};
    TypeCache renewed;
    renewed.witness =
        type_cache->witness != nullptr ? type_cache->witness : reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
    if (renewed.witness == nullptr) return false;
    (void)_PyType_Lookup(renewed.witness, interned().dlpack);
    renewed.witness_version = version_of(renewed.witness);
    type_cache.begin() = renewed;
    return true;
}
#else
constexpr bool tags_are_the_same() noexcept { return true; }
constexpr bool start_type_cache() noexcept { return true; }
#endif

/// NULL for a type that is not in the cache. A type that dies and another that gets its address have different tags, and so
/// have two states of one type; no entry has 0, the tag of a type without one.
inline const ProducerType* cached_type(PyTypeObject* type) noexcept {
    const ProducerType& entry = type_cache->entry(type);
    return ISTHMUS_LIKELY(entry.type == type && entry.version == version_of(type) && tags_are_the_same()) ? &entry : nullptr;
}

}  // namespace detail

ISTHMUS_END
