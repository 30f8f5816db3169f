// SPDX-License-Identifier: Apache-2.0
// How often each byte occurs, in a file mapped by Python or in any other memory:
// CPython's own C API, and Isthmus.
#include <isthmus/python/arguments.h>

namespace {

PyObject* histogram(PyObject*, PyObject* const* args, Py_ssize_t nargs,
                    PyObject* kwnames) {
    isthmus::Arguments<isthmus::View<const std::uint8_t, 1, isthmus::sizes<"n">>> in(
        "histogram", {"data"});
    if (!in.parse(args, nargs, kwnames)) return nullptr;  // the exception is set
    const auto [data] = in.values();
    try {
        isthmus::Tensor result =
            isthmus::empty_like(in.object(0), {256}, isthmus::int64);
        const auto counts = result.view<std::int64_t, 1>().value();
        for (std::int64_t& count : counts) count = 0;
        for (std::uint8_t byte : data) ++counts(byte);
        return in.reply(result);  // in the framework of the data
    } catch (const isthmus::Error& error) {
        isthmus::set_python_error(error);
        return nullptr;
    }
}

// The interpreter keeps every function under one type; METH_KEYWORDS says which one it
// is.
PyMethodDef methods[] = {
    {"histogram",
     reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(histogram)),
     METH_FASTCALL | METH_KEYWORDS,
     "histogram(data)\n\nHow often each of the 256 bytes occurs in uint8 memory of one "
     "dimension, as int64."},
    {nullptr, nullptr, 0, nullptr},
};
PyModuleDef_Slot slots[] = {
#if defined(Py_GIL_DISABLED)
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, nullptr},
};
PyModuleDef definition{PyModuleDef_HEAD_INIT,
                       "bytecount",
                       "Counts bytes.",
                       0,
                       methods,
                       slots,
                       nullptr,
                       nullptr,
                       nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_bytecount() { return PyModuleDef_Init(&definition); }
