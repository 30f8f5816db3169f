// SPDX-License-Identifier: Apache-2.0
// torch.Tensor in C: by the exchange API, which asks nothing, and by libtorch's stable C shims with the questions that
// a safe import must ask: layout, device, dtype, negative or conjugate bit, requires_grad, sizes, strides, address. The
// least that these questions cost is over the handle that lies inside the PyObject itself, behind its head.
#define _GNU_SOURCE
#include <dlfcn.h>

#include "floor.h"

typedef void* Handle;
static struct {
    int (*from_pyobject)(void*, Handle*);
    int (*to_pyobject)(Handle, void*, void**);
    int (*delete_handle)(Handle);
    int (*get_dim)(Handle, int64_t*);
    int (*get_sizes)(Handle, int64_t**);
    int (*get_strides)(Handle, int64_t**);
    int (*get_dtype)(Handle, int32_t*);
    int (*get_layout)(Handle, int32_t*);
    int (*get_device_type)(Handle, int32_t*);
    int (*get_mutable_data_ptr)(Handle, void**);
    _Bool (*is_neg)(Handle);
    _Bool (*is_conj)(Handle);
    _Bool (*requires_grad)(void*);
    int32_t strided, cpu, float32;
} shim;

int (*floor_torch_from_blob)(void*, int64_t, const int64_t*, const int64_t*, int64_t, int32_t, int32_t, int32_t,
                             Handle*, int32_t, const uint8_t*, int64_t, void (*)(void*, void*), void*);
int (*floor_torch_to_pyobject)(Handle, void*, void**);
int (*floor_torch_delete)(Handle);
int32_t floor_torch_float32, floor_torch_cpu, floor_torch_strided;
const DLPackExchangeAPI* floor_api;
static PyTypeObject* api_type;

static int32_t constant(void* lib, const char* name) {
    int32_t (*get)(void) = (int32_t (*)(void))dlsym(lib, name);
    return get != NULL ? get() : -1;
}

// Finds the shims in the libtorch that is loaded; False where it has none.
static PyObject* load_shims(PyObject* self, PyObject* none) {
    (void)self, (void)none;
    void* lib = dlopen("libtorch_cpu.so", RTLD_NOLOAD | RTLD_LAZY);
    void* c10 = dlopen("libc10.so", RTLD_NOLOAD | RTLD_LAZY);
    if (lib == NULL || c10 == NULL) Py_RETURN_FALSE;
#define FIND(slot, library, name) *(void**)&(slot) = dlsym(library, name)
    FIND(shim.from_pyobject, lib, "torch_tensor_from_pyobject");
    FIND(shim.to_pyobject, lib, "torch_tensor_to_pyobject");
    FIND(shim.delete_handle, lib, "aoti_torch_delete_tensor_object");
    FIND(shim.get_dim, lib, "aoti_torch_get_dim");
    FIND(shim.get_sizes, lib, "aoti_torch_get_sizes");
    FIND(shim.get_strides, lib, "aoti_torch_get_strides");
    FIND(shim.get_dtype, lib, "aoti_torch_get_dtype");
    FIND(shim.get_layout, lib, "aoti_torch_get_layout");
    FIND(shim.get_device_type, lib, "aoti_torch_get_device_type");
    FIND(shim.get_mutable_data_ptr, lib, "torch_get_mutable_data_ptr");
    FIND(shim.is_neg, lib, "_ZN2at6native6is_negERKNS_6TensorE");
    FIND(shim.is_conj, lib, "_ZN2at6native7is_conjERKNS_6TensorE");
    FIND(shim.requires_grad, c10, "_ZNK3c1010TensorImpl13requires_gradEv");
    FIND(floor_torch_from_blob, lib, "torch_from_blob");
    floor_torch_to_pyobject = shim.to_pyobject;
    floor_torch_delete = shim.delete_handle;
    floor_torch_strided = shim.strided = constant(lib, "aoti_torch_layout_strided");
    floor_torch_cpu = shim.cpu = constant(lib, "aoti_torch_device_type_cpu");
    floor_torch_float32 = shim.float32 = constant(lib, "aoti_torch_dtype_float32");
    return PyBool_FromLong(shim.from_pyobject != NULL && shim.to_pyobject != NULL && shim.is_neg != NULL &&
                           shim.is_conj != NULL && shim.requires_grad != NULL && floor_torch_from_blob != NULL);
}

// Takes the exchange table of a type; False where it has none.
static PyObject* load_exchange(PyObject* self, PyObject* type) {
    (void)self;
    PyObject* capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    PyErr_Clear();
    if (capsule == NULL) Py_RETURN_FALSE;
    floor_api = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    Py_DECREF(capsule);
    if (floor_api == NULL) return NULL;
    api_type = (PyTypeObject*)type;
    Py_RETURN_TRUE;
}

static PyObject* refuse(const char* why) {
    PyErr_SetString(PyExc_TypeError, why);
    return NULL;
}

static PyObject* borrow_exchange(PyObject* self, PyObject* x) {
    (void)self;
    DLTensor t;
    if (Py_TYPE(x) != api_type) return refuse("another type");
    if (floor_api->dltensor_from_py_object_no_sync(x, &t) != 0) return NULL;
    floor_sink = t.data;
    Py_RETURN_NONE;
}

static PyObject* own_exchange(PyObject* self, PyObject* x) {
    (void)self;
    DLManagedTensorVersioned* managed = NULL;
    if (Py_TYPE(x) != api_type) return refuse("another type");
    if (floor_api->managed_tensor_from_py_object_no_sync(x, &managed) != 0) return NULL;
    floor_sink = managed->dl_tensor.data;
    managed->deleter(managed);
    Py_RETURN_NONE;
}

