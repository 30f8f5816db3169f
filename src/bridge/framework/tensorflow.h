// What must be known about a TensorFlow tensor before it is asked for its memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../protocol/buffer/import.h"  // Python.h must come before any standard header

#include "tensorflow_handles.h"
#include "../protocol/dlpack_method/import.h"
#include <isthmus/python/runtime/classes.h>

ISTHMUS_BEGIN

namespace detail {

/// TensorFlow's dtypes that were found to be numbers, first come first. TensorFlow has one object per dtype, for good; a
/// reference to each keeps its address from becoming another's.
class NumericDTypes {
public:
    bool has(PyObject* dtype) const noexcept {
        for (PyObject* const& place : known_) {
            PyObject* one = load_shared(place);
            if (one == dtype) return true;
            if (one == nullptr) return false;
        }
        return false;
    }
    /// Does nothing where there is no place left.
    void add(PyObject* dtype) noexcept {
        for (PyObject*& place : known_) {
            if (load_shared(place) == nullptr && store_first(place, dtype)) return Py_INCREF(dtype);
            if (load_shared(place) == dtype) return;
        }
    }

private:
    PyObject* known_[32] = {};
};
ISTHMUS_STATE PerLife<NumericDTypes> numeric_dtypes;

/// Asks the dtype by its name, and keeps the answer where it is one of TensorFlow's and says numbers.
ISTHMUS_NOINLINE inline bool ask_numeric_dtype(ImportRequest& request, PyObject* dtype) {
    Ref name(dtype != nullptr ? PyObject_GetAttrString(dtype, "name") : nullptr);
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
    if (has_base_called(Py_TYPE(dtype), "tensorflow.python.framework.dtypes.DType")) numeric_dtypes.begin().add(dtype);
    return true;
}
/// Whether an EagerTensor's elements are numbers. TensorFlow ends the process when asked for a capsule of strings, so the dtype
/// must be asked for first; asking for its buffer is harmless.
ISTHMUS_NOINLINE inline bool has_numeric_dtype(ImportRequest& request) {
    const Ref dtype(PyObject_GetAttr(request.object, interned().dtype));
    return (dtype && numeric_dtypes->has(dtype.get())) || ask_numeric_dtype(request, dtype.get());
}

/// Whether an EagerTensor's memory is host memory, and the name of its device. On another device its buffer would be an
/// unrequested copy on the host.
ISTHMUS_NOINLINE inline bool ask_eager_tensor_device(ImportRequest& request, Ref& name, bool& on_host) {
    // "/job:localhost/replica:0/task:0/device:GPU:0". Asked each time: a program may add devices at any moment.
    name = Ref(PyObject_GetAttr(request.object, interned().backing_device));
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed, {"the device of this ", type_name(request.object)});
    on_host = is_tensorflow_host(text);
    return true;
}

/// Whether a buffer's format leaves no doubt about the dtype: a quantised tensor also shows integers, of 8, 16 or 32 bits, and
/// a tensor of strings shows objects.
inline bool is_certain_format(const Py_buffer& view) noexcept {
    switch (view.format != nullptr ? *view.format : '\0') {
        case 'e':
        case 'f':
        case 'd':
        case 'Z':
        case '?':
            return true;
        case 'l':
        case 'L':
        case 'q':
        case 'Q':
            return view.itemsize == 8;
        default:
            return false;
    }
}

/// What JAX is asked for in a buffer: strides cost it time, and without them only row-major memory is lent (PEP 3118). All
/// other layouts come by `__dlpack__`.
inline constexpr int row_major_buffer = PyBUF_ND | PyBUF_FORMAT;

/// Fills the request with what TensorFlow's own functions say of an EagerTensor; false where they do not say it. The object
/// itself is what keeps the memory: TensorFlow writes no memory of a tensor that Python still has.
inline bool take_eager_tensor(ImportRequest& request) {
    const TensorFlowInThisLife& tensorflow = *tensorflow_life;
    if (ISTHMUS_UNLIKELY(!tensorflow.shown)) return false;
    request.keep_alive();  // other threads run meanwhile
    if (!describe_eager_tensor(tensorflow.functions, request.object, request.out.dl(), request.out.shape())) return false;
    if (request.owning) request.out.hold_object(request.object);
    return true;
}

/// The buffer protocol if its format suffices, for a producer that also has `__dlpack__`.
inline bool import_buffer_or_dlpack(ImportRequest& request) {
    const bool strings_abort = request.producer.is_eager_tensor;
    const ImportOptions& options = request.options;
    const bool special = options.has_stream() || options.device.type != 0 || options.copy == Copy::always;
    if (strings_abort && ISTHMUS_LIKELY(!special) && take_eager_tensor(request)) return request.accept(0);
    bool on_host = true;
    Ref device;
    if (strings_abort && !ask_eager_tensor_device(request, device, on_host)) return false;
    const bool elsewhere = !on_host || special;
    if (ISTHMUS_LIKELY(!elsewhere) && ISTHMUS_LIKELY(PyObject_CheckBuffer(request.object))) {
        Py_buffer& view = request.out.buffer();
        if (ISTHMUS_LIKELY(take_buffer(request.object, view, strings_abort ? PyBUF_FULL_RO : row_major_buffer))) {
            request.out.hold_buffer();
            if (strings_abort && !is_certain_format(view) && !has_numeric_dtype(request)) return false;
            if (!import_held_buffer(request)) return false;
            if (strings_abort && !tensorflow_life->decided)
                look_for_tensorflow_handles(request.object, request.out.dl(), device.get());
            return true;
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
