// isthmus.from_dlpack, isthmus.empty and isthmus.trim.
// SPDX-License-Identifier: Apache-2.0
#include "package.h"

namespace {

using namespace package;

/// `copy` as the array API standard has it: None, False or True.
bool read_copy(PyObject* object, isthmus::ImportOptions& options, bool& forbidden) {
    forbidden = object == Py_False;
    if (object == Py_False) options.copy = isthmus::Copy::never;
    if (object == Py_True) options.copy = isthmus::Copy::always;
    if (object == Py_None || PyBool_Check(object)) return true;
    (void)isthmus::detail::raise_argument("copy", object, "None, True or False", ErrorKind::type);
    return false;
}

/// from_dlpack(x, /, *, device=None, copy=None)
PyObject* from_dlpack(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
    if (count != 1) {
        PyErr_Format(PyExc_TypeError, "from_dlpack() takes one positional argument (%zd given)", count);
        return nullptr;
    }
    isthmus::ImportOptions options{.copy = isthmus::Copy::from_producer, .argument = "x"};
    bool copy_forbidden = false;
    Device wanted{0, 0};
    const Py_ssize_t named = keywords != nullptr ? PyTuple_GET_SIZE(keywords) : 0;
    for (Py_ssize_t i = 0; i < named; ++i) {
        PyObject *name = PyTuple_GET_ITEM(keywords, i), *value = arguments[count + i];
        if (PyUnicode_CompareWithASCIIString(name, "device") == 0) {
            if (value != Py_None && !read_device(value, "device", wanted)) return nullptr;
        } else if (PyUnicode_CompareWithASCIIString(name, "copy") == 0) {
            if (!read_copy(value, options, copy_forbidden)) return nullptr;
        } else {
            PyErr_Format(PyExc_TypeError, "from_dlpack() got an unexpected keyword argument '%U'", name);
            return nullptr;
        }
    }
    // If copying is forbidden the data cannot move, so the device is only compared.
    if (!copy_forbidden) options.device = wanted;
    isthmus::Result<Tensor> tensor = isthmus::from_py(arguments[0], options);
    if (copy_forbidden && wanted.type != 0 && tensor && tensor->device() != wanted) {
        const Device found = tensor->device();
        isthmus::roll_back(arguments[0], *tensor);
        return isthmus::detail::raise(ErrorCode::needs_copy, ErrorKind::buffer,
                                      {"argument 'copy': found False, but x is on ", found, " and is expected on ",
                                       wanted, "; expected None or True, since that needs a copy"});
    }
    return to_object(tensor);
}

/// empty(shape, dtype='float32')
PyObject* empty(PyObject*, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"shape", "dtype", nullptr};
    PyObject *shape = nullptr, *dtype = nullptr;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:empty", const_cast<char**>(names), &shape, &dtype))
        return nullptr;
    std::int64_t sizes[isthmus::max_ndim];
    int ndim = 0;
    DType wanted = isthmus::float32;
    if (!read_shape(shape, sizes, ndim) || (dtype != nullptr && !read_dtype(dtype, "dtype", wanted))) return nullptr;
    return guarded([&] {
        return to_object(Tensor::empty(std::span<const std::int64_t>(sizes, static_cast<std::size_t>(ndim)), wanted));
    });
}

/// trim(keep=0): in each extension of the process that was compiled with Isthmus
PyObject* trim(PyObject*, PyObject* arguments, PyObject* keywords) {
    static const char* names[] = {"keep", nullptr};
    Py_ssize_t keep = 0;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|n:trim", const_cast<char**>(names), &keep)) return nullptr;
    if (keep < 0) {
        const Ref found(PyLong_FromSsize_t(keep));
        return found ? isthmus::detail::raise_argument("keep", found.get(), "0 bytes or more") : nullptr;
    }
    PyObject* dict = PyInterpreterState_GetDict(PyInterpreterState_Get());
    const Ref kept(dict != nullptr ? PyDict_Values(dict) : nullptr);
    if (!kept) return PyErr_Occurred() != nullptr ? nullptr : PyLong_FromLong(0);
    std::size_t given = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(kept.get()); ++i) {
        PyObject* capsule = PyList_GET_ITEM(kept.get(), i);
        if (!PyCapsule_IsValid(capsule, isthmus::detail::kept_memory_name)) continue;
        const void* found = PyCapsule_GetPointer(capsule, isthmus::detail::kept_memory_name);
        given += static_cast<const isthmus::detail::KeptMemory*>(found)->trim(static_cast<std::size_t>(keep));
    }
    return PyLong_FromSize_t(given);
}

}  // namespace

PyMethodDef package::import_methods[] = {
    {"from_dlpack", with_keywords(from_dlpack), METH_FASTCALL | METH_KEYWORDS,
     "from_dlpack($module, x, /, *, device=None, copy=None)\n--\n\n"
     "The memory of `x` as an isthmus.Tensor, without a copy, in constant time.\n\n"
     "x: an array of any framework, a DLPack capsule, or any object with the buffer protocol or an array "
     "interface.\n"
     "device: the requested device ('cuda:0', an isthmus.Device, or DLPack's (type, id)). None leaves the "
     "data in place;\n"
     "    for another device than x's, x is requested to copy it there.\n"
     "copy: None shares the memory; a copy is made only to reach `device`, or by x itself if it cannot "
     "share\n"
     "    (`is_copied` is then true). False never copies. True always does, and the copy is writable.\n\n"
     "The Tensor keeps x's memory alive. Memory that is read-only in x stays read-only. Raises "
     "isthmus.Error, which is\n"
     "also a TypeError (x is not a tensor), a BufferError (x cannot be shared) or a ValueError (an "
     "argument is wrong); an\n"
     "exception of x itself is its __cause__. An isthmus.Tensor is returned unchanged.\n"
     "Source: Python array API standard 2024.12, from_dlpack."},
    {"empty", with_keywords(empty), METH_VARARGS | METH_KEYWORDS,
     "empty($module, shape, dtype='float32')\n--\n\n"
     "A new Tensor in host memory: row-major, not initialised, writable, owned by nobody but its views.\n\n"
     "shape: the sizes, or one number for one dimension. Aligned to 64 bytes, so that JAX shares it too."},
    {"trim", with_keywords(trim), METH_VARARGS | METH_KEYWORDS,
     "trim($module, keep=0)\n--\n\n"
     "Release the memory of dropped tensors to the system; returns the number of bytes released.\n\n"
     "keep: how many bytes each extension module may keep, the most recently dropped first. A module that "
     "is compiled with\n"
     "    Isthmus keeps the memory of tensors of 64 KiB and more for the next one of about that size, 512 "
     "MiB at most; the\n"
     "    system may reclaim blocks of 32 MiB and more when it runs short (MADV_FREE). Applies to all "
     "modules of the\n"
     "    process. Raises ValueError if it is negative."},
    {nullptr, nullptr, 0, nullptr},
};
