// SPDX-License-Identifier: Apache-2.0
#include "floor.h"

#include <string.h>

float* floor_data;
int64_t floor_size;
int64_t floor_owners;
#if defined(Py_GIL_DISABLED)
_Thread_local
#endif
    void* volatile floor_sink;

Owned* floor_own(const DLTensor* t, void* owner) {
    Owned* owned = malloc(sizeof(Owned) + 2 * (size_t)t->ndim * sizeof(int64_t));
    if (owned == NULL) return NULL;
    owned->dl = *t;
    owned->owner = owner;
    owned->dl.shape = owned->dims;
    owned->dl.strides = owned->dims + t->ndim;
    for (int i = 0; i < t->ndim; ++i) {
        owned->dl.shape[i] = t->shape[i];
        owned->dl.strides[i] = t->strides[i];
    }
    return owned;
}

static PyObject* empty(PyObject* self, PyObject* x) {
    (void)self, (void)x;
    Py_RETURN_NONE;
}

static PyObject* empty3(PyObject* self, PyObject* const* args, Py_ssize_t n) {
    (void)self, (void)args, (void)n;
    Py_RETURN_NONE;
}

static PyObject* set_size(PyObject* self, PyObject* n) {
    (void)self;
    const Py_ssize_t size = PyLong_AsSsize_t(n);
    if (size < 0) return NULL;
    free(floor_data);
    const size_t bytes = ((size_t)size * sizeof(float) + 63) / 64 * 64;
    floor_data = aligned_alloc(64, bytes);
    floor_size = size;
    if (floor_data == NULL) return PyErr_NoMemory();
    if (size <= 1 << 20) memset(floor_data, 0, bytes);  // a page that nobody touches costs no memory
    Py_RETURN_NONE;
}

static PyMethodDef general[] = {
    {"empty", empty, METH_O, NULL},
    {"empty3", (PyCFunction)(void (*)(void))empty3, METH_FASTCALL, NULL},
    {"set_size", set_size, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "bench_floor", NULL, -1, general, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_bench_floor(void) {
    PyObject* module = PyModule_Create(&definition);
    PyMethodDef* tables[] = {floor_in_torch, floor_in_numpy, floor_in_buffer, floor_out, floor_measure};
    for (size_t i = 0; module != NULL && i < sizeof(tables) / sizeof(*tables); ++i)
        if (PyModule_AddFunctions(module, tables[i]) != 0) return NULL;
#if defined(Py_GIL_DISABLED)
    if (module != NULL) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
    return module;
}
