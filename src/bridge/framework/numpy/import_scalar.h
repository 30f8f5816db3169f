// Import of a NumPy scalar by its buffer, which does not say what the bytes mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../protocol/buffer/import.h"  // Python.h must come before any standard header

#include "import.h"

ISTHMUS_BEGIN

namespace detail {

/// np.generic. The buffers of datetime64 and timedelta64 are bytes without a dtype of their own, so the dtype is asked for
/// first.
ISTHMUS_NOINLINE inline bool import_numpy_scalar(ImportRequest& request) {
    request.keep_alive();
    Ref dtype(PyObject_GetAttrString(request.object, "dtype"));
    Ref kind(dtype ? PyObject_GetAttrString(dtype.get(), "kind") : nullptr);
    const char* text = kind && PyUnicode_Check(kind.get()) ? PyUnicode_AsUTF8(kind.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, {"the dtype of this ", type_name(request.object)});
    if (*text == 'M' || *text == 'm') return explain_numpy_dtype(request, dtype.get(), *text);
    return import_buffer(request);
}

}  // namespace detail

ISTHMUS_END
