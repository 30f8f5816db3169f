// TensorFlow: what its tensors need beyond DLPack, and the handles of its eager C API.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/session.h"  // Python.h must come before any standard header

#include <cstring>
#include <string_view>

#include <isthmus/core/compiler.h>
#include "../../core/libraries.h"
#include "../protocol/buffer.h"
#include "../protocol/dlpack_method/import.h"
#include "../protocol/import_request.h"
#include "../runtime/names.h"

ISTHMUS_BEGIN

namespace detail {

/// Whether a device's name, "/job:localhost/replica:0/task:0/device:GPU:0", is one of the host's.
inline bool is_tensorflow_host(const char* name) noexcept {
    return std::strcmp(name, "/job:localhost/replica:0/task:0/device:CPU:0") == 0 || *name == '\0' ||
           std::string_view(name).find("device:CPU:") != std::string_view::npos;
}

/// The dtype of a TF_DataType (tensorflow/c/tf_datatype.h, whose numbers are those of a protocol buffer and stay);
/// false for all whose elements are not numbers of that width as they lie in memory.
constexpr bool dtype_of_tensorflow(int type, DType& out) noexcept {
    switch (type) {
        case 1:
            return out = float32, true;
        case 2:
            return out = float64, true;
        case 3:
            return out = int32, true;
        case 4:
            return out = uint8, true;
        case 5:
            return out = int16, true;
        case 6:
            return out = int8, true;
        case 8:
            return out = complex64, true;
        case 9:
            return out = int64, true;
        case 10:
            return out = boolean, true;
        case 14:
            return out = bfloat16, true;
        case 17:
            return out = uint16, true;
        case 18:
            return out = complex128, true;
        case 19:
            return out = float16, true;
        case 22:
            return out = uint32, true;
        case 23:
            return out = uint64, true;
        default:
            return false;
    }
}

/// TensorFlow's eager C functions (tensorflow/c/eager/c_api.h, c_api_experimental.h, tensorflow/c/tf_status.h) and the
/// way from a Python object to its handle (tensorflow/python/eager/pywrap_tensor.h), from the libraries that the
/// process has loaded.
struct TensorFlowHandles {
    using Handle = void*;
    using StatusHandle = void*;

    bool (*is_exact)(const PyObject*);     ///< bool EagerTensor_CheckExact(const PyObject*)
    Handle (*handle_of)(const PyObject*);  ///< TFE_TensorHandle* EagerTensor_Handle(const PyObject*); borrowed
    StatusHandle (*new_status)();
    void (*delete_status)(StatusHandle);
    const char* (*backing_device)(Handle, StatusHandle);
    int (*data_type)(Handle);
    int (*count_dims)(Handle, StatusHandle);
    std::int64_t (*dim)(Handle, int, StatusHandle);
    void* (*pointer)(Handle, StatusHandle);

    bool find() noexcept {
        void* python = find_library(ISTHMUS_LIBRARY("_pywrap_tensorflow_common"));
        // The library's dependencies are searched as well: libtensorflow_cc and libtensorflow_framework.
        return python != nullptr && find_symbol(python, "_Z22EagerTensor_CheckExactPK7_object", is_exact) &&
               find_symbol(python, "_Z18EagerTensor_HandlePK7_object", handle_of) &&
               find_symbol(python, "TF_NewStatus", new_status) &&
               find_symbol(python, "TF_DeleteStatus", delete_status) &&
               find_symbol(python, "TFE_TensorHandleBackingDeviceName", backing_device) &&
               find_symbol(python, "TFE_TensorHandleDataType", data_type) &&
               find_symbol(python, "TFE_TensorHandleNumDims", count_dims) &&
               find_symbol(python, "TFE_TensorHandleDim", dim) &&
               find_symbol(python, "TFE_TensorHandleDevicePointer", pointer);
    }

