// SPDX-License-Identifier: Apache-2.0
// Producers that only C++ can make: buffers with any field, and deleters that misbehave.
#include "ext.h"

#include <vector>

namespace ext {
namespace {

/// Exports a Py_buffer filled as its keywords say, sound or not.
struct Exporter {
    PyObject_HEAD char* memory;
    std::vector<Py_ssize_t>*shape, *strides, *suboffsets;
    std::string* format;
    Py_ssize_t length, itemsize, offset;
    int ndim, readonly, null_data, fail;
    Py_ssize_t alive, released;
};

constexpr std::size_t memory_size = 4096;

bool read_list(PyObject* object, std::vector<Py_ssize_t>*& out) {
    if (object == Py_None) return true;
    isthmus::Ref fast(PySequence_Fast(object, "expected a sequence of integers"));
    if (!fast) return false;
    out = new std::vector<Py_ssize_t>;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
        out->push_back(PyLong_AsSsize_t(PySequence_Fast_GET_ITEM(fast.get(), i)));
    return PyErr_Occurred() == nullptr;
}

PyObject* exporter_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"format", "itemsize", "ndim",      "shape", "strides", "suboffsets",
                                  "length", "readonly", "null_data", "fail",  "offset",  nullptr};
    PyObject *shape = Py_None, *strides = Py_None, *suboffsets = Py_None;
    const char* format = "f";
    Py_ssize_t itemsize = 4, length = 64, offset = 0;
    int ndim = 1, readonly = 0, null_data = 0, fail = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$zniOOOnpppn", const_cast<char**>(names), &format, &itemsize,
                                     &ndim, &shape, &strides, &suboffsets, &length, &readonly, &null_data, &fail,
                                     &offset))
        return nullptr;
    auto* self = reinterpret_cast<Exporter*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->memory = static_cast<char*>(std::aligned_alloc(64, memory_size));
    for (std::size_t i = 0; i < memory_size; ++i) self->memory[i] = static_cast<char>(i);
    self->itemsize = itemsize;
    self->length = length;
    self->offset = offset;
    self->ndim = ndim;
    self->readonly = readonly;
    self->null_data = null_data;
    self->fail = fail;
    if (format != nullptr) self->format = new std::string(format);
    if (read_list(shape, self->shape) && read_list(strides, self->strides) && read_list(suboffsets, self->suboffsets))
        return reinterpret_cast<PyObject*>(self);
    Py_DECREF(self);
    return nullptr;
}

void exporter_dealloc(PyObject* object) {
    auto* self = reinterpret_cast<Exporter*>(object);
    std::free(self->memory);
    delete self->shape;
    delete self->strides;
    delete self->suboffsets;
    delete self->format;
    PyTypeObject* type = Py_TYPE(object);
    type->tp_free(object);
    Py_DECREF(type);
}

int exporter_get(PyObject* object, Py_buffer* view, int) {
    auto* self = reinterpret_cast<Exporter*>(object);
    if (self->fail) {
        view->obj = nullptr;
        PyErr_SetString(PyExc_BufferError, "no buffer today");
        return -1;
    }
    const auto data = [](std::vector<Py_ssize_t>* list) { return list != nullptr ? list->data() : nullptr; };
    view->buf = self->null_data ? nullptr : self->memory + self->offset;
    view->obj = object;
    Py_INCREF(object);
    view->len = self->length;
    view->itemsize = self->itemsize;
    view->readonly = self->readonly;
    view->ndim = self->ndim;
    view->format = self->format != nullptr ? self->format->data() : nullptr;
    view->shape = data(self->shape);
    view->strides = data(self->strides);
    view->suboffsets = data(self->suboffsets);
    view->internal = nullptr;
    self->alive += 1;
    return 0;
}

void exporter_release(PyObject* object, Py_buffer*) {
    auto* self = reinterpret_cast<Exporter*>(object);
    self->alive -= 1;
    self->released += 1;
}

PyObject* exporter_alive(PyObject* object, void*) {
    return PyLong_FromSsize_t(reinterpret_cast<Exporter*>(object)->alive);
}
PyObject* exporter_address(PyObject* object, void*) {
    return PyLong_FromVoidPtr(reinterpret_cast<Exporter*>(object)->memory);
}

