// The way out: a block, the very object that it came from or the framework's own way, a new reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/dispatch/same_object.h>  // Python.h must come before any standard header

#include <isthmus/python/dispatch/exports.h>

ISTHMUS_BEGIN

namespace detail {

/// Row of the framework → read-only memory → its own way. isthmus.Tensor's Python types have been made.
inline Result<PyObject*> export_anew(Block* block, Framework framework, const ExportOptions& options) {
    const PendingException pending;
    const FrameworkFacts* facts = find_framework(framework);
    if (facts == nullptr)
        return Error(ErrorCode::bad_argument,
                     concat({"argument 'framework': no framework has the number ", static_cast<int>(framework)}));
    if (ISTHMUS_UNLIKELY(block->flags & flag::read_only) && facts->read_only == ReadOnly::lost &&
        !options.allow_read_only_loss) {
        if (block->flags & watched_flag) return Error(ErrorCode::requires_grad, watched_memory);
        return Error(ErrorCode::read_only, concat({"the memory is read-only, and ", facts->name,
                                                   " would let it be written; copy it first, or say allow_read_only_loss"}));
    }
    Result<PyObject*> exported = export_by_row(block, *facts, options);
    if (exported) note_consumer(block, framework == Framework::tensor ? "isthmus.Tensor" : facts->name.data());
    return exported;
}

/// The object goes back to where its framework works on it, which may be another stream than the one that the tensor is on by
/// now. False with a Python exception set.
ISTHMUS_NOINLINE inline bool order_same_object(const Block* block, PyObject* object, Framework framework) {
    const DLPackExchangeAPI* api = find_exchange_api(Py_TYPE(object));
    return framework == Framework::torch ? order_for_torch(block, torch_current_stream(block->dl.device, api))
                                         : order_export(block, api);
}

/// A new reference to the tensor as an array of `framework`; `none` stands for isthmus.Tensor.
inline Result<PyObject*> export_block(Block* block, Framework framework, const ExportOptions& options) {
    if (PyObject* same = same_object(block, framework)) {
        if (ISTHMUS_LIKELY(!(block->flags & stream_flag)) || order_same_object(block, same, framework)) return same;
        Py_DECREF(same);
        return fail_to_order();
    }
    return export_anew(block, framework == Framework::none ? Framework::tensor : framework, options);
}

/// The framework whose array `example` is; isthmus.Tensor where it is of none.
inline Framework framework_of_example(PyObject* example) {
    ProducerType scratch;
    const ProducerType* type = example != nullptr ? find_type_quietly(Py_TYPE(example), scratch) : nullptr;
    return type != nullptr && type->framework != Framework::none ? type->framework : Framework::tensor;
}

}  // namespace detail

ISTHMUS_END
