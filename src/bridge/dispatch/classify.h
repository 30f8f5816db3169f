// How a type is classified, once, and the cache of the answers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/names.h"  // Python.h must come before any standard header

#include "../framework/facts.h"
#include "../protocol/import_request.h"
#include "producers.h"
#include "protocols.h"

#if defined(Py_GIL_DISABLED)
#include <cstring>
#include <type_traits>
#include <utility>
#endif

ISTHMUS_BEGIN

namespace detail {

/// CPython's version tag of this type; 0 if it has none.
inline unsigned int version_of(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX < 0x030B0000  // which keeps the number of a tag that it takes back
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return load_shared(type->tp_version_tag);
}

/// A place in the cache. The pointers to classes are those of objects on the heap, whose lowest bits say nothing.
constexpr std::size_t type_cache_slots = 64;
inline std::size_t type_cache_slot(PyTypeObject* type) noexcept {
    const auto bits = reinterpret_cast<std::uintptr_t>(type);
    return (bits >> 4 ^ bits >> 10) % type_cache_slots;
}

#if defined(Py_GIL_DISABLED)

/// Read by any number of threads without a lock, and written by one: an entry is copied word by word, and the copy
/// counts only if no thread wrote meanwhile, by the number of writes (it is odd during one).
class TypeCache {
public:
    bool find(PyTypeObject* type, ProducerType& out) const noexcept {
        const Slot& slot = slots_[type_cache_slot(type)];
        const std::uint32_t writes = load_shared(slot.writes);
        copy(slot.words, out, std::make_index_sequence<word_count>());
        if (ISTHMUS_UNLIKELY(writes % 2 != 0 || AtomicRef(slot.writes).load_relaxed() != writes)) return false;
        return out.type == type && out.version == version_of(type);
    }
    /// Does nothing while another thread writes to the same slot.
    void remember(const ProducerType& entry) noexcept {
        Slot& slot = slots_[type_cache_slot(entry.type)];
        std::uint32_t writes = load_shared(slot.writes);
        if (writes % 2 != 0 || !AtomicRef(slot.writes).compare_exchange(writes, writes + 1)) return;
        Words words{};
        std::memcpy(words.of, &entry, sizeof entry);
        for (std::size_t i = 0; i < word_count; ++i) store_shared(slot.words.of[i], words.of[i]);
        store_shared(slot.writes, writes + 2);
    }

private:
    static_assert(std::is_trivially_copyable_v<ProducerType> && sizeof(ProducerType) % sizeof(std::uint64_t) == 0);
    static constexpr std::size_t word_count = sizeof(ProducerType) / sizeof(std::uint64_t);
    struct Words {
        std::uint64_t of[word_count];
    };
    struct Slot {
        alignas(64) Words words{};
        std::uint32_t writes = 0;
    };
    /// Word after word: a loop over them takes three times the instructions.
    template <std::size_t... i>
    ISTHMUS_ALWAYS_INLINE static void copy(const Words& words, ProducerType& out, std::index_sequence<i...>) noexcept {
        const std::uint64_t copied[] = {load_shared(words.of[i])...};
        std::memcpy(static_cast<void*>(&out), copied, sizeof copied);
    }
    Slot slots_[type_cache_slots];
};

/// The place to which cached_type() copies an entry, since other threads may write it.
union TypeCopy {
    TypeCopy() noexcept {}
    operator ProducerType&() noexcept { return entry; }

    ProducerType entry;
};

#else

/// Empty: an entry is used in place.
struct TypeCopy {
    constexpr TypeCopy() noexcept = default;
    constexpr TypeCopy(const ProducerType&) noexcept {}
};
struct TypeCache {
    static constexpr std::size_t slot_count = type_cache_slots;
    struct Slot {
        alignas(64) ProducerType entry;  // one cache line each, and quick to find
    };
    Slot entries[slot_count];
#if PY_VERSION_HEX < 0x030B0000
    PyTypeObject* witness = nullptr;  ///< see tags_are_the_same()
    unsigned int witness_version = 0;
#endif
    const ProducerType& entry(PyTypeObject* type) const noexcept { return entries[type_cache_slot(type)].entry; }
    void remember(const ProducerType& entry) noexcept { entries[type_cache_slot(entry.type)].entry = entry; }
};

#endif

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

/// NULL for a type that is not in the cache. A type that dies and another
/// that gets its address have different tags, and so have two states of one type; no entry has 0, the tag of a type
/// without one.
#if defined(Py_GIL_DISABLED)
inline const ProducerType* cached_type(PyTypeObject* type, ProducerType& copy) noexcept {
    return ISTHMUS_LIKELY(type_cache->find(type, copy)) ? &copy : nullptr;
}
#else
inline const ProducerType* cached_type(PyTypeObject* type, const TypeCopy&) noexcept {
    const ProducerType& entry = type_cache->entry(type);
    return ISTHMUS_LIKELY(entry.type == type && entry.version == version_of(type) && tags_are_the_same()) ? &entry
                                                                                                          : nullptr;
}
#endif

/// The framework that a type belongs to, and whether its instances are arrays there. The package alone does not tell:
/// it also has dtypes, streams and buffers, and any class may use its name.
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
    if ((type.refusal = find_override(type)) != nullptr) return Protocol::none;
    const Hint* hint = find_hint(type.type);
    if (hint != nullptr) type.hint = hint->call;
    type.converts = (hint != nullptr && hint->converts) || makes_buffers_in_python(type.type);
    for (const ProtocolFacts& row : protocols) {
        if (offers(row, type))
            return hint != nullptr && hint->is_table && row.of_tables ? Protocol::none : row.protocol;
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
    if (scratch.version != 0 && scratch.protocol != Protocol::none && scratch.complete)
        type_cache.begin().remember(scratch);
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