    /// The memory of a handle with numbers on the host: everything of `t` but its strides, with the sizes written to
    /// `shape`. False for any other, and if TensorFlow fails, which Python then reports. Waits for the operation that
    /// makes the tensor, which may need the GIL: the caller must not hold it.
    bool describe(Handle handle, DLTensor& t, std::int64_t* shape, StatusHandle status) const noexcept {
        DType dtype;
        const char* device = backing_device(handle, status);
        if (device == nullptr || !is_tensorflow_host(device) || !dtype_of_tensorflow(data_type(handle), dtype))
            return false;
        const int ndim = count_dims(handle, status);
        if (ndim < 0 || ndim > max_ndim) return false;
        for (int i = 0; i < ndim; ++i)
            if ((shape[i] = dim(handle, i, status)) < 0) return false;
        void* data = pointer(handle, status);
        t = DLTensor{data, {kDLCPU, 0}, ndim, dtype, shape, nullptr, 0};
        return data != nullptr;
    }
};

/// A TF_Status that no call uses now: making one costs as much as all the calls that use it.
ISTHMUS_STATE Atomic<void*> spare_tensorflow_status;

class TensorFlowStatus {
public:
    explicit TensorFlowStatus(const TensorFlowHandles& functions) noexcept : functions_(functions) {
        status_ = spare_tensorflow_status.load_relaxed();
        if (status_ == nullptr || !spare_tensorflow_status.compare_exchange(status_, nullptr))
            status_ = functions.new_status();
    }
    TensorFlowStatus(const TensorFlowStatus&) = delete;
    TensorFlowStatus& operator=(const TensorFlowStatus&) = delete;
    ~TensorFlowStatus() {
        void* none = nullptr;
        if (!spare_tensorflow_status.compare_exchange(none, status_)) functions_.delete_status(status_);
    }
    void* get() const noexcept { return status_; }

private:
    const TensorFlowHandles& functions_;
    void* status_;
};

/// The decision of a first tensor: `functions` is used only if it returned what Python returned.
struct TensorFlowSession {
    bool decided;
    bool shown;
    TensorFlowHandles functions;
};
ISTHMUS_STATE PerSession<TensorFlowSession> tensorflow_session;

/// describe() of an object; false also for a class derived from TensorFlow's, which may answer differently.
inline bool describe_eager_tensor(const TensorFlowHandles& functions, PyObject* object, DLTensor& t,
                                  std::int64_t* shape) {
    if (!functions.is_exact(object)) return false;
    void* handle = functions.handle_of(object);
    if (handle == nullptr) return false;
    const TensorFlowStatus status(functions);
    PyThreadState* thread = PyEval_SaveThread();
    const bool described = functions.describe(handle, t, shape, status.get());
    PyEval_RestoreThread(thread);
    return described;
}

/// Whether the functions give for this object what Python gave: the memory of its buffer and the name of its device.
inline bool agree_with_python(const TensorFlowHandles& functions, PyObject* object, const DLTensor& known,
                              PyObject* device) {
    DLTensor t{nullptr, Device::cpu(), 0, {}, nullptr, nullptr, 0};
    std::int64_t shape[max_ndim];
    if (!describe_eager_tensor(functions, object, t, shape)) return false;
    const TensorFlowStatus status(functions);
    const char* name = functions.backing_device(functions.handle_of(object), status.get());
    return name != nullptr && PyUnicode_CompareWithASCIIString(device, name) == 0 && t.data == known.data &&
           t.ndim == known.ndim && DType(t.dtype) == DType(known.dtype) &&
           std::memcmp(shape, known.shape, sizeof shape[0] * static_cast<std::size_t>(t.ndim)) == 0;
}

/// Decides, by a tensor whose buffer was taken, whether the functions are used from now on. One without elements or
/// dimensions shows too little.
ISTHMUS_COLD inline void look_for_tensorflow_handles(PyObject* object, const DLTensor& known, PyObject* device) {
    if (known.ndim < 1 || layout::numel(known) < 1) return;
    TensorFlowSession found{true, false, {}};
    found.shown = found.functions.find() && agree_with_python(found.functions, object, known, device);
    (void)tensorflow_session.keep(found);
}

/// TensorFlow's dtypes that were found to be numbers, first come first. TensorFlow has one object per dtype, for good;
/// a reference to each keeps its address from becoming another's.
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
    /// Does nothing if there is no place left.
    void add(PyObject* dtype) noexcept {
        for (PyObject*& place : known_) {
            if (load_shared(place) == nullptr && store_first(place, dtype)) return Py_INCREF(dtype);
            if (load_shared(place) == dtype) return;
        }
    }

private:
    PyObject* known_[32] = {};
};
ISTHMUS_STATE PerSession<NumericDTypes> numeric_dtypes;

