// SPDX-License-Identifier: Apache-2.0
// A type of C code that holds a Tensor, and shows the collector what keeps it.
#include "ext.h"

namespace ext {
namespace {

struct Holder {
    PyObject_HEAD isthmus::Tensor tensor;
};

PyObject* holder_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject* object = nullptr;
    if (!PyArg_ParseTuple(args, "O", &object)) return nullptr;
    auto tensor = isthmus::from_py(object);
    if (!tensor) return raise(tensor.error());
    PyObject* self = type->tp_alloc(type, 0);
    if (self != nullptr) ::new (&reinterpret_cast<Holder*>(self)->tensor) isthmus::Tensor(std::move(*tensor));
    return self;
}
isthmus::Tensor& tensor_of(PyObject* self) { return reinterpret_cast<Holder*>(self)->tensor; }
int holder_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    return isthmus::traverse(tensor_of(self), visit, arg);
}
int holder_clear(PyObject* self) {
    tensor_of(self) = {};
    return 0;
}
void holder_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    tensor_of(self).~Tensor();
    type->tp_free(self);
    Py_DECREF(type);
}
/// Another holder of the same handle.
PyObject* holder_share(PyObject* self, PyObject*) {
    PyObject* made = Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0);
    if (made != nullptr) ::new (&reinterpret_cast<Holder*>(made)->tensor) isthmus::Tensor(tensor_of(self));
    return made;
}
PyObject* holder_tensor(PyObject* self, PyObject*) {
    auto made = isthmus::to_py(tensor_of(self));
    return made ? *made : raise(made.error());
}
/// A holder of a view of the tensor.
PyObject* holder_part(PyObject* self, PyObject*) {
    return with_memory([&]() -> PyObject* {
        PyObject* made = Py_TYPE(self)->tp_alloc(Py_TYPE(self), 0);
        if (made != nullptr)
            ::new (&reinterpret_cast<Holder*>(made)->tensor) isthmus::Tensor(tensor_of(self).slice(0, 0, 1));
        return made;
    });
}

PyMethodDef holder_methods[] = {{"share", holder_share, METH_NOARGS, nullptr},
                                {"part", holder_part, METH_NOARGS, nullptr},
                                {"tensor", holder_tensor, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
PyType_Slot holder_slots[] = {{Py_tp_new, reinterpret_cast<void*>(holder_new)},
                              {Py_tp_traverse, reinterpret_cast<void*>(holder_traverse)},
                              {Py_tp_clear, reinterpret_cast<void*>(holder_clear)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(holder_dealloc)},
                              {Py_tp_methods, holder_methods},
                              {0, nullptr}};
PyType_Spec holder_spec{"isthmus_test_ext.Holder", sizeof(Holder), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
                        holder_slots};

}  // namespace

bool add_holder(PyObject* module) {
    PyObject* type = PyType_FromSpec(&holder_spec);
    return type != nullptr && PyModule_AddObject(module, "Holder", type) == 0;
}

}  // namespace ext
