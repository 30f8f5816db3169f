// isthmus.Tensor's `__array_interface__` and `__cuda_array_interface__`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../runtime/tensor_object.h"  // Python.h must come before any standard header

#include "typestr.h"
#include "../export_stream.h"
#include "../../runtime/tuples.h"

ISTHMUS_BEGIN

namespace detail {

/// The stream that the consumer must wait for, None if there is nothing to wait for; NULL with a Python exception set.
inline PyObject* interface_stream(const Block* block) {
    if (block->flags & stream_flag) return PyLong_FromLongLong(block->stream);
    if (!(block->flags & producer_flag)) return Py_NewRef(Py_None);
    // Only the producer knows its stream: it orders the legacy stream after its own, and that one is named.
    const std::int64_t legacy = legacy_stream(block->dl.device);
    return order_export(block, legacy) ? PyLong_FromLongLong(legacy) : nullptr;
}

/// `__array_interface__` and `__cuda_array_interface__`, both version 3. Raises AttributeError, so that `hasattr` is right,
/// where the interface cannot express the memory or the dtype.
inline PyObject* array_interface(Block* block, bool cuda) {
    const DLTensor& t = block->dl;
    const Device device = t.device;
    const char* attribute = cuda ? "__cuda_array_interface__" : "__array_interface__";
    const bool here = cuda ? device.type == kDLCUDA || device.type == kDLCUDAManaged : device.is_host();
    const std::string typestr = typestr_of(t.dtype);
    if (!here || typestr.empty()) {
        PyErr_Format(
            PyExc_AttributeError, "isthmus.Tensor has no attribute '%s': %s", attribute,
            here ? (concat({"dtype ", DType(t.dtype), " has no typestr"})).c_str() : (concat({"it is on ", device})).c_str());
        return nullptr;
    }
    Ref shape(tuple_of(t.shape, t.ndim));
    std::int64_t steps[max_ndim];
    for (int i = 0; i < t.ndim; ++i) steps[i] = layout::byte_stride(t, i);
    Ref strides(layout::is_contiguous(t.shape, t.strides, t.ndim) ? Py_NewRef(Py_None) : tuple_of(steps, t.ndim));
    Ref address(PyLong_FromVoidPtr(t.data));
    if (!shape || !strides || !address) return nullptr;
    PyObject* dict =
        Py_BuildValue("{s:O,s:s,s:(OO),s:O,s:i}", "shape", shape.get(), "typestr", typestr.c_str(), "data", address.get(),
                      (block->flags & flag::read_only) ? Py_True : Py_False, "strides", strides.get(), "version", 3);
    if (dict == nullptr || !cuda) return dict;
    const Ref stream(interface_stream(block));
    if (!stream || PyDict_SetItemString(dict, "stream", stream.get()) != 0) Py_CLEAR(dict);
    return dict;
}
inline PyObject* host_interface(Block* block) { return array_interface(block, false); }
inline PyObject* cuda_interface(Block* block) { return array_interface(block, true); }

}  // namespace detail

ISTHMUS_END
