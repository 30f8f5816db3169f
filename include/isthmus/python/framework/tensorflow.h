// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/import_request.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether an EagerTensor's elements are numbers. TensorFlow ends the process when it is asked for a capsule of strings, so it
/// must be asked for the dtype first; its buffers are harmless.
ISTHMUS_COLD inline bool has_numeric_dtype(Import& import) {
    Ref dtype(PyObject_GetAttrString(import.object, "dtype"));
    Ref name(dtype ? PyObject_GetAttrString(dtype.get(), "name") : nullptr);
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text == nullptr)
        return import.fail_with_exception(ErrorCode::producer_failed, concat({"the dtype of this ", type_name(import.object)}));
    const std::string found = text;
    if (found == "string" || found == "resource" || found == "variant")
        return import.fail(ErrorCode::bad_dtype, concat({"dtype ", found, " of this ", type_name(import.object),
                                                         " has no counterpart in DLPack; wanted numbers"}));
    if (found.size() > 1 && found.front() == 'q')
        return import.fail(
            ErrorCode::not_values,
            concat({"dtype ", found,
                    ": the bytes of a quantised tensor are not its values; call tf.quantization.dequantize first"}));
    return true;
}

/// Whether a buffer's format leaves no doubt about the dtype: a quantised tensor, too, shows integers, and one of strings
/// objects.
inline bool is_floating_format(const char* format) noexcept {
    return format != nullptr && (*format == 'f' || *format == 'd' || *format == 'e' || *format == 'Z');
}

}  // namespace detail

ISTHMUS_END
