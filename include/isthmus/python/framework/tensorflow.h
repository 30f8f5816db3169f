// What must be known about a TensorFlow tensor before it is asked for its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/protocol/buffer/import.h>  // Python.h must come before any standard header

#include <string_view>

#include <isthmus/python/protocol/dlpack_method/import.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether an EagerTensor's elements are numbers. TensorFlow ends the process when asked for a capsule of strings, so the dtype
/// must be asked for first; asking for its buffer is harmless.
ISTHMUS_NOINLINE inline bool has_numeric_dtype(ImportRequest& request) {
    Ref dtype(PyObject_GetAttrString(request.object, "dtype"));
    Ref name(dtype ? PyObject_GetAttrString(dtype.get(), "name") : nullptr);
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, {"the dtype of this ", type_name(request.object)});
    const std::string found = text;
    if (found == "string" || found == "resource" || found == "variant")
        return request.fail(ErrorCode::bad_dtype, {"dtype ", found, " of this ", type_name(request.object),
                                                   " has no counterpart in DLPack; wanted numbers"});
    if (found.size() > 1 && found.front() == 'q')
        return request.fail(
            ErrorCode::not_values,
            {"dtype ", found, ": the bytes of a quantised tensor are not its values; call tf.quantization.dequantize first"});
    return true;
}

/// Whether an EagerTensor's memory is host memory. On another device its buffer would be an unrequested copy on the host.
ISTHMUS_NOINLINE inline bool ask_eager_tensor_device(ImportRequest& request, bool& on_host) {
    Ref name(PyObject_GetAttrString(request.object, "backing_device"));  // "/job:localhost/replica:0/task:0/device:GPU:0"
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, {"the device of this ", type_name(request.object)});
    on_host = *text == '\0' || std::string_view(text).find("device:CPU:") != std::string_view::npos;
    return true;
}

/// Whether a buffer's format leaves no doubt about the dtype: a quantised tensor also shows integers, and a tensor of strings
/// shows objects.
inline bool is_floating_format(const char* format) noexcept {
    return format != nullptr && (*format == 'f' || *format == 'd' || *format == 'e' || *format == 'Z');
}

/// The buffer protocol if its format suffices, for a producer that also has `__dlpack__`.
inline bool import_buffer_or_dlpack(ImportRequest& request) {
    const bool strings_abort = request.producer.is_eager_tensor;
    const ImportOptions& options = request.options;
    bool on_host = true;
    if (request.producer.is_eager_tensor && !ask_eager_tensor_device(request, on_host)) return false;
    const bool elsewhere = !on_host || options.has_stream() || options.device.type != 0 || options.copy == Copy::always;
    if (ISTHMUS_LIKELY(!elsewhere) && ISTHMUS_LIKELY(PyObject_CheckBuffer(request.object))) {
        Py_buffer& view = request.out.buffer();
        if (ISTHMUS_LIKELY(take_buffer(request.object, view, PyBUF_FULL_RO))) {
            request.out.hold_buffer();
            if (strings_abort && !is_floating_format(view.format) && !has_numeric_dtype(request)) return false;
            return import_held_buffer(request);
        }
        if (!PyErr_ExceptionMatches(PyExc_Exception))
            return request.fail_with_exception(ErrorCode::producer_failed, {"the buffer of this ", type_name(request.object)});
        PyErr_Clear();
    }
    if (ISTHMUS_UNLIKELY(strings_abort) && !has_numeric_dtype(request)) return false;
    return import_dlpack_method(request);
}

}  // namespace detail

ISTHMUS_END
