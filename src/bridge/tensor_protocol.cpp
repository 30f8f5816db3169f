// The protocols of a bound class whose instances have a tensor: each is forwarded to the isthmus.Tensor of it.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/tensor_protocol.h>

#include <span>
#include <string_view>

#include "runtime/errors.h"
#include "runtime/names.h"

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
template <int i>
PyObject* forward_attribute(PyObject* self, PyObject*) noexcept {
    const Ref tensor = tensor_of(self);
    return tensor ? PyObject_GetAttrString(tensor.get(), i == 0 ? "__array_interface__" : "__cuda_array_interface__")
                  : nullptr;
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

/// A method as generators of stubs read it: nanobind's takes `__nb_signature__`, pybind11-stubgen the first line of the
/// docstring. Of a method descriptor the first says a type without parameters.
struct Method {
    PyMethodDef definition;
    const char* signature;
};
struct MethodObject {
    PyObject_HEAD Method* method;
};
Method& method_of(PyObject* self) noexcept { return *reinterpret_cast<MethodObject*>(self)->method; }

PyObject* bind_method(PyObject* self, PyObject* instance, PyObject*) noexcept {
    return instance == nullptr ? Py_NewRef(self) : PyCFunction_New(&method_of(self).definition, instance);
}
/// `Grid.__array__(grid)`.
PyObject* call_method(PyObject* self, PyObject* arguments, PyObject* keywords) noexcept {
    if (PyTuple_GET_SIZE(arguments) == 0)
        return PyErr_Format(PyExc_TypeError, "%s() needs an instance", method_of(self).definition.ml_name);
    const Ref bound(bind_method(self, PyTuple_GET_ITEM(arguments, 0), nullptr));
    const Ref rest(bound ? PyTuple_GetSlice(arguments, 1, PyTuple_GET_SIZE(arguments)) : nullptr);
    return rest ? PyObject_Call(bound.get(), rest.get(), keywords) : nullptr;
}
PyObject* text_of_method(PyObject* self, void* which) noexcept {
    const auto& [definition, signature] = method_of(self);
    const std::string_view asked = static_cast<const char*>(which);
    if (asked == "__name__") return PyUnicode_FromString(definition.ml_name);
    return PyUnicode_FromString(asked == "__doc__" ? definition.ml_doc : signature);
}
PyObject* itself(PyObject* self, void*) noexcept { return Py_NewRef(self); }
void end_method(PyObject* self) noexcept {
    const Ref type(reinterpret_cast<PyObject*>(Py_TYPE(self)));
    PyObject_Free(self);
}
PyObject* get_attribute(PyObject* self, PyObject* instance, PyObject*) noexcept {
    return instance == nullptr ? Py_NewRef(self) : method_of(self).definition.ml_meth(instance, nullptr);
}
int refuse_attribute(PyObject* self, PyObject*, PyObject*) noexcept {
    return PyErr_Format(PyExc_AttributeError, "'%s' is read-only", method_of(self).definition.ml_name), -1;
}

/// The class of the methods, or of the attributes, of one bound class: an interpreter that starts again finds nothing
/// of the last one. Its name is what a generator writes that does not know `__nb_signature__`.
Ref make_descriptors(bool methods) noexcept {
    static char name[] = "__name__", doc[] = "__doc__", signature[] = "__nb_signature__", fget[] = "fget";
    static PyGetSetDef texts[] = {{name, text_of_method, nullptr, nullptr, name},
                                  {doc, text_of_method, nullptr, nullptr, doc},
                                  {signature, text_of_method, nullptr, nullptr, signature},
                                  {}};
    static PyGetSetDef texts_and_getter[] = {
        texts[0], texts[1], texts[2], {fget, itself, nullptr, nullptr, nullptr}, {}};
    static PyType_Slot type_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(end_method)},
                                       {Py_tp_descr_get, reinterpret_cast<void*>(bind_method)},
                                       {Py_tp_call, reinterpret_cast<void*>(call_method)},
                                       {Py_tp_getset, texts},
                                       {0, nullptr}};
    static PyType_Slot attribute_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(end_method)},
                                            {Py_tp_descr_get, reinterpret_cast<void*>(get_attribute)},
                                            {Py_tp_descr_set, reinterpret_cast<void*>(refuse_attribute)},
                                            {Py_tp_getset, texts_and_getter},
                                            {0, nullptr}};
    constexpr unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    static PyType_Spec spec{"types.MethodDescriptorType", sizeof(MethodObject), 0, flags, type_slots};
    static PyType_Spec attribute_spec{"types.GetSetDescriptorType", sizeof(MethodObject), 0, flags, attribute_slots};
    return Ref(reinterpret_cast<PyObject*>(make_class(methods ? spec : attribute_spec)));
}
bool add_all(PyObject* type, std::span<Method> methods, const Ref& descriptors) noexcept {
    for (Method& method : methods) {
        auto* const made = descriptors ? PyObject_New(MethodObject, as_type(descriptors)) : nullptr;
        if (made == nullptr) return false;
        made->method = &method;
        if (!add(type, method.definition.ml_name, reinterpret_cast<PyObject*>(made))) return false;
    }
    return true;
}

}  // namespace

