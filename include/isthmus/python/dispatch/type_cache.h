// What was found out of the types met so far.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/protocol.h>
#include <isthmus/python/runtime/life.h>

#if defined(Py_GIL_DISABLED)
#error "Isthmus needs a CPython with the GIL: its caches are guarded by it"
#endif

ISTHMUS_BEGIN

namespace detail {

/// CPython's tag of this very state of this type; 0 where it has none.
inline unsigned int version_of(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX < 0x030C0000
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return type->tp_version_tag;
}

struct TypeCache {
    static constexpr std::size_t slots = 64;
    ProducerType entries[slots];
    ProducerType& entry(PyTypeObject* type) noexcept {
        const auto bits = reinterpret_cast<std::uintptr_t>(type);
        return entries[(bits >> 4 ^ bits >> 10) % slots];
    }
};
ISTHMUS_STATE PerLife<TypeCache> type_cache;

/// NULL for a type that is not in the cache. A type that dies and another that gets its address have different tags, and so
/// have two states of one type; no entry has 0, the tag of a type without one.
inline const ProducerType* cached_type(PyTypeObject* type) noexcept {
    const ProducerType& entry = type_cache->entry(type);
    return ISTHMUS_LIKELY(entry.type == type && entry.version == version_of(type)) ? &entry : nullptr;
}

}  // namespace detail

ISTHMUS_END
