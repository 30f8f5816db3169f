// Whether the object that a tensor was made from still shows the tensor's memory, shape and dtype.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "classify.h"  // Python.h must come before any standard header

#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

/// Whether the stride of dimension i, in steps of so many bytes, is this one.
ISTHMUS_ALWAYS_INLINE bool same_stride(const DLTensor& t, int i, std::int64_t stride, std::int64_t step) noexcept {
    return static_cast<std::uint64_t>(t.strides[i]) * static_cast<std::uint64_t>(step) ==
           static_cast<std::uint64_t>(stride);
}
/// Strides of dimensions that are never stepped along may be anything.
ISTHMUS_COLD inline bool same_dims_that_matter(const DLTensor& t, const std::int64_t* shape,
                                               const std::int64_t* strides, std::int64_t step) noexcept {
    bool same = true, empty = false;
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] != shape[i]) return false;
        same = same && (t.shape[i] <= 1 || same_stride(t, i, strides[i], step));
        empty = empty || t.shape[i] == 0;
    }
    return same || empty;
}
ISTHMUS_ALWAYS_INLINE bool same_dims(const DLTensor& t, const std::int64_t* shape, const std::int64_t* strides,
                                     std::int64_t step = 1) noexcept {
    for (int i = 0; i < t.ndim; ++i)
        if (ISTHMUS_UNLIKELY(t.shape[i] != shape[i] || !same_stride(t, i, strides[i], step)))
            return same_dims_that_matter(t, shape, strides, step);
    return true;
}
inline bool same_layout(const DLTensor& t, const DLTensor& now) noexcept {
    return t.data == now.data && t.ndim == now.ndim && DType(t.dtype) == DType(now.dtype) &&
           Device(t.device) == Device(now.device) && same_dims(t, now.shape, now.strides);
}

/// The present description of a numpy.ndarray, by its struct.
ISTHMUS_ALWAYS_INLINE bool numpy_still_shows(PyObject* object, const DLTensor& t) noexcept {
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    const auto number = static_cast<unsigned>(array->descr->type_num);
    if (array->data != t.data || array->nd != t.ndim || !has_native_order(array->descr)) return false;
    DLDataType unusual{};
    Flags flags = 0;
    const bool usual = numpy_shifts.has(number);
    if (ISTHMUS_UNLIKELY(!usual) && !unusual_numpy_dtype(array->descr, unusual, flags)) return false;
    if (ISTHMUS_UNLIKELY(DType(usual ? numpy_dtypes[number] : unusual) != DType(t.dtype))) return false;
    return same_dims(t, reinterpret_cast<const std::int64_t*>(array->dimensions),
                     reinterpret_cast<const std::int64_t*>(array->strides),
                     usual ? std::int64_t{1} << numpy_shifts[number] : DType(t.dtype).itemsize());
}

/// The present description of a torch tensor, by libtorch's shims.
ISTHMUS_ALWAYS_INLINE bool torch_handle_still_shows(PyObject* object, void* handle, const DLTensor& t) {
    const TorchShims& torch = torch_shims;
    std::int64_t ndim = 0, *shape = nullptr, *strides = nullptr;
    std::int32_t number = 0, device = 0;
    const void* data = nullptr;
    if (torch.get_dim(handle, &ndim) != 0 || ndim != t.ndim || torch.get_const_data_ptr(handle, &data) != 0 ||
        data != t.data || torch.get_dtype(handle, &number) != 0 ||
        torch_dtype_table.dtype_of(number) != DType(t.dtype) || torch.get_device_type(handle, &device) != 0)
        return false;
    DLDevice now{kDLCPU, 0};
    if (ISTHMUS_UNLIKELY(device != torch.device_cpu)) {
        now.device_type = torch_gpu_type();
        torch.get_device_index(handle, &now.device_id);
    }
    if (Device(now) != Device(t.device) || torch.get_sizes(handle, &shape) != 0 ||
        torch.get_strides(handle, &strides) != 0 || !same_dims(t, shape, strides))
        return false;
    AskShims ask{object, handle, t.dtype.code};
    return ask.lazy_bit() == LazyBit::none && !ask.failed;
}
ISTHMUS_NOINLINE inline bool torch_still_shows(PyObject* object, bool known_torch, const DLTensor& t) {
    const TorchShims& torch = torch_shims;
    if (ISTHMUS_LIKELY(known_torch && load_shared(torch.inside) > 0))
        return torch_handle_still_shows(object, reinterpret_cast<char*>(object) + load_shared(torch.inside), t);
    void* handle = nullptr;
    if (torch.from_pyobject(object, &handle) != 0) return false;
    const bool same = torch_handle_still_shows(object, handle, t);
    torch.delete_handle(handle);
    return same;
}

/// The present description of any other object, as an import of it would find.
ISTHMUS_NOINLINE inline bool import_still_shows(PyObject* object, const DLTensor& t) {
    const Result<Borrowed> now = borrow_py(object, {.allow_grad = true});
    return now.has_value() && same_layout(t, now->descriptor());
}

/// Whether there is an object of the requested framework that the block may have been imported from.
ISTHMUS_ALWAYS_INLINE bool may_be_same_object(const Block* block, Framework framework) noexcept {
    const OwnerOps& ops = *block->ops;
    return ops.array != nullptr && framework != Framework::none &&
           (ops.framework == 0 || ops.framework == static_cast<std::uint32_t>(framework));
}

/// same_object() of a block with PythonOwners::array_object that shows an array of NumPy's own dtypes, as
/// own_numpy_fast() makes it. NULL for any other, which same_object() must look at.
ISTHMUS_NOINLINE inline PyObject* same_plain_numpy(const Block* block, Framework framework) noexcept {
    if (block->flags & stream_flag) return nullptr;
    auto* object = static_cast<PyObject*>(block->owner);
    TypeCopy copy;
    const ProducerType* found = cached_type(Py_TYPE(object), copy);
    if (found == nullptr || found->protocol != Protocol::numpy || !found->is_array || found->framework != framework)
        return nullptr;
    const auto number = static_cast<unsigned>(reinterpret_cast<const NumpyArray*>(object)->descr->type_num);
    return numpy_shifts.has(number) && numpy_still_shows(object, block->dl) ? Py_NewRef(object) : nullptr;
}

/// Of a block with may_be_same_object(): the object it was imported from, if it is an array of the requested framework
/// and unchanged: a new reference, or NULL. No Python exception stays set that was not set before.
ISTHMUS_ALWAYS_INLINE PyObject* same_object(const Block* block, Framework framework) {
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
