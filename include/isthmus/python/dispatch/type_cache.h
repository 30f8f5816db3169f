// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/exchange_api/import.h>
#include <isthmus/python/framework.h>
#include <isthmus/python/framework/torch/import.h>

#if defined(Py_GIL_DISABLED)
#error "Isthmus needs a CPython with the GIL: its caches are guarded by it"
#endif

ISTHMUS_BEGIN

namespace detail {

/// The way in that a type offers; the cheapest one that loses nothing.
enum class Protocol : std::uint8_t {
    none,
    isthmus_tensor,  ///< our own object, of this ABI
    torch_stable,
    torch_exchange,  ///< PyTorch 2.10 to 2.13
    torch_method,    ///< older PyTorch
    numpy,
    exchange_api,
    buffer_or_dlpack,  ///< read through the buffer protocol, and through __dlpack__ what that cannot say
    dlpack_method,
    cuda_array_interface,
    buffer,
    array_interface,
    arrow_device_array,
    arrow_array,
    capsule,
};

struct TypeEntry {
    PyTypeObject* type;
    unsigned int version;  ///< CPython's tag of this very state of this very type: never used twice
    Protocol protocol;
    Framework framework;
    bool may_be_written;
    const DLPackExchangeAPI* api;
    const char* refusal;  ///< why instances are not taken, or NULL
    bool string_dtype_aborts;
    bool known_torch;  ///< derived from torch.Tensor as libtorch itself knows it
};

/// Producers about whom something must be known that their protocol does not say.
struct KnownProducer {
    const char* module_prefix;
    const char* name;
    Protocol protocol;  ///< none: as any other type
    bool may_be_written;
    bool string_dtype_aborts;  ///< asking for a capsule of strings ends the process, so the dtype is asked first
    const char* refusal;
};
inline constexpr KnownProducer known_producers[] = {
    {"jaxlib", "ArrayImpl", Protocol::buffer_or_dlpack, false, false, nullptr},
    {"jax", "ArrayImpl", Protocol::buffer_or_dlpack, false, false, nullptr},
    {"tensorflow", "EagerTensor", Protocol::buffer_or_dlpack, false, true, nullptr},
    {"torch", "ReadOnlyTensorWrapper", Protocol::none, false, false, nullptr},
    {"numpy", "MaskedArray", Protocol::none, false, false, "its mask would be lost; call .filled() or take .data"},
    {"jax", "DynamicJaxprTracer", Protocol::none, false, false,
     "a traced value has no memory; call it outside jit, or through jax.pure_callback"},
};

inline unsigned int version_of(PyTypeObject* type) noexcept {
#if PY_VERSION_HEX < 0x030C0000
    if (!(type->tp_flags & Py_TPFLAGS_VALID_VERSION_TAG)) return 0;
#endif
    return type->tp_version_tag;
}

struct TypeCache {
    static constexpr std::size_t slots = 64;
    TypeEntry entries[slots];
    static std::size_t slot(PyTypeObject* type) noexcept {
        const auto bits = reinterpret_cast<std::uintptr_t>(type);
        return (bits >> 4 ^ bits >> 10) % slots;
    }
};
ISTHMUS_STATE TypeCache type_cache{};
inline void forget_types() noexcept { type_cache = TypeCache{}; }

/// Looks at a type for the first time (isthmus/python/dispatch/classify.h). NULL with a Python exception set when even that failed.
const TypeEntry* look_at_type(PyTypeObject* type, TypeEntry& scratch);

/// A type that dies and another that gets its address have different tags, and so have two states of one type; no entry has 0,
/// the tag of a type without one.
inline const TypeEntry* find_type(PyTypeObject* type, TypeEntry& scratch) {
    TypeEntry& entry = type_cache.entries[TypeCache::slot(type)];
    if (ISTHMUS_LIKELY(entry.type == type && entry.version == version_of(type))) return &entry;
    return look_at_type(type, scratch);
}

}  // namespace detail

ISTHMUS_END
