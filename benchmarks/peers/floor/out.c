// SPDX-License-Identifier: Apache-2.0
// C memory as an array of a framework: the memory has an owner (here a count) that each array keeps and gives back.
#include "floor.h"

#include <string.h>

extern int (*floor_torch_from_blob)(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t,
                                    void**, int32_t, const uint8_t*, int64_t, void (*)(void*, void*), void*);
extern int (*floor_torch_to_pyobject)(void*, void*, void**);
extern int (*floor_torch_delete)(void*);
extern int32_t floor_torch_float32, floor_torch_cpu, floor_torch_strided;
extern const DLPackExchangeAPI* floor_api;
PyObject* floor_numpy_array(void);
int floor_numpy_base(PyObject* array, PyObject* base);

typedef struct {
    DLManagedTensorVersioned managed;
    int64_t shape[1], strides[1];
} Export;
typedef struct {
    DLManagedTensor managed;
    int64_t shape[1], strides[1];
} LegacyExport;

static void end_export(DLManagedTensorVersioned* self) {
    --floor_owners;
    free(self->manager_ctx);
}
static void end_legacy_export(DLManagedTensor* self) {
    --floor_owners;
    free(self->manager_ctx);
}
static DLTensor describe(int64_t* shape, int64_t* strides) {
    shape[0] = floor_size;
    strides[0] = 1;
    return (DLTensor){floor_data, {kDLCPU, 0}, 1, {kDLFloat, 32, 1}, shape, strides, 0};
}
static DLManagedTensorVersioned* make_export(void) {
    Export* e = malloc(sizeof *e);
    if (e == NULL) return NULL;
    e->managed.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    e->managed.manager_ctx = e;
    e->managed.deleter = end_export;
    e->managed.flags = 0;
    e->managed.dl_tensor = describe(e->shape, e->strides);
    ++floor_owners;
    return &e->managed;
}

static void end_capsule(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;
    DLManagedTensorVersioned* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    managed->deleter(managed);
}
static void end_legacy_capsule(PyObject* capsule) {
    if (!PyCapsule_IsValid(capsule, "dltensor")) return;
    DLManagedTensor* managed = PyCapsule_GetPointer(capsule, "dltensor");
    managed->deleter(managed);
}
static PyObject* to_capsule(PyObject* self, PyObject* x) {
    (void)self, (void)x;
    DLManagedTensorVersioned* managed = make_export();
    return managed != NULL ? PyCapsule_New(managed, "dltensor_versioned", end_capsule) : PyErr_NoMemory();
}
// What a vector takes: its elements, and the export that frees them.
static void end_made(DLManagedTensorVersioned* self) {
    free(self->dl_tensor.data);
    free(self);
}
static PyObject* vector_to_capsule(PyObject* self, PyObject* x) {
    (void)self, (void)x;
    enum { size = 16 };
    float* elements = malloc(size * sizeof *elements);
    Export* e = malloc(sizeof *e);
    if (elements == NULL || e == NULL) return PyErr_NoMemory();
    memset(elements, 0, size * sizeof *elements);
    e->managed.version = (DLPackVersion){DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    e->managed.manager_ctx = e;
    e->managed.deleter = end_made;
    e->managed.flags = 0;
    e->managed.dl_tensor = describe(e->shape, e->strides);
    e->managed.dl_tensor.data = elements;
    e->shape[0] = size;
    return PyCapsule_New(&e->managed, "dltensor_versioned", end_capsule);
}
static PyObject* to_legacy_capsule(PyObject* self, PyObject* x) {
    (void)self, (void)x;
    LegacyExport* e = malloc(sizeof *e);
    if (e == NULL) return PyErr_NoMemory();
    e->managed.manager_ctx = e;
    e->managed.deleter = end_legacy_export;
    e->managed.dl_tensor = describe(e->shape, e->strides);
    ++floor_owners;
    return PyCapsule_New(&e->managed, "dltensor", end_legacy_capsule);
}

static PyObject* to_exchange(PyObject* self, PyObject* x) {
    (void)self, (void)x;
    void* object = NULL;
    DLManagedTensorVersioned* managed = make_export();
    return managed != NULL && floor_api->managed_tensor_to_py_object_no_sync(managed, &object) == 0 ? object : NULL;
}

static void end_blob(void* data, void* context) {
    (void)data, (void)context;
    --floor_owners;
}
static PyObject* to_torch_shims(PyObject* self, PyObject* x) {
    (void)self, (void)x;
    const int64_t shape[1] = {floor_size}, strides[1] = {1};
    void *handle = NULL, *object = NULL;
    ++floor_owners;
    if (floor_torch_from_blob(floor_data, 1, shape, strides, 0, floor_torch_float32, floor_torch_cpu, -1, &handle,
                              floor_torch_strided, NULL, 0, end_blob, &floor_owners) != 0)
        return NULL;
    floor_torch_to_pyobject(handle, NULL, &object);
    floor_torch_delete(handle);
    return object;
}

static void end_base(PyObject* capsule) {
    (void)capsule;
    --floor_owners;
}
static PyObject* to_numpy(PyObject* self, PyObject* x) {
    (void)self, (void)x;
    PyObject* base = PyCapsule_New(floor_data, NULL, end_base);
    ++floor_owners;
    PyObject* array = floor_numpy_array();
    if (array == NULL || floor_numpy_base(array, base) != 0) return NULL;
    return array;
}

PyMethodDef floor_out[] = {
    {"to_capsule", to_capsule, METH_O, NULL},
    {"to_legacy_capsule", to_legacy_capsule, METH_O, NULL},
    {"to_exchange", to_exchange, METH_O, NULL},
    {"to_torch_shims", to_torch_shims, METH_O, NULL},
    {"to_numpy", to_numpy, METH_O, NULL},
    {"vector_to_capsule", vector_to_capsule, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
