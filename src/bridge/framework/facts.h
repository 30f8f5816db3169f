// The table of frameworks: how a tensor gets into each, and what the framework does not promise by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

/// The argument of a framework's own from_dlpack.
enum class ExportForm : std::uint8_t {
    none,            ///< it has none: one of our own kinds
    object,          ///< an isthmus.Tensor
    capsule,         ///< a versioned capsule
    legacy_capsule,  ///< a capsule as before DLPack 1.0
};

/// The treatment of read-only memory.
enum class ReadOnly : std::uint8_t {
    kept,       ///< the framework honours the flag
    immutable,  ///< its arrays are never written, so it may have the memory
    lost,       ///< it would be writable there: refused unless the caller allows it
};

/// One row per framework. Plain data, measured (docs/frameworks.md); a framework with its own export path also has a
/// row in dispatch/exports.h.
struct FrameworkFacts {
    Framework framework;
    std::string_view name;              ///< as users write it: t.to("torch")
    const char* array = nullptr;        ///< its array class, NULL: a capsule is of no class
    const char* other_array = nullptr;  ///< a further class of arrays
    const char* scalar =
        nullptr;  ///< a class whose instances are not arrays, but say which framework the result belongs to
    const char* module = nullptr;       ///< to import
    const char* from_dlpack = nullptr;  ///< function in it; dots allowed
    ExportForm form = ExportForm::none;
    ReadOnly read_only = ReadOnly::lost;  ///< by default the safe side, on which nothing is written
    std::int64_t alignment = 0;           ///< bytes below which it copies silently; 0: never
    bool needs_alignment = false;         ///< below them it does not copy: an operation ends the process
    bool needs_contiguous = false;        ///< refuses, or copies, other strides
    bool no_negative_strides = false;     ///< misreads them, out of bounds
    bool always_copies = false;
    const char* pointer = nullptr;      ///< method of the result that gives its address, to see a silent copy
    const char* wide_dtypes = nullptr;  ///< the option that makes it keep 64-bit dtypes, if it narrows them by default
    const char* module_of_type = nullptr;  ///< of the array type whose exchange API takes a tensor, if that is cheaper
    const char* exchange_type = nullptr;
};

inline constexpr FrameworkFacts framework_facts[] = {
    {.framework = Framework::tensor,
     .name = "tensor",
     .array = array_class(Framework::tensor),
     .read_only = ReadOnly::kept},
    {.framework = Framework::capsule, .name = "capsule", .read_only = ReadOnly::kept},
    {.framework = Framework::capsule_legacy, .name = "capsule_legacy", .read_only = ReadOnly::kept},
    {.framework = Framework::numpy,
     .name = "numpy",
     .array = array_class(Framework::numpy),
     .scalar = "numpy.generic",
     .read_only = ReadOnly::kept},
    {.framework = Framework::torch,
     .name = "torch",
     .array = array_class(Framework::torch),
     .read_only = ReadOnly::lost},
    {.framework = Framework::jax,
     .name = "jax",
     .array = array_class(Framework::jax),
     .module = "jax.dlpack",
     .from_dlpack = "from_dlpack",
     .form = ExportForm::object,
     .read_only = ReadOnly::immutable,
     .alignment = 64,
     .needs_contiguous = true,
     .pointer = "unsafe_buffer_pointer",
     .wide_dtypes = "jax.config.update('jax_enable_x64', True)"},
    {.framework = Framework::cupy,
     .name = "cupy",
     .array = array_class(Framework::cupy),
     .module = "cupy",
     .from_dlpack = "from_dlpack",
     .form = ExportForm::object,
     .read_only = ReadOnly::lost},
    {.framework = Framework::tensorflow,
     .name = "tensorflow",
     .array = array_class(Framework::tensorflow),
     .module = "tensorflow.experimental.dlpack",
     .from_dlpack = "from_dlpack",
     .form = ExportForm::legacy_capsule,
     .read_only = ReadOnly::immutable,
     .alignment = 64,
     .needs_alignment = true,
     .needs_contiguous = true},
    {.framework = Framework::paddle,
     .name = "paddle",
     .array = array_class(Framework::paddle),
     .module = "paddle.utils.dlpack",
     .from_dlpack = "from_dlpack",
     .form = ExportForm::capsule,
     .read_only = ReadOnly::lost,
     .no_negative_strides = true,
     .pointer = "data_ptr",
     .module_of_type = "paddle",
     .exchange_type = "Tensor"},
    {.framework = Framework::mlx,
     .name = "mlx",
     .array = array_class(Framework::mlx),
     .module = "mlx.core",
     .from_dlpack = "array",
     .form = ExportForm::object,
     .read_only = ReadOnly::immutable,
     .always_copies = true},
    {.framework = Framework::pyarrow,
     .name = "pyarrow",
     .array = array_class(Framework::pyarrow),
     .other_array = "pyarrow.Array",
     .module = "pyarrow",
     .from_dlpack = "Tensor.from_dlpack",
     .form = ExportForm::object,
     .read_only = ReadOnly::kept},
    {.framework = Framework::warp,
     .name = "warp",
     .array = array_class(Framework::warp),
     .module = "warp",
     .from_dlpack = "from_dlpack",
     .form = ExportForm::legacy_capsule,
     .read_only = ReadOnly::lost},
    {.framework = Framework::onnxruntime,
     .name = "onnxruntime",
     .array = array_class(Framework::onnxruntime),
     .other_array = "onnxruntime.OrtValue",
     .module = "onnxruntime.capi.onnxruntime_pybind11_state",
     .from_dlpack = "OrtValue.from_dlpack",
     .form = ExportForm::legacy_capsule,
     .read_only = ReadOnly::lost,
     .needs_contiguous = true,
     .pointer = "data_ptr"},
    {.framework = Framework::tvm_ffi,
     .name = "tvm_ffi",
     .array = array_class(Framework::tvm_ffi),
     .module = "tvm_ffi",
     .from_dlpack = "from_dlpack",
     .form = ExportForm::object,
     .read_only = ReadOnly::lost},
};
inline constexpr int framework_count = sizeof(framework_facts) / sizeof(framework_facts[0]);

/// The rows stand in the order of the enumerators, so that a number finds its row.
constexpr bool framework_rows_are_in_order() {
    for (int i = 0; i < framework_count; ++i)
        if (static_cast<int>(framework_facts[i].framework) != i + 1) return false;
    return true;
}
static_assert(framework_rows_are_in_order(), "isthmus: one row per framework, in the order of the enumerators");
static_assert(!is_enumerator<static_cast<Framework>(framework_count + 1)>(), "isthmus: the last framework has no row");

/// NULL for a number that is not a framework's.
constexpr const FrameworkFacts* find_framework(Framework framework) noexcept {
    const int at = static_cast<int>(framework) - 1;
    return at >= 0 && at < framework_count ? &framework_facts[at] : nullptr;
}

}  // namespace detail

ISTHMUS_END
