// The export path: from a block to the object that it came from, or to a new array of the framework.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "dispatch/same_object.h"  // Python.h must come before any standard header

#include "dispatch/exports.h"
#include "protocol/export.h"

ISTHMUS_BEGIN

namespace detail {

inline constexpr const char* handing_out = "a tensor is handed to Python";

ISTHMUS_COLD inline Error explain_framework(Framework framework) {
    return make_error(ErrorCode::bad_argument,
                      {"argument 'framework': no framework has the number ", static_cast<int>(framework)});
}
ISTHMUS_COLD inline Error explain_read_only_loss(const Block* block, const FrameworkFacts& facts) {
    if (block->flags & tracked_flag) return Error(ErrorCode::requires_grad, tracked_memory);
    return make_error(ErrorCode::read_only, {"the memory is read-only, and ", facts.name,
                                             " would let it be written; say allow_copy, or allow_read_only_loss"});
}

/// By the row of the framework; tells the listener, if there is one. (One object is returned, which so is never moved.)
ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_noted(Block* block, Framework framework, const FrameworkFacts& facts,
                                                     const ExportOptions& options) {
    Result<PyObject*> exported = export_by_row(block, framework, facts, options);
    if (ISTHMUS_UNLIKELY(observer.load_relaxed() != nullptr) && exported)
        note_consumer(block, framework == Framework::tensor ? "isthmus.Tensor" : facts.name.data());
    return exported;
}

/// Such an export already holds the isthmus.Tensor that shows it.
inline bool shows_object(Framework framework) noexcept {
    return framework == Framework::tensor || framework == Framework::numpy;
}

Result<PyObject*> export_anew(Block* block, Framework wanted, const ExportOptions& options);  // inline, below

/// For an isthmus.Tensor without an owner: the export holds that object too.
ISTHMUS_COLD inline Result<PyObject*> export_with_object(Block* block, Framework framework,
                                                         const ExportOptions& options) {
    const ExportGuard guard(block);
    if (guard.block() == nullptr) return Error(ErrorCode::out_of_memory, "no memory for a tensor handle");
    return export_anew(guard.block(), framework, options);
}

/// Exports read-only memory to a framework that would let it be written, but only from private pages that may be
/// written.
ISTHMUS_COLD inline Result<PyObject*> export_private_pages(const Block* block, Framework framework,
                                                           const FrameworkFacts& facts, const ExportOptions& options) {
    Block* own = private_pages(block);
    if (own == nullptr) return explain_read_only_loss(block, facts);
    Result<PyObject*> exported = export_noted(own, framework, facts, options);
    drop(own);
    return exported;
}

/// Read-only memory → the framework's own way.
ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_shared(Block* block, Framework framework, const FrameworkFacts& facts,
                                                      const ExportOptions& options) {
    if (ISTHMUS_UNLIKELY(block->flags & (flag::read_only | unowned_flag))) {
        if ((block->flags & flag::read_only) && facts.read_only == ReadOnly::lost && !options.allow_read_only_loss)
            return export_private_pages(block, framework, facts, options);
        if (export_needs_wrapper(block) && !shows_object(framework))
            return export_with_object(block, framework, options);
    }
    return export_noted(block, framework, facts, options);
}

/// The same for what is not exported every day.
ISTHMUS_NOINLINE inline Result<PyObject*> export_apart(Block* block, Framework framework, const FrameworkFacts& facts,
                                                       const ExportOptions& options) {
    return export_shared(block, framework, facts, options);
}

/// With allow_copy: whatever the reason why the memory cannot be shared, a copy of it is handed out, if that cures it.
ISTHMUS_COLD inline Result<PyObject*> export_or_copy(Block* block, Framework framework, const FrameworkFacts& facts,
                                                     const ExportOptions& options) {
    Result<PyObject*> shared = export_apart(block, framework, facts, options);
    if (shared) return shared;
    const ErrorCode code = shared.error().code();
    // What a framework says itself is taken to be about the layout, if there is anything to be said of that.
    auto* cause = static_cast<PyObject*>(shared.error().cause());
    const DLTensor& t = block->dl;
    const bool theirs = code == ErrorCode::consumer_failed && cause != nullptr &&
                        PyErr_GivenExceptionMatches(cause, PyExc_Exception) &&
                        !layout::is_contiguous(t.shape, t.strides, t.ndim);
    const bool curable =
        theirs || code == ErrorCode::read_only || code == ErrorCode::needs_copy || code == ErrorCode::bad_layout;
    if (!curable || !Device(t.device).is_host()) return shared;
    const Result<Tensor> copy = copy_of(t, block->flags & flag::dlpack_known);
    if (!copy) return copy.error();
    Result<PyObject*> exported = export_apart(copy->block(), framework, facts, options);
    return exported || passes_through(exported.error()) ? std::move(exported) : std::move(shared);
}

/// By the row of the framework. isthmus.Tensor's Python types have been made.
template <auto& share = export_shared>
ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_by_framework(Block* block, Framework wanted,
                                                            const ExportOptions& options) {
    const PendingException pending;
    if (ISTHMUS_UNLIKELY(!pending.has_python())) return explain_no_gil(nullptr, handing_out);
    const Framework framework = wanted == Framework::none ? Framework::tensor : wanted;
    const FrameworkFacts* facts = find_framework(framework);
    if (ISTHMUS_UNLIKELY(facts == nullptr)) return explain_framework(framework);
    if (ISTHMUS_UNLIKELY(options.allow_copy)) return export_or_copy(block, framework, *facts, options);
    return share(block, framework, *facts, options);  // NOLINT(readability-redundant-parentheses)
}
ISTHMUS_NOINLINE inline Result<PyObject*> export_anew(Block* block, Framework wanted, const ExportOptions& options) {
    return export_by_framework<export_apart>(block, wanted, options);
}

/// The object goes back to its framework, whose current stream may be another than the one that the tensor is on now.
ISTHMUS_NOINLINE inline Result<void> order_same_object(const Block* block, PyObject* object, Framework framework) {
    const PendingException pending;
    const DLPackExchangeAPI* api = find_exchange_api(Py_TYPE(object));
    if (PyErr_Occurred() != nullptr) return fail_to_order();
    const bool ordered = framework == Framework::torch
                             ? order_for_torch(block, torch_current_stream(block->dl.device, api))
                             : order_export(block, api);
    if (ordered) return {};
    return fail_to_order();
}

/// The object that the tensor was made from if that may go back, else a new one.
ISTHMUS_NOINLINE inline Result<PyObject*> export_same(Block* block, Framework framework, const ExportOptions& options) {
    PyObject* same = same_object(block, framework);
    if (ISTHMUS_UNLIKELY(same == nullptr)) return export_anew(block, framework, options);
    if (ISTHMUS_LIKELY(!(block->flags & stream_flag))) return same;
    Result<void> ordered = order_same_object(block, same, framework);
    if (ordered) return same;
    Py_DECREF(same);
    return std::move(ordered).error();
}

/// A new reference to the tensor as an array of `framework`; `none` stands for isthmus.Tensor.
ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_block(Block* block, Framework framework, const ExportOptions& options) {
    if (!may_be_same_object(block, framework)) return export_anew(block, framework, options);
    if (block->ops == &python_owners->array_object)  // nearly every array of NumPy on its way back
        if (PyObject* same = same_plain_numpy(block, framework)) return same;
    return export_same(block, framework, options);
}

/// The framework of an example of a type; isthmus.Tensor if it belongs to none.
inline Framework framework_of_type(const ProducerType& type) noexcept {
    return type.framework != Framework::none ? type.framework : Framework::tensor;
}
/// The same for an example whose type is not in the cache. Throws Error if there was no memory to look at the type, or
/// an interrupt came.
ISTHMUS_COLD inline Framework framework_of_new_example(PyObject* example) {
    if (example == nullptr || !have_gil()) return Framework::tensor;
    const PendingException pending;
    ProducerType scratch;
    const ProducerType* type = find_type(Py_TYPE(example), scratch);
    if (type == nullptr)
        throw error_from_exception(ErrorCode::consumer_failed, nullptr, "looking at the example's type");
    return framework_of_type(*type);
}
/// The same for any example. Throws Error.
inline Framework framework_of_example(PyObject* example) {
    TypeCopy copy;
    const ProducerType* type = ISTHMUS_LIKELY(example != nullptr) ? cached_type(Py_TYPE(example), copy) : nullptr;
    return ISTHMUS_LIKELY(type != nullptr) ? framework_of_type(*type) : framework_of_new_example(example);
}

}  // namespace detail

ISTHMUS_END
