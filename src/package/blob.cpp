// Tensors from a description in Python: isthmus.from_blob, once every field has its type, and unpickling.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

namespace {

using namespace package;
namespace detail = isthmus::detail;

struct Fields {
    void* ptr = nullptr;
    std::int64_t shape[isthmus::max_ndim], strides[isthmus::max_ndim];
    int ndim = 0, stride_count = -1;  // -1: row-major
    DType dtype;
    Device device;
    int read_only = 0, padded = 0;
    PyObject* owner = nullptr;
};

bool read_pointer(PyObject* object, void*& out) {
    Ref number(PyBool_Check(object) ? nullptr : PyNumber_Index(object));
    if (!number) {
        (void)detail::raise_argument("ptr", object, "an integer, the address of the first element", ErrorKind::type);
        return false;
    }
    const unsigned long long address = PyLong_AsUnsignedLongLong(number.get());
    if (PyErr_Occurred() != nullptr || address > UINTPTR_MAX) {
        (void)detail::raise_argument("ptr", object, "an address: 0 or more, and of at most 64 bits");
        return false;
    }
    out = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
    return true;
}

[[noreturn]] void refuse(ErrorCode code, const char* argument, const std::string& text) {
    throw Error(code, ErrorKind::value, detail::argument_prefix(argument) + text);
}

/// Checks each field by itself and then pairs of them, each with its own error text.
void check(const Fields& f) {
    const std::string shape = isthmus::layout::to_string(f.shape, f.ndim);
    for (int i = 0; i < f.ndim; ++i)
        if (f.shape[i] < 0)
            refuse(ErrorCode::bad_layout, "shape",
                   "found " + shape + " with a negative size in dimension " + std::to_string(i) +
                       "; expected sizes of 0 or more");
    if (f.stride_count >= 0 && f.stride_count != f.ndim)
        refuse(ErrorCode::bad_layout, "strides",
               "found " + isthmus::layout::to_string(f.strides, f.stride_count) + " with " +
                   std::to_string(f.stride_count) + " entries; expected one per dimension of shape " + shape + ", " +
                   std::to_string(f.ndim));
    std::int64_t numel = 0, nbytes = 0;
    if (!isthmus::layout::numel(f.shape, f.ndim, numel) ||
        !isthmus::layout::nbytes(numel, f.dtype, f.padded != 0, nbytes))
        refuse(ErrorCode::overflow, "shape",
               "found " + shape + " of " + f.dtype.name() + "; expected no more bytes than a 64-bit size can count");
    if (numel > 0 && f.ptr == nullptr)
        refuse(ErrorCode::null_data, "ptr",
               "found 0 with " + std::to_string(numel) + " elements (shape " + shape +
                   "); expected the address of the first element");
    if (numel == 0) return;
    std::int64_t first = 0, last = 0;
    if (f.stride_count >= 0 && !isthmus::layout::extent(f.shape, f.strides, f.ndim, f.dtype.itemsize(), first, last))
        refuse(ErrorCode::overflow, "strides",
               "found " + isthmus::layout::to_string(f.strides, f.ndim) + " with shape " + shape +
                   "; expected elements within the address space");
    const auto alignment = static_cast<std::uintptr_t>(f.dtype.alignment());
    if (!f.device.is_opaque() && reinterpret_cast<std::uintptr_t>(f.ptr) % alignment != 0)
        refuse(ErrorCode::needs_copy, "ptr",
               detail::concat({"found ", detail::hex(f.ptr), "; expected an address aligned to the ", alignment,
                               " bytes of ", f.dtype}));
}

/// The tensor that from_fields makes: an alias of `root`, or a new block with its owner.
detail::Block* block_of_fields(const Fields& f, const DLTensor& t, isthmus::Flags flags, detail::Block* root) {
    detail::Block* block =
        root != nullptr ? detail::alias_wrapped_block(root, t, flags) : detail::allocate_block(f.ndim);
    if (block == nullptr) throw std::bad_alloc();
    if (root != nullptr) return block;
    detail::describe(block, t, flags);
    if (f.owner == Py_None) {
        block->flags |= detail::unowned_flag;
    } else {
        block->ops = &detail::python_owners->keeper_object;
        block->owner = Py_NewRef(f.owner);
    }
    return detail::announce(block);
}

/// _from_fields(ptr, shape, strides, dtype, device, read_only, padded, owner, tensor)
PyObject* from_fields(PyObject*, PyObject* arguments) {
    Fields f;
    PyObject *ptr = nullptr, *shape = nullptr, *strides = nullptr, *dtype = nullptr, *device = nullptr;
    PyObject* tensor = nullptr;
    if (!PyArg_ParseTuple(arguments, "OOOOOppOO:_from_fields", &ptr, &shape, &strides, &dtype, &device, &f.read_only,
                          &f.padded, &f.owner, &tensor))
        return nullptr;
    detail::Block* root = nullptr;
    if (tensor != Py_None) {
        if (!PyObject_TypeCheck(tensor, detail::shared_types()->tensor))
            return detail::raise_argument("tensor", tensor, "an isthmus.Tensor or None", ErrorKind::type);
        if ((root = detail::block_of(tensor)) == nullptr) return nullptr;
    }
    if (!read_pointer(ptr, f.ptr) || !read_sizes(shape, "shape", f.shape, f.ndim) ||
        !read_dtype(dtype, "dtype", f.dtype) || !read_device(device, "device", f.device))
        return nullptr;
    if (strides != Py_None && !read_sizes(strides, "strides", f.strides, f.stride_count)) return nullptr;
    return guarded([&]() -> PyObject* {
        check(f);
        const DLTensor t{f.ptr, f.device, f.ndim, f.dtype, f.shape, f.stride_count >= 0 ? f.strides : nullptr, 0};
        const isthmus::Flags flags =
            (f.read_only != 0 ? isthmus::flag::read_only : 0) | (f.padded != 0 ? isthmus::flag::padded : 0);
        if (!detail::is_sound(t, flags)) {
            const Error error = detail::explain_unsound(t, flags, "blob");
            throw Error(error.code(), ErrorKind::value, error.what());
        }
        return detail::new_tensor_object(block_of_fields(f, t, flags, root));
    });
}

/// _rebuild(buffer, dtype, shape, padded, strides=None, read_only=False): the other half of isthmus.Tensor's pickling
///. The tensor keeps `buffer`, so that bytes that travelled out of band are
/// used where they arrived.
PyObject* rebuild(PyObject*, PyObject* arguments) {
    PyObject *buffer = nullptr, *name = nullptr, *shape = nullptr, *strides = Py_None;
    int padded = 0, read_only = 0;
    // Pickles of earlier versions end with `padded`.
    if (!PyArg_ParseTuple(arguments, "OOOp|Op:_rebuild", &buffer, &name, &shape, &padded, &strides, &read_only))
        return nullptr;
    DType dtype;
    std::int64_t sizes[isthmus::max_ndim], steps[isthmus::max_ndim];
    int ndim = 0, step_count = -1;
    if (!read_dtype(name, "dtype", dtype) || !read_sizes(shape, "shape", sizes, ndim)) return nullptr;
    if (strides != Py_None && !read_sizes(strides, "strides", steps, step_count)) return nullptr;
    isthmus::Result<Tensor> bytes = isthmus::from_py(buffer, {.argument = "buffer"});
    if (!bytes) return isthmus::set_python_error(bytes.error()), nullptr;
    return guarded([&]() -> PyObject* {
        std::int64_t numel = 0, nbytes = 0;
        const bool countable =
            isthmus::layout::numel(sizes, ndim, numel) && isthmus::layout::nbytes(numel, dtype, padded != 0, nbytes);
        if (!countable || nbytes != bytes->nbytes() || !bytes->is_contiguous() || !bytes->device().is_host())
            throw Error(ErrorCode::bad_layout, ErrorKind::value,
                        "argument 'buffer': " + std::to_string(bytes->nbytes()) + " bytes do not hold " + dtype.name() +
                            isthmus::layout::to_string(sizes, ndim));
        std::int64_t first = 0, last = 0;
        const auto fill = [&] {
            return isthmus::layout::is_dense(sizes, steps, ndim) &&
                   isthmus::layout::extent(sizes, steps, ndim, dtype.itemsize(), first, last);
        };
        if (step_count >= 0 && (step_count != ndim || (numel > 0 && !fill())))
            throw Error(ErrorCode::bad_layout, ErrorKind::value,
                        "argument 'strides': " + isthmus::layout::to_string(steps, step_count) +
                            " do not fill the bytes of shape " + isthmus::layout::to_string(sizes, ndim));
        const auto describe = [&] {
            isthmus::TensorSpec spec(static_cast<char*>(bytes->data()) - first, dtype,
                                     std::span<const std::int64_t>(sizes, static_cast<std::size_t>(ndim)));
            if (step_count >= 0) spec.set_strides(std::span<const std::int64_t>(steps, static_cast<std::size_t>(ndim)));
            spec.read_only = read_only != 0 || bytes->read_only();
            spec.padded = padded != 0;
            return spec;
        };
        // Bytes that are misaligned for their dtype (a pickle keeps no alignment) are the only ones that are copied.
        const auto misplaced =
            reinterpret_cast<std::uintptr_t>(bytes->data()) % static_cast<std::uintptr_t>(dtype.alignment());
        if (numel > 0 && misplaced != 0) {
            isthmus::Result<Tensor> moved = isthmus::copy_of(bytes->descriptor());
            if (!moved) throw Error(moved.error());
            *bytes = std::move(*moved);
        }
        return to_object(Tensor::wrap_spec(describe, Tensor(*bytes)));
    });
}

}  // namespace

PyMethodDef package::blob_methods[] = {
    {"_from_fields", from_fields, METH_VARARGS,
     "_from_fields($module, ptr, shape, strides, dtype, device, read_only, padded, owner, tensor, /)\n--\n\nWhat "
     "isthmus.from_blob calls once every field has its type. With `tensor` another description of what that keeps."},
    {"_rebuild", rebuild, METH_VARARGS,
     "_rebuild($module, buffer, dtype, shape, padded, strides=None, read_only=False, /)\n--\n\nWhat unpickling an "
     "isthmus.Tensor calls."},
    {nullptr, nullptr, 0, nullptr},
};
