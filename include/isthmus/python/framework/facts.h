// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <isthmus/python/dispatch/type_cache.h>

ISTHMUS_BEGIN

namespace detail {

/// What a framework's importer is handed.
enum class Hand : std::uint8_t {
    itself,          ///< one of our own kinds: no module, no call
    object,          ///< an isthmus.Tensor
    capsule,         ///< a versioned capsule
    legacy_capsule,  ///< a capsule as before DLPack 1.0
};

/// What becomes of read-only memory.
enum class ReadOnly : std::uint8_t {
    kept,       ///< the framework honours the flag
    immutable,  ///< its arrays are never written, so it may have it
    lost,       ///< it would be writable there: refused unless the caller allows it
};

/// One row per framework: how a tensor gets in, and what the framework does not promise by itself. (Measured; see
/// docs/frameworks.md.)
struct FrameworkFacts {
    Framework framework;
    std::string_view name;  ///< as users write it: t.to("torch")
    std::string_view package, other_package;
    const char* module;    ///< to import
    const char* importer;  ///< function in it; dots allowed
    Hand hand;
    ReadOnly read_only;
    std::int64_t alignment;  ///< bytes below which it copies silently; 0: never
    bool needs_contiguous;   ///< refuses, or copies, other strides
    bool always_copies;
    const char* pointer;  ///< method of the result that gives its address, to see a silent copy; NULL: it never copies
    const char* module_of_type = nullptr;  ///< of the array type whose exchange API takes a tensor, where that is cheaper
    const char* exchange_type = nullptr;
};

inline constexpr FrameworkFacts framework_facts[] = {
    {Framework::tensor, "tensor", "isthmus", "", nullptr, nullptr, Hand::itself, ReadOnly::kept, 0, false, false, nullptr},
    {Framework::capsule, "capsule", "", "", nullptr, nullptr, Hand::itself, ReadOnly::kept, 0, false, false, nullptr},
    {Framework::capsule_legacy, "capsule_legacy", "", "", nullptr, nullptr, Hand::itself, ReadOnly::kept, 0, false, false,
     nullptr},
    {Framework::numpy, "numpy", "numpy", "", "numpy", "from_dlpack", Hand::object, ReadOnly::kept, 0, false, false, nullptr},
    {Framework::torch, "torch", "torch", "", "torch.utils.dlpack", "from_dlpack", Hand::capsule, ReadOnly::lost, 0, false,
     false, nullptr},
    {Framework::jax, "jax", "jax", "jaxlib", "jax.dlpack", "from_dlpack", Hand::object, ReadOnly::immutable, 64, true, false,
     "unsafe_buffer_pointer"},
    {Framework::cupy, "cupy", "cupy", "cupy_backends", "cupy", "from_dlpack", Hand::object, ReadOnly::lost, 0, false, false,
     nullptr},
    {Framework::tensorflow, "tensorflow", "tensorflow", "", "tensorflow.experimental.dlpack", "from_dlpack",
     Hand::legacy_capsule, ReadOnly::immutable, 0, true, false, nullptr},
    {Framework::paddle, "paddle", "paddle", "", "paddle.utils.dlpack", "from_dlpack", Hand::capsule, ReadOnly::lost, 0, false,
     false, "data_ptr", "paddle", "Tensor"},
    {Framework::mlx, "mlx", "mlx", "", "mlx.core", "array", Hand::object, ReadOnly::immutable, 0, false, true, nullptr},
    {Framework::pyarrow, "pyarrow", "pyarrow", "", "pyarrow", "Tensor.from_dlpack", Hand::object, ReadOnly::kept, 0, false,
     false, nullptr},
    {Framework::warp, "warp", "warp", "", "warp", "from_dlpack", Hand::legacy_capsule, ReadOnly::lost, 0, false, false,
     nullptr},
    {Framework::onnxruntime, "onnxruntime", "onnxruntime", "", "onnxruntime.capi.onnxruntime_pybind11_state",
     "OrtValue.from_dlpack", Hand::legacy_capsule, ReadOnly::lost, 0, true, false, "data_ptr"},
    {Framework::tvm_ffi, "tvm_ffi", "tvm_ffi", "", "tvm_ffi", "from_dlpack", Hand::object, ReadOnly::lost, 0, false, false,
     nullptr},
};

constexpr const FrameworkFacts* find_framework(Framework framework) noexcept {
    for (const FrameworkFacts& facts : framework_facts)
        if (facts.framework == framework) return &facts;
    return nullptr;
}

}  // namespace detail

ISTHMUS_API const char* framework_name(Framework framework) noexcept {
    const auto* facts = detail::find_framework(framework);
    return facts != nullptr ? facts->name.data() : "none";
}
ISTHMUS_API bool parse_framework(std::string_view name, Framework& out) noexcept {
    for (const auto& facts : detail::framework_facts)
        if (facts.name == name) {
            out = facts.framework;
            return true;
        }
    return false;
}

ISTHMUS_END
