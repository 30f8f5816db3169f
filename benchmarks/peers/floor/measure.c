// SPDX-License-Identifier: Apache-2.0
// The region in which callgrind counts: it is told this function's name.
#include "floor.h"

__attribute__((noinline, visibility("default"))) PyObject* isthmus_bench_region(PyObject* function, PyObject* x, Py_ssize_t times) {
    for (Py_ssize_t i = 0; i < times; ++i) {
        PyObject* args[2] = {NULL, x};
        PyObject* result = PyObject_Vectorcall(function, args + 1, 1 | PY_VECTORCALL_ARGUMENTS_OFFSET, NULL);
        if (result == NULL) return NULL;
        Py_DECREF(result);
    }
    Py_RETURN_NONE;
}

static PyObject* repeat(PyObject* self, PyObject* const* args, Py_ssize_t n) {
    (void)self;
    if (n != 3) {
        PyErr_SetString(PyExc_TypeError, "repeat(function, x, times)");
        return NULL;
    }
    const Py_ssize_t times = PyLong_AsSsize_t(args[2]);
    return times < 0 ? NULL : isthmus_bench_region(args[0], args[1], times);
}

PyMethodDef floor_measure[] = {
    {"repeat", (PyCFunction)(void (*)(void))repeat, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};
