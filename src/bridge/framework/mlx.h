// The export path to MLX, which always copies, and narrows dtypes that it does not support.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "consumer.h"

ISTHMUS_BEGIN

namespace detail {

/// MLX silently makes float32 of float64.
inline Result<PyObject*> export_to_mlx(Block* block, const FrameworkFacts& facts, const ExportOptions& options) {
    Result<PyObject*> made = export_by_consumer(block, facts, options);
    if (!made) return made;
    Ref array(*made);
    const DType dtype = block->dl.dtype;
    Ref itemsize(PyObject_GetAttrString(array.get(), "itemsize"));
    const std::int64_t size = itemsize ? PyLong_AsLongLong(itemsize.get()) : dtype.itemsize();
    if (is_interrupted()) return fail_to_ask(facts);
    if (size != dtype.itemsize())
        return make_error(ErrorCode::bad_dtype, {"dtype ", dtype, " has no counterpart in ", facts.name,
                                                 ", which made elements of ", size, " bytes of it; convert it first"});
    return array.release();
}

}  // namespace detail

ISTHMUS_END