/// Looks the dtype up by its name, and caches the answer if it is one of TensorFlow's and means numbers.
ISTHMUS_COLD inline bool ask_numeric_dtype(ImportRequest& request, PyObject* dtype) {
    Ref name(dtype != nullptr ? PyObject_GetAttrString(dtype, "name") : nullptr);
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed,
                                           {"the dtype of this ", type_name(request.object)});
    const std::string found = text;
    if (found == "string" || found == "resource" || found == "variant")
        return request.fail(ErrorCode::bad_dtype, {"dtype ", found, " of this ", type_name(request.object),
                                                   " has no counterpart in DLPack; expected numbers"});
    if (found.size() > 1 && found.front() == 'q')
        return request.fail(
            ErrorCode::not_values,
            {"dtype ", found,
             ": the bytes of a quantised tensor are not its values; call tf.quantization.dequantize first"});
    if (has_base_called(Py_TYPE(dtype), "tensorflow.python.framework.dtypes.DType")) numeric_dtypes.begin().add(dtype);
    return true;
}
/// Whether an EagerTensor's elements are numbers. TensorFlow ends the process when asked for a capsule of strings, so
/// the dtype must be asked for first; asking for its buffer is harmless.
ISTHMUS_COLD inline bool has_numeric_dtype(ImportRequest& request) {
    const Ref dtype(PyObject_GetAttr(request.object, interned().dtype));
    return (dtype && numeric_dtypes->has(dtype.get())) || ask_numeric_dtype(request, dtype.get());
}

/// Whether an EagerTensor's memory is host memory, and the name of its device. On another device its buffer would be an
/// unrequested copy on the host.
ISTHMUS_COLD inline bool ask_eager_tensor_device(ImportRequest& request, Ref& name, bool& on_host) {
    // "/job:localhost/replica:0/task:0/device:GPU:0". Asked each time: a program may add devices at any moment.
    name = Ref(PyObject_GetAttr(request.object, interned().backing_device));
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text == nullptr)
        return request.fail_with_exception(ErrorCode::producer_failed,
                                           {"the device of this ", type_name(request.object)});
    on_host = is_tensorflow_host(text);
    return true;
}

/// Whether a buffer's format leaves no doubt about the dtype: a quantised tensor also shows integers, of 8, 16 or 32
/// bits, and a tensor of strings shows objects.
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

/// The request for a buffer of JAX: strides cost it time, and without them only row-major memory is lent (PEP 3118).
/// All other layouts come by `__dlpack__`.
inline constexpr int row_major_buffer = PyBUF_ND | PyBUF_FORMAT;

/// Fills the request by TensorFlow's own functions for an EagerTensor; false if they fail. The object
/// itself is what keeps the memory: TensorFlow writes no memory of a tensor that Python still has.
inline bool take_eager_tensor(ImportRequest& request) {
    const TensorFlowSession& tensorflow = *tensorflow_session;
    if (ISTHMUS_UNLIKELY(!tensorflow.shown)) return false;
    request.keep_alive();  // other threads run meanwhile
    if (!describe_eager_tensor(tensorflow.functions, request.object, request.out.dl(), request.out.shape()))
        return false;
    if (request.owning) request.out.hold_object(request.object);
    return true;
}

/// Of a producer whose buffer, if it has one, does not suffice, or may not: TensorFlow's, or one that is asked for more
/// than its memory.
ISTHMUS_COLD inline bool import_eager_or_dlpack(ImportRequest& request, bool special) {
    const bool strings_abort = request.producer.is_eager_tensor;
    if (strings_abort && ISTHMUS_LIKELY(!special) && take_eager_tensor(request)) return request.accept(0);
    bool on_host = true;
    Ref device;
    if (strings_abort && !ask_eager_tensor_device(request, device, on_host)) return false;
    if (strings_abort && on_host && !special && lends_buffers(request.object)) {
        Py_buffer& view = request.out.buffer();
        if (ISTHMUS_LIKELY(take_buffer(request.object, view, PyBUF_FULL_RO))) {
            request.out.hold_buffer();
            if (!is_certain_format(view) && !has_numeric_dtype(request)) return false;
            if (!import_held_buffer(request)) return false;
            if (!tensorflow_session->decided)
                look_for_tensorflow_handles(request.object, request.out.dl(), device.get());
            return true;
        }
        if (is_interrupted()) return fail_to_lend(request);
    }
    if (ISTHMUS_UNLIKELY(strings_abort) && !has_numeric_dtype(request)) return false;
    return import_dlpack_method(request);
}

/// The buffer protocol if its format suffices, for a producer that also has `__dlpack__`.
inline bool import_buffer_or_dlpack(ImportRequest& request) {
    const ImportOptions& options = request.options;
    const bool special = options.has_stream() || options.device.type != 0 || options.copy == Copy::always;
    if (ISTHMUS_LIKELY(!special && !request.producer.is_eager_tensor && lends_buffers(request.object))) {
        if (ISTHMUS_LIKELY(take_buffer(request.object, request.out.buffer(), row_major_buffer)))
            return import_held_buffer(request);
        if (is_interrupted()) return fail_to_lend(request);
    }
    return import_eager_or_dlpack(request, special);
}

}  // namespace detail

ISTHMUS_END
