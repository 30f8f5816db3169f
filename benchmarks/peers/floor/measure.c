// SPDX-License-Identifier: Apache-2.0
// The region in which callgrind counts: it is told this function's name. Where valgrind's header is installed, the
// counting is also switched off everywhere else, which makes the imports before it several times as fast.
#include "floor.h"

#include <pthread.h>

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

typedef struct {
    PyObject *function, *args;
    Py_ssize_t left;
} Calls;
static void* call_from_thread(void* context) {
    Calls* calls = context;
    for (int good = 1; good && calls->left > 0;) {
        const PyGILState_STATE state = PyGILState_Ensure();
        PyObject* result = PyObject_Call(calls->function, calls->args, NULL);
        good = result != NULL;
        if (good) --calls->left;
        if (!good) PyErr_WriteUnraisable(calls->function);
        Py_XDECREF(result);
        PyGILState_Release(state);
    }
    return NULL;
}
// from_thread(times, function, *args): calls on a thread that Python does not know, which takes the GIL for each of
// them.
static PyObject* from_thread(PyObject* self, PyObject* args) {
    (void)self;
    const Py_ssize_t n = PyTuple_GET_SIZE(args);
    if (n < 2) return PyErr_Format(PyExc_TypeError, "from_thread(times, function, *args)");
    Calls calls = {PyTuple_GET_ITEM(args, 1), PyTuple_GetSlice(args, 2, n),
                   PyLong_AsSsize_t(PyTuple_GET_ITEM(args, 0))};
    if (calls.args == NULL || PyErr_Occurred()) return NULL;
    pthread_t thread;
    int started = 0;
    Py_BEGIN_ALLOW_THREADS started = pthread_create(&thread, NULL, call_from_thread, &calls) == 0;
    if (started) pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS Py_DECREF(calls.args);
    if (!started || calls.left > 0) return PyErr_Format(PyExc_RuntimeError, started ? "a call failed" : "no thread");
    Py_RETURN_NONE;
}

PyMethodDef floor_measure[] = {
    {"from_thread", from_thread, METH_VARARGS, NULL},
    {"repeat", (PyCFunction)(void (*)(void))repeat, METH_FASTCALL, NULL},
    {"can_switch", can_switch, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

/// For those who call C without a module: the address is all that arrives.
void __attribute__((visibility("default"))) bench_touch(const float* data, Py_ssize_t size) {
    (void)size;
    floor_sink = (void*)data;
}
