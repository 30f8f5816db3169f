// SPDX-License-Identifier: Apache-2.0
// The region in which callgrind counts: it is told this function's name. Where valgrind's header is installed, the counting is
// also switched off everywhere else, which makes the imports before it several times as fast.
#include "floor.h"

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION
#define CALLGRIND_STOP_INSTRUMENTATION
#define NO_SWITCH
#endif

__attribute__((noinline, visibility("default"))) PyObject* isthmus_bench_region(PyObject* function, PyObject* x,
                                                                                Py_ssize_t times) {
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
    if (times < 0) return NULL;
    CALLGRIND_START_INSTRUMENTATION;
    PyObject* result = isthmus_bench_region(args[0], args[1], times);
    CALLGRIND_STOP_INSTRUMENTATION;
    return result;
}

static PyObject* can_switch(PyObject* self, PyObject* none) {
    (void)self, (void)none;
#ifdef NO_SWITCH
    Py_RETURN_FALSE;
#else
    Py_RETURN_TRUE;
#endif
}

PyMethodDef floor_measure[] = {
    {"repeat", (PyCFunction)(void (*)(void))repeat, METH_FASTCALL, NULL},
    {"can_switch", can_switch, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/// For those who call C without a module: the address is all that arrives.
void __attribute__((visibility("default"))) bench_touch(const float* data, Py_ssize_t size) {
    (void)size;
    floor_sink = (void*)data;
}
