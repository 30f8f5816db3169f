// SPDX-License-Identifier: Apache-2.0
// The buffer protocol in C: the cheapest door of JAX and TensorFlow on the CPU.
#include "floor.h"

// Sizes and dtype, but no strides: what is not row-major is refused (jaxlib is then a sixth faster).
#define CHEAPEST (PyBUF_ND | PyBUF_FORMAT)

static PyObject* borrow_buffer(PyObject* self, PyObject* x) {
    (void)self;
    Py_buffer view;
    if (PyObject_GetBuffer(x, &view, CHEAPEST) != 0) return NULL;
    floor_sink = view.buf;
    PyBuffer_Release(&view);
    Py_RETURN_NONE;
}

static PyObject* own_buffer(PyObject* self, PyObject* x) {
    (void)self;
    Py_buffer* view = malloc(sizeof *view);
    if (view == NULL || PyObject_GetBuffer(x, view, CHEAPEST) != 0) {
        free(view);
        return NULL;
    }
    floor_sink = view->buf;
    floor_sink = view;
    PyBuffer_Release(view);
    free(view);
    Py_RETURN_NONE;
}

static PyObject* round_trip_buffer(PyObject* self, PyObject* x) {
    (void)self;
    Py_buffer view;
    if (PyObject_GetBuffer(x, &view, CHEAPEST) != 0) return NULL;
    floor_sink = view.buf;
    PyBuffer_Release(&view);
    Py_INCREF(x);
    return x;
}

PyMethodDef floor_in_buffer[] = {
    {"borrow_buffer", borrow_buffer, METH_O, NULL},
    {"own_buffer", own_buffer, METH_O, NULL},
    {"round_trip_buffer", round_trip_buffer, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
