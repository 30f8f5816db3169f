// The other half of isthmus.Tensor's pickling.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

namespace {

using namespace package;

/// _rebuild(buffer, dtype, shape, padded, strides=None, read_only=False): the other half of isthmus.Tensor's pickling
/// (isthmus/python/object/tensor_pickle.h). The tensor keeps `buffer`, so that bytes that travelled out of band are
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

PyMethodDef package::pickle_methods[] = {
    {"_rebuild", rebuild, METH_VARARGS,
     "_rebuild($module, buffer, dtype, shape, padded, strides=None, read_only=False, /)\n--\n\nWhat unpickling an "
     "isthmus.Tensor calls."},
    {nullptr, nullptr, 0, nullptr},
};
