// Whether the object that a tensor was made from may be handed back: it still shows the tensor's own memory, shape and dtype.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/dispatch/classify.h>  // Python.h must come before any standard header

#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

/// Strides of dimensions that are never stepped along may be anything.
inline bool same_layout(const DLTensor& t, const DLTensor& now) noexcept {
    if (t.data != now.data || t.ndim != now.ndim || DType(t.dtype) != DType(now.dtype) ||
        Device(t.device) != Device(now.device))
        return false;
    bool same = true, empty = false;
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] != now.shape[i]) return false;
        same = same && (t.shape[i] <= 1 || t.strides[i] == now.strides[i]);
        empty = empty || t.shape[i] == 0;
    }
    return same || empty;
}

/// What a numpy.ndarray shows now, by its struct.
ISTHMUS_ALWAYS_INLINE bool numpy_still_shows(PyObject* object, const DLTensor& t) noexcept {
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    const auto number = static_cast<unsigned>(array->descr->type_num);
    if (array->data != t.data || array->nd != t.ndim || !has_native_order(array->descr)) return false;
    DLDataType dtype{};
    Flags flags = 0;
    if (ISTHMUS_LIKELY(numpy_shifts.has(number)))
        dtype = numpy_dtypes[number];
    else if (!unusual_numpy_dtype(array->descr, dtype, flags))
        return false;
    if (ISTHMUS_UNLIKELY(DType(dtype) != DType(t.dtype))) return false;
    const std::int64_t itemsize = DType(dtype).itemsize();
    bool same = true, empty = false;
    for (int i = 0; i < t.ndim; ++i) {
        if (array->dimensions[i] != t.shape[i]) return false;
        same = same && (t.shape[i] <= 1 || array->strides[i] == t.strides[i] * itemsize);
        empty = empty || t.shape[i] == 0;
    }
    return same || empty;
}

/// What a torch.Tensor shows now, by libtorch's shims.
ISTHMUS_NOINLINE inline bool torch_still_shows(PyObject* object, bool known_torch, const DLTensor& t) {
    const TorchShims& torch = torch_shims;
    void* handle = nullptr;
    const bool inside = known_torch && torch.inside > 0;
    if (inside)
        handle = reinterpret_cast<char*>(object) + torch.inside;
    else if (torch.from_pyobject(object, &handle) != 0)
        return false;
    DLTensor now = t;
    std::int64_t ndim = 0;
    std::int32_t number = 0, device = 0, index = 0;
    const void* data = nullptr;
    bool same = torch.get_dim(handle, &ndim) == 0 && torch.get_sizes(handle, &now.shape) == 0 &&
                torch.get_strides(handle, &now.strides) == 0 && torch.get_const_data_ptr(handle, &data) == 0 &&
                torch.get_dtype(handle, &number) == 0 && torch.get_device_type(handle, &device) == 0;
    if (same) {
        now.data = const_cast<void*>(data);
        now.ndim = static_cast<std::int32_t>(ndim);
        now.dtype = torch_dtype_table.dtype_of(number);
        const bool host = device == torch.device_cpu;
        if (!host) torch.get_device_index(handle, &index);
        now.device = host ? DLDevice{kDLCPU, 0} : DLDevice{torch_gpu_type(), index};
        AskShims ask{object, handle, DType(now.dtype).code};
        same = same_layout(t, now) && ask.lazy_bit() == LazyBit::none && !ask.failed;
    }
    if (!inside) torch.delete_handle(handle);
    return same;
}

/// What any other object shows now, as an import of it would find.
ISTHMUS_NOINLINE inline bool import_still_shows(PyObject* object, const DLTensor& t) {
    const Result<Borrowed> now = borrow_py(object, {.allow_grad = true});
    return now.has_value() && same_layout(t, now->descriptor());
}

/// The very object this block was imported from, when it is an array of the wanted framework and unchanged: a new reference, or
/// NULL. No Python exception stays set that was not set before.
inline PyObject* same_object(const Block* block, Framework framework) {
    if (block->ops->array == nullptr || framework == Framework::none) return nullptr;
    if (block->ops->framework != 0 && block->ops->framework != static_cast<std::uint32_t>(framework)) return nullptr;
    Ref object(array_of(block));
    if (ISTHMUS_UNLIKELY(!object)) return nullptr;
    ProducerType scratch;
    const ProducerType* found = find_type_quietly(Py_TYPE(object.get()), scratch);
    if (found == nullptr || !found->is_array || found->framework != framework) return nullptr;
    const DLTensor& t = block->dl;
    bool same = false;
    if (ISTHMUS_LIKELY(found->protocol == Protocol::numpy))
        same = numpy_still_shows(object.get(), t);
    else if (found->protocol == Protocol::torch_stable &&
             (Device(t.device).is_host() || t.device.device_type == torch_gpu_type()))
        same = torch_still_shows(object.get(), found->known_torch, t);
    else
        same = import_still_shows(object.get(), t);
    return same ? object.release() : nullptr;
}

}  // namespace detail

ISTHMUS_END