static int ask_handle(Handle handle, DLTensor* t) {
    int32_t layout, dtype, device;
    int64_t ndim;
    if (shim.get_layout(handle, &layout) != 0 || layout != shim.strided) return -1;
    if (shim.get_device_type(handle, &device) != 0 || device != shim.cpu) return -1;
    if (shim.get_dtype(handle, &dtype) != 0 || dtype != shim.float32) return -1;
    if (shim.is_neg(handle) || shim.requires_grad(*(void**)handle)) return -1;
    if (shim.get_dim(handle, &ndim) != 0 || shim.get_sizes(handle, &t->shape) != 0 ||
        shim.get_strides(handle, &t->strides) != 0 || shim.get_mutable_data_ptr(handle, &t->data) != 0)
        return -1;
    t->ndim = (int32_t)ndim;
    t->dtype = (DLDataType){kDLFloat, 32, 1};
    t->device = (DLDevice){kDLCPU, 0};
    t->byte_offset = 0;
    return 0;
}

// 0, or -1 with the handle released.
static int ask(PyObject* x, Handle* handle, DLTensor* t) {
    if (shim.from_pyobject(x, handle) != 0) return -1;
    if (ask_handle(*handle, t) == 0) return 0;
    shim.delete_handle(*handle);
    return -1;
}

static int ask_inside(PyObject* x, DLTensor* t) {
    if (Py_TYPE(x) != api_type) return -1;
    return ask_handle((char*)x + sizeof(PyObject), t);
}

static PyObject* borrow_inside(PyObject* self, PyObject* x) {
    (void)self;
    DLTensor t;
    if (ask_inside(x, &t) != 0) return refuse("not a plain float32 tensor");
    floor_sink = t.data;
    Py_RETURN_NONE;
}

static PyObject* own_inside(PyObject* self, PyObject* x) {
    (void)self;
    DLTensor t;
    if (ask_inside(x, &t) != 0) return refuse("not a plain float32 tensor");
    Py_INCREF(x);
    Owned* owned = floor_own(&t, x);
    floor_sink = owned;
    Py_DECREF((PyObject*)owned->owner);
    free(owned);
    Py_RETURN_NONE;
}

static PyObject* kernel_inside(PyObject* self, PyObject* const* args, Py_ssize_t n) {
    (void)self;
    DLTensor t[3];
    for (int i = 0; i < 3 && i < n; ++i) {
        if (ask_inside(args[i], &t[i]) != 0) return refuse("not a plain float32 tensor");
        floor_sink = t[i].data;
    }
    Py_RETURN_NONE;
}

static PyObject* round_trip_inside(PyObject* self, PyObject* x) {
    (void)self;
    DLTensor t;
    if (ask_inside(x, &t) != 0) return refuse("not a plain float32 tensor");
    floor_sink = t.data;
    Py_INCREF(x);
    return x;
}

static PyObject* borrow_shims(PyObject* self, PyObject* x) {
    (void)self;
    Handle handle;
    DLTensor t;
    if (ask(x, &handle, &t) != 0) return refuse("not a plain float32 tensor");
    floor_sink = t.data;
    shim.delete_handle(handle);
    Py_RETURN_NONE;
}

static PyObject* own_shims(PyObject* self, PyObject* x) {
    (void)self;
    Handle handle;
    DLTensor t;
    if (ask(x, &handle, &t) != 0) return refuse("not a plain float32 tensor");
    Owned* owned = floor_own(&t, handle);
    floor_sink = owned;
    shim.delete_handle(owned->owner);
    free(owned);
    Py_RETURN_NONE;
}

static PyObject* kernel_shims(PyObject* self, PyObject* const* args, Py_ssize_t n) {
    (void)self;
    Handle handles[3];
    DLTensor t[3];
    if (n != 3) return refuse("three arguments");
    for (int i = 0; i < 3; ++i)
        if (ask(args[i], &handles[i], &t[i]) != 0) return refuse("not a plain float32 tensor");
    for (int i = 0; i < 3; ++i) {
        floor_sink = t[i].data;
        shim.delete_handle(handles[i]);
    }
    Py_RETURN_NONE;
}

static PyObject* round_trip_shims(PyObject* self, PyObject* x) {
    (void)self;
    Handle handle;
    DLTensor t;
    void* same = NULL;
    if (ask(x, &handle, &t) != 0) return refuse("not a plain float32 tensor");
    floor_sink = t.data;
    shim.to_pyobject(handle, NULL, &same);
    shim.delete_handle(handle);
    return same;
}

PyMethodDef floor_in_torch[] = {
    {"load_shims", load_shims, METH_NOARGS, NULL},
    {"load_exchange", load_exchange, METH_O, NULL},
    {"borrow_exchange", borrow_exchange, METH_O, NULL},
    {"own_exchange", own_exchange, METH_O, NULL},
    {"borrow_shims", borrow_shims, METH_O, NULL},
    {"own_shims", own_shims, METH_O, NULL},
    {"kernel_shims", (PyCFunction)(void (*)(void))kernel_shims, METH_FASTCALL, NULL},
    {"borrow_inside", borrow_inside, METH_O, NULL},
    {"own_inside", own_inside, METH_O, NULL},
    {"kernel_inside", (PyCFunction)(void (*)(void))kernel_inside, METH_FASTCALL, NULL},
    {"round_trip_inside", round_trip_inside, METH_O, NULL},
    {"round_trip_shims", round_trip_shims, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
