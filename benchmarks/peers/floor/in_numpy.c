// SPDX-License-Identifier: Apache-2.0
// numpy.ndarray in C: its struct, read in place.
#include "floor.h"

#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <numpy/arrayobject.h>

PyObject* floor_numpy_array(void) {
    static const Py_ssize_t bytes[1] = {sizeof(float)};
    npy_intp shape[1] = {floor_size};
    return PyArray_New(&PyArray_Type, 1, shape, NPY_FLOAT32, bytes, floor_data, 0, NPY_ARRAY_WRITEABLE, NULL);
}
int floor_numpy_base(PyObject* array, PyObject* base) { return PyArray_SetBaseObject((PyArrayObject*)array, base); }

static PyObject* load_numpy(PyObject* self, PyObject* none) {
    (void)self, (void)none;
    import_array();
    Py_RETURN_TRUE;
}

static int read_array(PyObject* x, DLTensor* t, int64_t* strides) {
    if (!PyArray_Check(x)) goto refused;
    PyArrayObject* array = (PyArrayObject*)x;
    if (PyArray_TYPE(array) != NPY_FLOAT32 || PyArray_ISBYTESWAPPED(array) || !PyArray_ISWRITEABLE(array) ||
        !PyArray_ISALIGNED(array))
        goto refused;
    const int ndim = PyArray_NDIM(array);
    for (int i = 0; i < ndim; ++i) {
        const npy_intp step = PyArray_STRIDES(array)[i];
        if (step % 4 != 0) goto refused;
        strides[i] = step / 4;
    }
    *t = (DLTensor){PyArray_DATA(array),           {kDLCPU, 0}, ndim, {kDLFloat, 32, 1},
                    (int64_t*)PyArray_DIMS(array), strides,     0};
    return 0;
refused:
    PyErr_SetString(PyExc_TypeError, "not a plain float32 array");
    return -1;
}

static PyObject* borrow_numpy(PyObject* self, PyObject* x) {
    (void)self;
    DLTensor t;
    int64_t strides[64];
    if (read_array(x, &t, strides) != 0) return NULL;
    floor_sink = t.data;
    floor_sink = t.strides;
    Py_RETURN_NONE;
}

static PyObject* own_numpy(PyObject* self, PyObject* x) {
    (void)self;
    DLTensor t;
    int64_t strides[64];
    if (read_array(x, &t, strides) != 0) return NULL;
    Py_INCREF(x);
    Owned* owned = floor_own(&t, x);
    floor_sink = owned;
    Py_DECREF((PyObject*)owned->owner);
    free(owned);
    Py_RETURN_NONE;
}

static PyObject* kernel_numpy(PyObject* self, PyObject* const* args, Py_ssize_t n) {
    (void)self;
    DLTensor t[3];
    int64_t strides[3][64];
    for (int i = 0; i < 3 && i < n; ++i) {
        if (read_array(args[i], &t[i], strides[i]) != 0) return NULL;
        floor_sink = t[i].data;
        floor_sink = t[i].strides;
    }
    Py_RETURN_NONE;
}

static PyObject* round_trip_numpy(PyObject* self, PyObject* x) {
    (void)self;
    DLTensor t;
    int64_t strides[64];
    if (read_array(x, &t, strides) != 0) return NULL;
    floor_sink = t.data;
    Py_INCREF(x);
    return x;
}

PyMethodDef floor_in_numpy[] = {
    {"load_numpy", load_numpy, METH_NOARGS, NULL},
    {"borrow_numpy", borrow_numpy, METH_O, NULL},
    {"own_numpy", own_numpy, METH_O, NULL},
    {"kernel_numpy", (PyCFunction)(void (*)(void))kernel_numpy, METH_FASTCALL, NULL},
    {"round_trip_numpy", round_trip_numpy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
