// The table of the export paths other than a framework's own from_dlpack.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include "../framework/consumer.h"
#include "../framework/jax.h"
#include "../framework/mlx.h"
#include "../framework/numpy/export.h"
#include "../framework/onnxruntime.h"
#include "../framework/torch/export.h"
#include "../protocol/export.h"

ISTHMUS_BEGIN

namespace detail {

using ExportFunction = Result<PyObject*> (*)(Block*, const FrameworkFacts&, const ExportOptions&);

inline Result<PyObject*> export_as_tensor(Block* block, const FrameworkFacts&, const ExportOptions&) {
    retain(block);
    PyObject* object = object_of_block(block);
    if (object == nullptr) return error_from_exception(ErrorCode::consumer_failed, nullptr, "making an isthmus.Tensor");
    return object;
}
/// Whether a capsule must not go to an unknown consumer, which might write without automatic differentiation seeing it.
inline bool is_withheld(const Block* block, const ExportOptions& options) noexcept {
    return ISTHMUS_UNLIKELY((block->flags & tracked_flag) != 0) && !options.allow_read_only_loss;
}
inline Result<PyObject*> export_as_capsule(Block* block, const FrameworkFacts&, const ExportOptions& options) {
    if (is_withheld(block, options)) return Error(ErrorCode::requires_grad, tracked_memory);
    if (!order_export(block)) return fail_to_order();
    PyObject* capsule = versioned_capsule(block);
    if (capsule == nullptr) return error_from_exception(ErrorCode::out_of_memory, nullptr, "making a capsule");
    return capsule;
}
ISTHMUS_COLD inline Result<PyObject*> export_as_legacy_capsule(Block* block, const FrameworkFacts&,
                                                               const ExportOptions& options) {
    if (is_withheld(block, options)) return Error(ErrorCode::requires_grad, tracked_memory);
    if ((block->flags & flag::read_only) && !options.allow_read_only_loss)
        return Error(ErrorCode::read_only,
                     "the memory is read-only, which a legacy capsule cannot say; ask for a versioned one, or "
                     "allow_read_only_loss");
    if (legacy_loses_padding(block))
        return make_error(
            ErrorCode::bad_dtype,
            {DType(block->dl.dtype),
             " with a byte for each element is what a legacy capsule cannot say; ask for a versioned one"});
    if (!order_export(block)) return fail_to_order();
    PyObject* capsule = legacy_capsule(block);
    if (capsule == nullptr) return error_from_exception(ErrorCode::out_of_memory, nullptr, "making a capsule");
    return capsule;
}
inline Result<PyObject*> export_as_numpy(Block* block, const FrameworkFacts&, const ExportOptions&) {
    return export_to_numpy(block);
}
inline Result<PyObject*> export_as_torch(Block* block, const FrameworkFacts&, const ExportOptions&) {
    return export_to_torch(block);
}

struct ExportRow {
    Framework framework;
    ExportFunction function;
};
/// A framework without a row is exported by export_by_consumer(). The most common ones come first.
inline constexpr ExportRow exports[] = {
    {Framework::tensor, export_as_tensor},
    {Framework::torch, export_as_torch},
    {Framework::numpy, export_as_numpy},
    {Framework::capsule, export_as_capsule},
    {Framework::capsule_legacy, export_as_legacy_capsule},
    {Framework::jax, export_to_jax},
    {Framework::onnxruntime, export_to_onnxruntime},
    {Framework::mlx, export_to_mlx},
};

/// Whether export_by_consumer() knows what to call, and what to pass, for every framework without a row.
constexpr bool every_framework_has_a_way_out() {
    for (const FrameworkFacts& facts : framework_facts) {
        bool found = facts.module != nullptr && facts.from_dlpack != nullptr && facts.form != ExportForm::none;
        for (const ExportRow& row : exports) found = found || row.framework == facts.framework;
        if (!found) return false;
    }
    return true;
}
static_assert(every_framework_has_a_way_out(),
              "isthmus: a framework needs module, from_dlpack and form, or a row of its own in exports");

/// Goes down the rows at compile time, so that each export path is a direct call.
template <int row = 0>
ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_by_row(Block* block, Framework framework, const FrameworkFacts& facts,
                                                      const ExportOptions& options) {
    if constexpr (row < static_cast<int>(sizeof(exports) / sizeof(exports[0]))) {
        constexpr ExportRow way = exports[row];
        return framework == way.framework ? way.function(block, facts, options)
                                          : export_by_row<row + 1>(block, framework, facts, options);
    } else {
        return export_by_consumer(block, facts, options);
    }
}

}  // namespace detail

ISTHMUS_END
