// The protocols of a bound class whose instances have a tensor: each is forwarded to the isthmus.Tensor of it.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/tensor_protocol.h>

#include "runtime/errors.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

/// The isthmus.Tensor of an instance, which keeps the instance unless it keeps its memory itself.
Ref tensor_of(PyObject* self) noexcept {
    const Ref made(PyObject_CallMethod(self, "__isthmus_tensor__", nullptr));
    if (!made) return {};
    const Result<Tensor> tensor = from_py(made.get(), {.argument = "__isthmus_tensor__()"});
    if (!tensor) return raise_in_call(tensor.error()), Ref();
    return Ref(to_result(*tensor, Framework::tensor, self));
}

constexpr const char* forwarded[] = {"__dlpack__", "__dlpack_device__", "__array__"};
template <int i>
PyObject* forward(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
    const Ref tensor = tensor_of(self);
    const Ref method(tensor ? PyObject_GetAttrString(tensor.get(), forwarded[i]) : nullptr);
    return method ? PyObject_Call(method.get(), arguments, keywords) : nullptr;
}
template <int i>
PyCFunction forwarder() noexcept {
    return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(forward<i>));
}
PyObject* forward_buffer(PyObject* self, PyObject*) noexcept {
    const Ref tensor = tensor_of(self);
    return tensor ? PyMemoryView_FromObject(tensor.get()) : nullptr;
}
PyObject* forward_attribute(PyObject* self, void* name) noexcept {
    const Ref tensor = tensor_of(self);
    return tensor ? PyObject_GetAttrString(tensor.get(), static_cast<const char*>(name)) : nullptr;
}
int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
    view->obj = nullptr;
    const Ref tensor = tensor_of(self);
    return tensor ? PyObject_GetBuffer(tensor.get(), view, flags) : -1;
}

bool add(PyObject* type, const char* name, PyObject* descriptor) noexcept {
    const Ref made(descriptor);
    return made && PyObject_SetAttrString(type, name, made.get()) == 0;
}

}  // namespace

bool add_method(PyObject* type, PyMethodDef* method) noexcept {
    return add(type, method->ml_name, PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type), method));
}
bool add_tensor_protocol(PyObject* type) noexcept {
    static PyMethodDef methods[] = {
        {forwarded[0], forwarder<0>(), METH_VARARGS | METH_KEYWORDS, "DLPack, as of isthmus.Tensor."},
        {forwarded[1], forwarder<1>(), METH_VARARGS | METH_KEYWORDS, "DLPack's (device type, index)."},
        {forwarded[2], forwarder<2>(), METH_VARARGS | METH_KEYWORDS, "A numpy.ndarray over the same memory."},
        {"__buffer__", forward_buffer, METH_O, "A memoryview over the same memory."},
    };
    static char host[] = "__array_interface__", cuda[] = "__cuda_array_interface__";
    static PyGetSetDef attributes[] = {
        {host, forward_attribute, nullptr, "NumPy's array interface, version 3.", host},
        {cuda, forward_attribute, nullptr, "The CUDA array interface, version 3.", cuda},
    };
    for (PyMethodDef& method : methods)
        if (!add_method(type, &method)) return false;
    auto* cls = reinterpret_cast<PyTypeObject*>(type);
    for (PyGetSetDef& attribute : attributes)
        if (!add(type, attribute.name, PyDescr_NewGetSet(cls, &attribute))) return false;
    // Python before 3.12 makes no buffer of __buffer__.
    reinterpret_cast<PyHeapTypeObject*>(type)->as_buffer.bf_getbuffer = get_buffer;
    cls->tp_as_buffer = &reinterpret_cast<PyHeapTypeObject*>(type)->as_buffer;
    PyType_Modified(cls);
    return true;
}

}  // namespace detail

ISTHMUS_END
