// The other half of isthmus.Tensor's pickling.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

namespace {

using namespace package;

/// What a pickled tensor was, but for the bytes.
struct Pickled {
    DType dtype;
    std::int64_t shape[isthmus::max_ndim], strides[isthmus::max_ndim];
    int ndim = 0, stride_count = -1;  // -1: row-major
    int padded = 0, read_only = 0;

    bool row_major() const noexcept { return stride_count < 0; }
    /// The bytes before the first element. False where the elements are not just as many bytes as there are.
    bool find_first(std::int64_t nbytes, std::int64_t& before) const noexcept {
        std::int64_t numel = 0, size = 0, first = 0, last = 0;
        before = 0;
        if (!isthmus::layout::numel(shape, ndim, numel) || !isthmus::layout::nbytes(numel, dtype, padded != 0, size) ||
            size != nbytes)
            return false;
        if (row_major() || numel == 0) return row_major() || stride_count == ndim;
        if (stride_count != ndim || !isthmus::layout::extent(shape, strides, ndim, dtype.itemsize(), first, last) ||
            last - first != nbytes - 1)
            return false;
        before = -first;
        return true;
    }
};

/// _rebuild(buffer, dtype, shape, padded, strides=None, read_only=False): the other half of isthmus.Tensor's pickling
/// (isthmus/python/object/tensor_pickle.h). The tensor keeps `buffer`, so that bytes that travelled out of band are used where
/// they arrived; it is read-only where the one that was pickled was, and where the buffer is.
PyObject* rebuild(PyObject*, PyObject* arguments) {
    PyObject *buffer = nullptr, *name = nullptr, *shape = nullptr, *strides = Py_None;
    Pickled pickled;
    if (!PyArg_ParseTuple(arguments, "OOOp|Op:_rebuild", &buffer, &name, &shape, &pickled.padded, &strides, &pickled.read_only))
        return nullptr;
    if (!read_dtype(name, "dtype", pickled.dtype) || !read_sizes(shape, "shape", pickled.shape, pickled.ndim)) return nullptr;
    if (strides != Py_None && !read_sizes(strides, "strides", pickled.strides, pickled.stride_count)) return nullptr;
    isthmus::Result<Tensor> bytes = isthmus::from_py(buffer, {.argument = "buffer"});
    if (!bytes) return isthmus::set_python_error(bytes.error()), nullptr;
    return guarded([&]() -> PyObject* {
        std::int64_t before = 0;
        if (!pickled.find_first(bytes->nbytes(), before) || !bytes->is_contiguous() || !bytes->device().is_host())
            throw Error(ErrorCode::bad_layout, ErrorKind::value,
                        "argument 'buffer': " + std::to_string(bytes->nbytes()) + " bytes do not hold " + pickled.dtype.name() +
                            isthmus::layout::to_string(pickled.shape, pickled.ndim));
        const bool read_only = pickled.read_only != 0 || bytes->read_only();
        // Bytes that lie badly for their dtype (a transport keeps no alignment) are the one thing that has to be moved.
        const auto alignment = static_cast<std::uintptr_t>(pickled.dtype.alignment());
        if (bytes->nbytes() > 0 && reinterpret_cast<std::uintptr_t>(bytes->data()) % alignment != 0) {
            isthmus::Result<Tensor> moved = isthmus::copy_of(bytes->descriptor());
            if (!moved) throw Error(moved.error());
            *bytes = std::move(*moved);
        }
        const auto sizes = [&](const std::int64_t* values) {
            return std::span<const std::int64_t>(values, static_cast<std::size_t>(pickled.ndim));
        };
        const auto describe = [&] {
            void* data = static_cast<char*>(bytes->data()) + before;
            isthmus::TensorSpec spec(data, pickled.dtype, sizes(pickled.shape));
            if (!pickled.row_major()) spec.set_strides(sizes(pickled.strides));
            spec.read_only = read_only;
            spec.padded = pickled.padded != 0;
            return spec;
        };
        return to_object(Tensor::wrap_spec(describe, Tensor(*bytes)));
    });
}

}  // namespace

PyMethodDef package::pickle_methods[] = {
    {"_rebuild", rebuild, METH_VARARGS,
     "_rebuild($module, buffer, dtype, shape, padded, strides=None, read_only=False, /)\n--\n\nWhat unpickling an "
     "isthmus.Tensor calls."},
    {nullptr, nullptr, 0, nullptr},
};
