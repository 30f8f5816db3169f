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
    if (ISTHMUS_UNLIKELY(block->flags & flag::read_only) && facts->read_only == ReadOnly::lost && !options.allow_read_only_loss) {
        if (block->flags & watched_flag) return Error(ErrorCode::requires_grad, watched_memory);
        return Error(ErrorCode::read_only, concat({"the memory is read-only, and ", facts->name,
                                                   " would let it be written; copy it first, or say allow_read_only_loss"}));
    }
    Result<PyObject*> exported = export_by_row(block, *facts, options);
    if (exported) note_consumer(block, framework == Framework::tensor ? "isthmus.Tensor" : facts->name.data());
    return exported;
}

/// A new reference to the tensor as an array of `framework`; `none` stands for isthmus.Tensor.
inline Result<PyObject*> export_block(Block* block, Framework framework, const ExportOptions& options) {
    if (PyObject* same = same_object(block, framework)) return same;
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
