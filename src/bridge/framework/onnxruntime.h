// The export path to ONNX Runtime, which before 1.32 needs the element type for booleans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "consumer.h"

ISTHMUS_BEGIN

namespace detail {

/// Up to 1.31, OrtValue.from_dlpack(capsule, is_bool) takes booleans as bytes, and an argument says that they are
/// booleans. From 1.32 on, OrtValue.from_dlpack(capsule) takes DLPack's booleans. The function that computes the
/// argument's value exists as long as the argument does.
inline bool onnxruntime_takes_bytes_for_bool(const FrameworkFacts& facts) {
    const Ref module(PyImport_ImportModule(facts.module)),
        tells(module ? PyObject_GetAttrString(module.get(), "is_dlpack_uint8_tensor") : nullptr);
    (void)is_interrupted();
    return static_cast<bool>(tells);
}

inline Result<PyObject*> export_to_onnxruntime(Block* block, const FrameworkFacts& facts,
                                               const ExportOptions& options) {
    const DLTensor& t = block->dl;
    if (auto taken = check_consumer_takes(t, facts, options); !taken) return std::move(taken).error();
    const Consumer* consumer = find_consumer(facts);
    if (consumer == nullptr) return consumer_is_missing(facts);
    if (auto said = check_legacy_padding(block, facts); !said) return std::move(said).error();
    if (!order_export(block)) return fail_to_order();
    const bool as_bytes = DType(t.dtype) == boolean && onnxruntime_takes_bytes_for_bool(facts);
    if (PyErr_Occurred() != nullptr) return fail_to_ask(facts);
    DLTensor given_as = t;
    if (as_bytes) given_as.dtype = uint8;
    Block* shown = alias_block(block, given_as, block->flags & flag::padded);
    if (shown == nullptr) return Error(ErrorCode::out_of_memory, "no memory for a tensor handle");
    const Ref given(legacy_capsule(shown));
    drop(shown);
    Result<PyObject*> array = call_consumer(*consumer, facts, t.dtype, given.get(), as_bytes ? Py_True : nullptr);
    return array ? check_not_copied(*array, t, facts, options) : array;
}

}  // namespace detail

ISTHMUS_END
