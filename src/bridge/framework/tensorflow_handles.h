// The memory of an EagerTensor by TensorFlow's own C functions, used only once they have shown what Python shows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../protocol/import_request.h"  // Python.h must come before any standard header

#include <cstring>
#include <string_view>

#include <isthmus/core/atomic.h>
#include "../../core/libraries.h"
#include <isthmus/python/runtime/life.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether a device's name, "/job:localhost/replica:0/task:0/device:GPU:0", is one of the host's.
inline bool is_tensorflow_host(const char* name) noexcept {
    return std::strcmp(name, "/job:localhost/replica:0/task:0/device:CPU:0") == 0 || *name == '\0' ||
           std::string_view(name).find("device:CPU:") != std::string_view::npos;
}

/// The dtype of a TF_DataType (tensorflow/c/tf_datatype.h, whose numbers are those of a protocol buffer and stay); false for
/// all whose elements are not numbers of that width as they lie in memory.
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

/// TensorFlow's eager C functions (tensorflow/c/eager/c_api.h, c_api_experimental.h, tensorflow/c/tf_status.h) and the way from
/// a Python object to its handle (tensorflow/python/eager/pywrap_tensor.h), from the libraries that the process has loaded.
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
        // What the library depends on is searched as well: libtensorflow_cc and libtensorflow_framework.
        return python != nullptr && find_symbol(python, "_Z22EagerTensor_CheckExactPK7_object", is_exact) &&
               find_symbol(python, "_Z18EagerTensor_HandlePK7_object", handle_of) &&
               find_symbol(python, "TF_NewStatus", new_status) && find_symbol(python, "TF_DeleteStatus", delete_status) &&
               find_symbol(python, "TFE_TensorHandleBackingDeviceName", backing_device) &&
               find_symbol(python, "TFE_TensorHandleDataType", data_type) &&
               find_symbol(python, "TFE_TensorHandleNumDims", count_dims) && find_symbol(python, "TFE_TensorHandleDim", dim) &&
               find_symbol(python, "TFE_TensorHandleDevicePointer", pointer);
    }

    /// The memory of a handle with numbers on the host: everything of `t` but its strides, with the sizes written to `shape`.
    /// False for any other, and where TensorFlow fails, which Python is to say. Waits for the operation that makes the tensor,
    /// which may need the GIL: the caller must not hold it.
    bool describe(Handle handle, DLTensor& t, std::int64_t* shape, StatusHandle status) const noexcept {
        DType dtype;
        const char* device = backing_device(handle, status);
        if (device == nullptr || !is_tensorflow_host(device) || !dtype_of_tensorflow(data_type(handle), dtype)) return false;
        const int ndim = count_dims(handle, status);
        if (ndim < 0 || ndim > max_ndim) return false;
        for (int i = 0; i < ndim; ++i)
            if ((shape[i] = dim(handle, i, status)) < 0) return false;
        void* data = pointer(handle, status);
        t = DLTensor{data, {kDLCPU, 0}, ndim, dtype, shape, nullptr, 0};
        return data != nullptr;
    }
};

/// A TF_Status that no call uses now: making one costs as much as all that is asked with it.
ISTHMUS_STATE Atomic<void*> spare_tensorflow_status;

class TensorFlowStatus {
public:
    explicit TensorFlowStatus(const TensorFlowHandles& functions) noexcept : functions_(functions) {
        status_ = spare_tensorflow_status.load_relaxed();
        if (status_ == nullptr || !spare_tensorflow_status.compare_exchange(status_, nullptr)) status_ = functions.new_status();
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

/// Where a first tensor has decided: `functions` is used only if it gave what Python gave.
struct TensorFlowInThisLife {
    bool decided;
    bool shown;
    TensorFlowHandles functions;
};
ISTHMUS_STATE PerLife<TensorFlowInThisLife> tensorflow_life;

/// describe() of an object; false also where it is of a class derived from TensorFlow's, which may answer otherwise.
inline bool describe_eager_tensor(const TensorFlowHandles& functions, PyObject* object, DLTensor& t, std::int64_t* shape) {
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
inline bool agree_with_python(const TensorFlowHandles& functions, PyObject* object, const DLTensor& known, PyObject* device) {
    DLTensor t;
    std::int64_t shape[max_ndim];
    if (!describe_eager_tensor(functions, object, t, shape)) return false;
    const TensorFlowStatus status(functions);
    const char* name = functions.backing_device(functions.handle_of(object), status.get());
    return name != nullptr && PyUnicode_CompareWithASCIIString(device, name) == 0 && t.data == known.data &&
           t.ndim == known.ndim && DType(t.dtype) == DType(known.dtype) &&
           std::memcmp(shape, known.shape, sizeof shape[0] * static_cast<std::size_t>(t.ndim)) == 0;
}

/// Decides, by a tensor whose buffer was taken, whether the functions are used from now on. One without elements or dimensions
/// shows too little.
ISTHMUS_NOINLINE inline void look_for_tensorflow_handles(PyObject* object, const DLTensor& known, PyObject* device) {
    if (known.ndim < 1 || layout::numel(known) < 1) return;
    TensorFlowInThisLife found{true, false, {}};
    found.shown = found.functions.find() && agree_with_python(found.functions, object, known, device);
    (void)tensorflow_life.keep(found);
}

}  // namespace detail

ISTHMUS_END