bool add_method(PyObject* type, PyMethodDef* method) noexcept {
    return add(type, method->ml_name, PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(type), method));
}
bool add_tensor_protocol(PyObject* type) noexcept {
    constexpr int any = METH_VARARGS | METH_KEYWORDS;
#define ISTHMUS_OPTIONS                                                                        \
    "(self, *, stream: object = None, max_version: tuple[int, int] | None = None, dl_device: " \
    "tuple[int, int] | None = None, copy: bool | None = None) -> isthmus.typing.Capsule"
    static Method methods[] = {
        {{forwarded[0], forwarder<0>(), any, "__dlpack__" ISTHMUS_OPTIONS "\n\nDLPack, as of isthmus.Tensor."},
         "def __dlpack__" ISTHMUS_OPTIONS ": ..."},
        {{forwarded[1], forwarder<1>(), any,
          "__dlpack_device__(self) -> tuple[int, int]\n\nDLPack's (device type, index)."},
         "def __dlpack_device__(self) -> tuple[int, int]: ..."},
        {{forwarded[2], forwarder<2>(), any,
          "__array__(self, dtype: object = None, copy: bool | None = None) -> numpy.ndarray\n\n"
          "A numpy.ndarray over the same memory."},
         "def __array__(self, dtype: object = None, copy: bool | None = None) -> isthmus.typing.NumpyArray: ..."},
        {{"__buffer__", forward_buffer, METH_O,
          "__buffer__(self, flags: int, /) -> memoryview\n\nA memoryview over the same memory."},
         "def __buffer__(self, flags: int, /) -> memoryview: ..."},
    };
#undef ISTHMUS_OPTIONS
    static Method attributes[] = {
        {{"__array_interface__", forward_attribute<0>, METH_NOARGS,
          "(self) -> dict[str, object]\n\nNumPy's array interface, version 3."},
         "@property\ndef __array_interface__(self) -> dict[str, object]: ..."},
        {{"__cuda_array_interface__", forward_attribute<1>, METH_NOARGS,
          "(self) -> dict[str, object]\n\nThe CUDA array interface, version 3."},
         "@property\ndef __cuda_array_interface__(self) -> dict[str, object]: ..."},
    };
    if (!add_all(type, methods, make_descriptors(true)) || !add_all(type, attributes, make_descriptors(false)))
        return false;
    auto* heap = reinterpret_cast<PyTypeObject*>(type);
    // Python before 3.12 makes no buffer of __buffer__.
    reinterpret_cast<PyHeapTypeObject*>(type)->as_buffer.bf_getbuffer = get_buffer;
    heap->tp_as_buffer = &reinterpret_cast<PyHeapTypeObject*>(type)->as_buffer;
    PyType_Modified(heap);
    return true;
}

}  // namespace detail

ISTHMUS_END
