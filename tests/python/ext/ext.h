// SPDX-License-Identifier: Apache-2.0
// What the files of the test extension share.
#pragma once

#include <isthmus/python.h>

#include <cstring>
#include <new>
#include <string>

namespace ext {

/// The ImportOptions that a Python call gave as keywords, each under the name of its field.
struct Options {
    PyObject* object = nullptr;
    isthmus::ImportOptions import;

    bool parse(PyObject* args, PyObject* kwargs);
};

/// A function of any signature as a method table wants it.
template <class F>
PyCFunction method(F f) {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(f));
}

inline PyObject* raise(const isthmus::Error& error) {
    isthmus::set_python_error(error);
    return nullptr;
}

/// What `f` returns, or a MemoryError.
template <class F>
PyObject* with_memory(F&& f) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

inline PyObject* int_tuple(std::span<const std::int64_t> values) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(values.size()));
    for (std::size_t i = 0; tuple != nullptr && i < values.size(); ++i)
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(values[i]));
    return tuple;
}

/// Everything that a Tensor or a Borrowed tells of itself, as a dict.
template <class T>
PyObject* info(const T& t) {
    const isthmus::DType dtype = t.dtype();
    isthmus::Ref shape(int_tuple(t.shape())), strides(int_tuple(t.strides()));
    if (!shape || !strides) return nullptr;
    return Py_BuildValue(
        "{s:N,s:O,s:O,s:i,s:L,s:L,s:L,s:s,s:(iii),s:s,s:(ii),s:O,s:O,s:O,s:O,s:K,s:L}",                          //
        "data", PyLong_FromVoidPtr(t.data()), "shape", shape.get(), "strides", strides.get(), "ndim", t.ndim(),  //
        "size", static_cast<long long>(t.numel()), "itemsize", static_cast<long long>(t.itemsize()), "nbytes",   //
        static_cast<long long>(t.nbytes()), "dtype", dtype.name().c_str(), "dtype_fields", int{dtype.code},      //
        dtype.bits(), dtype.lanes(), "device", t.device().name().c_str(), "device_fields", t.device().type,      //
        t.device().id, "read_only", t.read_only() ? Py_True : Py_False, "copied",
        t.is_copied() ? Py_True : Py_False,                                                                  //
        "padded", t.is_padded() ? Py_True : Py_False, "contiguous", t.is_contiguous() ? Py_True : Py_False,  //
        "flags", static_cast<unsigned long long>(t.flags()), "stream", static_cast<long long>(t.stream()));
}

/// The elements in row-major order, read through the strides by a loop of the test's own.
template <class T>
PyObject* elements(const T& t) {
    if (!t.device().is_host()) {
        PyErr_SetString(PyExc_ValueError, "not host memory");
        return nullptr;
    }
    std::string bytes;
    const auto item = static_cast<std::size_t>(t.itemsize());
    if (t.dtype().is_subbyte() && !t.is_padded()) {
        bytes.assign(static_cast<const char*>(t.data()), static_cast<std::size_t>(t.nbytes()));
        return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
    }
    const std::int64_t count = t.numel();
    for (std::int64_t i = 0; i < count; ++i) {
        std::int64_t rest = i, offset = 0;
        for (int d = t.ndim() - 1; d >= 0; --d) {
            offset += rest % t.shape()[static_cast<std::size_t>(d)] * t.strides()[static_cast<std::size_t>(d)];
            rest /= t.shape()[static_cast<std::size_t>(d)];
        }
        bytes.append(static_cast<const char*>(t.data()) + offset * static_cast<std::int64_t>(item), item);
    }
    return PyBytes_FromStringAndSize(bytes.data(), static_cast<Py_ssize_t>(bytes.size()));
}

// One list of functions per file, and the types that need making.
extern PyMethodDef argument_methods[];
extern PyMethodDef import_methods[];
extern PyMethodDef keep_methods[];
extern PyMethodDef thread_methods[];
extern PyMethodDef producer_methods[];
extern PyMethodDef export_methods[];
extern PyMethodDef export_memory_methods[];
bool add_exporter(PyObject* module);
bool add_holder(PyObject* module);
bool add_bare(PyObject* module);

}  // namespace ext
