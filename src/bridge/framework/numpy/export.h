// A numpy.ndarray over a block's memory, by NumPy's own C API.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <isthmus/core/result.h>
#include <isthmus/python/api.h>
#include "dtypes.h"

ISTHMUS_BEGIN

namespace detail {

/// NumPy's C module; an empty Ref with a Python exception set if NumPy is not installed.
inline Ref import_numpy_core() {
    Ref module(PyImport_ImportModule("numpy._core._multiarray_umath"));
    if (module || !PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) return module;
    PyErr_Clear();
    return Ref(PyImport_ImportModule("numpy.core._multiarray_umath"));
}
/// The function table of one of its C APIs, or NULL with a Python exception set.
inline void** numpy_table(PyObject* core, const char* name) {
    Ref capsule(PyObject_GetAttrString(core, name));
    return capsule ? static_cast<void**>(PyCapsule_GetPointer(capsule.get(), nullptr)) : nullptr;
}

/// NumPy's C API, found at run time, so that nothing is compiled against NumPy: the function table whose slots have
/// kept their numbers since 1.7 (numpy/__multiarray_api.h).
struct NumpyApi {
    using DescrFromType = PyObject* (*)(int);
    using NewFromDescr = PyObject* (*)(PyTypeObject*, PyObject*, int, const Py_ssize_t*, const Py_ssize_t*, void*, int,
                                       PyObject*);

    PyTypeObject* array_type;
    NewFromDescr make;  ///< takes over the reference to the dtype; NULL until load()
    PyObject* dtypes[numpy_builtin_types];

    /// False with a Python exception set.
    bool find() {
        const Ref core = import_numpy_core();
        void** table = core ? numpy_table(core.get(), "_ARRAY_API") : nullptr;
        if (table == nullptr) return false;
        array_type = static_cast<PyTypeObject*>(table[2]);
        const auto dtype_of = reinterpret_cast<DescrFromType>(table[45]);
        for (int number = 0; number < numpy_builtin_types; ++number)
            if (numpy_shifts.has(static_cast<unsigned>(number)) && (dtypes[number] = dtype_of(number)) == nullptr)
                return false;
        make = reinterpret_cast<NewFromDescr>(table[94]);
        return true;
    }
    void release() {
        for (PyObject* dtype : dtypes) Py_XDECREF(dtype);
    }
};
ISTHMUS_STATE PerSession<NumpyApi> numpy_api;

/// False with a Python exception set.
ISTHMUS_COLD inline bool load_numpy_api() {
    NumpyApi found{};
    if (!start_session() || !found.find()) return false;
    if (!numpy_api.keep(found)) found.release();
    return true;
}

/// ml_dtypes' dtype as a new reference; an empty Ref with or without a Python exception when there is none.
ISTHMUS_COLD inline Ref find_ml_descr(DType dtype) {
    Ref module(PyImport_ImportModule("ml_dtypes"));
    Ref name(module ? unicode_of({dtype}) : nullptr);
    Ref scalar(name ? PyObject_GetAttr(module.get(), name.get()) : nullptr);
    Ref numpy(scalar ? PyImport_ImportModule("numpy") : nullptr);
    return Ref(numpy ? PyObject_CallMethod(numpy.get(), "dtype", "O", scalar.get()) : nullptr);
}

ISTHMUS_COLD inline Error explain_numpy_export(const DLTensor& t, bool padded) {
    const DType dtype = t.dtype;
    if (is_interrupted()) return error_from_exception(ErrorCode::consumer_failed, nullptr, "looking for ml_dtypes");
    const TextBuffer found = compose({"dtype ", dtype});
    if (dtype.lanes() != 1)
        return make_error(ErrorCode::bad_dtype,
                          {found, " has no counterpart in NumPy; nearest is ", DType(dtype.code, dtype.bits()),
                           " with a last dimension of ", dtype.lanes()});
    if (dtype == complex32)
        return make_error(ErrorCode::bad_dtype, {found, " has no counterpart in NumPy; nearest is complex64"});
    if (dtype.is_subbyte() && !padded)
        return make_error(ErrorCode::bad_dtype,
                          {found, ", packed, has no counterpart in NumPy; nearest is uint8, the bytes"});
    if (dtype.code == kDLOpaqueHandle)
        return make_error(ErrorCode::bad_dtype, {found, " has no counterpart in NumPy; nearest is uint", dtype.bits()});
    return make_error(ErrorCode::bad_dtype,
                      {found, " has no counterpart in NumPy itself; install ml_dtypes, or take the nearest, uint",
                       8 * dtype.itemsize()});
}

/// A numpy.ndarray over the block's memory, with an isthmus.Tensor as its base; takes the dtype over. numpy_api was
/// loaded.
ISTHMUS_ALWAYS_INLINE Result<PyObject*> numpy_array_over(Block* block, PyObject* descr) {
    const DLTensor& t = block->dl;
    Py_ssize_t steps[max_ndim];
    Py_ssize_t* strides = nullptr;  // row-major: NumPy writes them faster than it checks given ones
    if (!layout::is_contiguous(t.shape, t.strides, t.ndim)) {
        strides = steps;
        for (int i = 0; i < t.ndim; ++i) strides[i] = layout::byte_stride(t, i);
    }
    const int flags = (block->flags & flag::read_only) ? 0 : numpy_flag::writeable;
    const auto* shape = reinterpret_cast<const Py_ssize_t*>(t.shape);
    // NULL would ask NumPy to allocate memory; without elements any other address will do.
    void* data = t.data != nullptr ? t.data : block;

    retain(block);
    PyObject* base = object_of_block(block);
    if (ISTHMUS_UNLIKELY(base == nullptr)) {
        Py_DECREF(descr);
        return error_from_exception(ErrorCode::consumer_failed, nullptr, "making the base object");
    }
    PyObject* array = numpy_api->make(numpy_api->array_type, descr, t.ndim, shape, strides, data, flags, nullptr);
    if (ISTHMUS_UNLIKELY(array == nullptr)) {
        Py_DECREF(base);
        return error_from_exception(ErrorCode::consumer_failed, nullptr, "numpy");
    }
    // As PyArray_SetBaseObject does for an array without a base and a base that is not an array.
    reinterpret_cast<NumpyArray*>(array)->base = base;
    return array;
}

inline Result<PyObject*> export_to_numpy(Block* block) {
    const DLTensor& t = block->dl;
    if (ISTHMUS_UNLIKELY(numpy_api->make == nullptr) && !load_numpy_api())
        return error_from_exception(ErrorCode::unavailable, nullptr, "importing numpy");
    if (ISTHMUS_UNLIKELY(!Device(t.device).is_host()))
        return make_error(ErrorCode::bad_device, {"the tensor is on ", Device(t.device),
                                                  ", which NumPy cannot see; copy it to the cpu first"});
    const DType dtype = t.dtype;
    const int number = numpy_type_number(dtype);
    PyObject* descr = nullptr;
    if (ISTHMUS_LIKELY(number >= 0)) {
        descr = numpy_api->dtypes[number];
        Py_INCREF(descr);
    } else {
        const bool padded = (block->flags & flag::padded) != 0;
        if (dtype.lanes() == 1 && (!dtype.is_subbyte() || padded)) descr = find_ml_descr(dtype).release();
        if (descr == nullptr) return explain_numpy_export(t, padded);
    }
    return numpy_array_over(block, descr);
}

}  // namespace detail

ISTHMUS_END
