// The way out to ONNX Runtime, which has to be told that bytes are booleans.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/framework/consumer.h>

ISTHMUS_BEGIN

namespace detail {

/// OrtValue.from_dlpack(capsule, is_bool): it knows booleans as bytes, and is told by an argument that they are.
inline Result<PyObject*> export_to_onnxruntime(Block* block, const FrameworkFacts& facts, const ExportOptions& options) {
    const DLTensor& t = block->dl;
    if (auto taken = check_consumer_takes(t, facts, options); !taken) return std::move(taken).error();
    const Consumer* consumer = find_consumer(facts);
    if (consumer == nullptr) return consumer_is_missing(facts);
    if (auto said = check_legacy_padding(block, facts); !said) return std::move(said).error();
    if (!order_export(block)) return fail_to_order();
    const bool is_bool = DType(t.dtype) == boolean;
    DLTensor bytes = t;
    if (is_bool) bytes.dtype = uint8;
    Block* shown = alias_block(block, bytes, block->flags & flag::padded);
    if (shown == nullptr) return Error(ErrorCode::out_of_memory, "no memory for a tensor handle");
    const Ref given(legacy_capsule(shown));
    drop(shown);
    Result<PyObject*> array = call_consumer(*consumer, facts, t.dtype, given.get(), is_bool ? Py_True : Py_False);
    return array ? check_not_copied(*array, t, facts, options) : array;
}

}  // namespace detail

ISTHMUS_END