PyGetSetDef exporter_attributes[] = {
    {"alive", exporter_alive, nullptr, "buffers handed out and not yet released", nullptr},
    {"address", exporter_address, nullptr, "address of the memory", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

PyType_Slot exporter_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(exporter_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(exporter_dealloc)},
    {Py_tp_getset, exporter_attributes},
    {Py_bf_getbuffer, reinterpret_cast<void*>(exporter_get)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(exporter_release)},
    {0, nullptr},
};
PyType_Spec exporter_spec{"isthmus_test_ext.Exporter", sizeof(Exporter), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                          exporter_slots};

/// A legacy or versioned capsule of three floats, whose deleter does what it must not.
enum class Misdeed { none, throws, throws_int, sets_exception };
long deleter_calls = 0;

template <class Managed>
struct Bad {
    Managed managed;
    std::int64_t shape[1];
    float data[4];
    Misdeed misdeed;
};

template <class Managed>
void bad_deleter(Managed* managed) {
    auto* self = reinterpret_cast<Bad<Managed>*>(managed);
    const Misdeed misdeed = self->misdeed;
    deleter_calls += 1;
    std::free(self);
    if (misdeed == Misdeed::throws) throw std::bad_alloc();
    if (misdeed == Misdeed::throws_int) throw 7;
    if (misdeed == Misdeed::sets_exception) {
        const PyGILState_STATE state = PyGILState_Ensure();
        PyErr_SetString(PyExc_RuntimeError, "left behind by a deleter");
        PyGILState_Release(state);
    }
}

template <class Managed>
PyObject* make_bad(Misdeed misdeed, const char* name) {
    auto* bad = static_cast<Bad<Managed>*>(std::calloc(1, sizeof(Bad<Managed>)));
    bad->misdeed = misdeed;
    bad->shape[0] = 3;
    bad->managed.dl_tensor =
        DLTensor{bad->data, DLDevice{kDLCPU, 0}, 1, DLDataType{kDLFloat, 32, 1}, bad->shape, nullptr, 0};
    bad->managed.manager_ctx = bad;
    bad->managed.deleter = bad_deleter<Managed>;
    if constexpr (requires { bad->managed.version; }) bad->managed.version = DLPackVersion{1, 0};
    return PyCapsule_New(&bad->managed, name, nullptr);
}

/// capsule_with_deleter(misdeed, versioned)
PyObject* capsule_with_deleter(PyObject*, PyObject* args) {
    const char* name = nullptr;
    int versioned = 0;
    if (!PyArg_ParseTuple(args, "sp", &name, &versioned)) return nullptr;
    const std::string_view wanted = name;
    const Misdeed misdeed = wanted == "throws"           ? Misdeed::throws
                            : wanted == "throws_int"     ? Misdeed::throws_int
                            : wanted == "sets_exception" ? Misdeed::sets_exception
                                                         : Misdeed::none;
    return versioned ? make_bad<DLManagedTensorVersioned>(misdeed, "dltensor_versioned")
                     : make_bad<DLManagedTensor>(misdeed, "dltensor");
}

/// What the one exchange API of this file does when it is asked.
struct ApiConduct {
    int status = 0;
    PyObject* exception = nullptr;
    void* managed = nullptr;
} conduct;

int api_from_py(void*, DLManagedTensorVersioned** out) {
    if (conduct.managed != nullptr) *out = static_cast<DLManagedTensorVersioned*>(conduct.managed);
    if (conduct.exception != nullptr) PyErr_SetString(conduct.exception, "not today");
    return conduct.status;
}

/// api_capsule(status, exception type or None, address of a managed tensor or 0): one API, which does this from now on.
PyObject* api_capsule(PyObject*, PyObject* args) {
    PyObject *exception = nullptr, *address = nullptr;
    if (!PyArg_ParseTuple(args, "iOO", &conduct.status, &exception, &address)) return nullptr;
    conduct.managed = PyLong_AsVoidPtr(address);
    Py_XDECREF(conduct.exception);
    conduct.exception = exception == Py_None ? nullptr : exception;
    Py_XINCREF(conduct.exception);
    static DLPackExchangeAPI api{};
    api.header.version = DLPackVersion{1, 3};
    api.managed_tensor_from_py_object_no_sync = api_from_py;
    return PyErr_Occurred() ? nullptr : PyCapsule_New(&api, "dlpack_exchange_api", nullptr);
}

/// For an ArrowArrayStream whose functions leave a Python exception.
int get_next_that_raises(void*, void*) {
    PyErr_SetString(PyExc_OSError, "the disk is gone");
    return 5;
}
PyObject* address_of_get_next(PyObject*, PyObject*) {
    return PyLong_FromVoidPtr(reinterpret_cast<void*>(get_next_that_raises));
}

/// Has `__dlpack__`, which its instances neither give nor say why not.
PyObject* give_nothing(PyObject*, PyObject*) { return nullptr; }
PyMethodDef silent_methods[] = {{"__dlpack__", give_nothing, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyType_Slot silent_slots[] = {
    {Py_tp_getattro, reinterpret_cast<void*>(give_nothing)}, {Py_tp_methods, silent_methods}, {0, nullptr}};
PyType_Spec silent_spec{"isthmus_test_ext.Silent", sizeof(PyObject), 0, Py_TPFLAGS_DEFAULT, silent_slots};

PyObject* count_deleter_calls(PyObject*, PyObject*) { return PyLong_FromLong(deleter_calls); }

}  // namespace

bool add_exporter(PyObject* module) {
    PyObject* type = PyType_FromSpec(&exporter_spec);
    PyObject* silent = PyType_FromSpec(&silent_spec);
    return type != nullptr && silent != nullptr && PyModule_AddObject(module, "Exporter", type) == 0 &&
           PyModule_AddObject(module, "Silent", silent) == 0;
}

PyMethodDef producer_methods[] = {
    {"capsule_with_deleter", capsule_with_deleter, METH_VARARGS, "a capsule of three floats whose deleter misbehaves"},
    {"api_capsule", api_capsule, METH_VARARGS, "an exchange API that does as it is told"},
    {"get_next_that_raises", address_of_get_next, METH_NOARGS, "address of a get_next that leaves an exception"},
    {"deleter_calls", count_deleter_calls, METH_NOARGS, "how often those deleters ran"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
