// SPDX-License-Identifier: Apache-2.0
// What a Borrowed still says after it was moved, and after the memory that it was moved from is gone.
#include <isthmus/python/arguments.h>

#include <optional>
#include <string_view>
#include <vector>

#include "../support/module.h"
#include "ext.h"

namespace ext {
namespace {

using isthmus::Borrowed;
using isthmus::View;

/// Overwrites the part of the stack that calls made before have left.
[[gnu::noinline]] void overwrite_stack() {
    volatile unsigned char frame[16384];
    for (auto& byte : frame) byte = 0xee;
}

/// Memory for one object, overwritten when the object has gone.
template <class T>
class Place {
public:
    template <class F>
    explicit Place(F&& make) : object_(::new (bytes_) T(make())) {}
    ~Place() { end(); }
    Place(const Place&) = delete;
    T& operator*() { return *object_; }
    void end() {
        if (object_ == nullptr) return;
        object_->~T();
        object_ = nullptr;
        volatile unsigned char* byte = bytes_;
        for (std::size_t i = 0; i < sizeof bytes_; ++i) byte[i] = 0xee;
    }

private:
    alignas(T) unsigned char bytes_[sizeof(T)];
    T* object_;
};

PyObject* both(const Borrowed& borrowed) {
    isthmus::Ref told(info(borrowed)), bytes(told ? elements(borrowed) : nullptr);
    return bytes ? PyTuple_Pack(2, told.get(), bytes.get()) : nullptr;
}

/// moved(x, how): the dict and the elements of borrow_py(x), moved in one of the ways that C++ has.
PyObject* moved(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    const char* name = nullptr;
    if (!PyArg_ParseTuple(args, "Os", &object, &name)) return nullptr;
    const std::string_view how = name;
    Place<isthmus::Result<Borrowed>> result([&] { return isthmus::borrow_py(object); });
    if (!*result) return raise((*result).error());
    if (how == "constructed") {
        Borrowed to = std::move(**result);
        result.end();
        return both(to);
    }
    if (how == "assigned") {
        Borrowed to;
        to = std::move(**result);
        result.end();
        return both(to);
    }
    if (how == "assigned over another") {
        auto other = isthmus::borrow_py(object);
        if (!other) return raise(other.error());
        *other = std::move(**result);
        result.end();
        return both(*other);
    }
    if (how == "twice") {
        Place<Borrowed> first([&] { return std::move(**result); });
        result.end();
        Borrowed second = std::move(*first);
        first.end();
        return both(second);
    }
    if (how == "with its result") {
        isthmus::Result<Borrowed> to = std::move(*result);
        result.end();
        return both(*to);
    }
    if (how == "by value()") {
        Borrowed to = std::move(*result).value();
        result.end();
        return both(to);
    }
    if (how == "into a growing vector") {
        std::vector<Borrowed> all;
        all.push_back(std::move(**result));
        result.end();
        all.resize(5);
        overwrite_stack();
        return both(all.front());
    }
    if (how == "into an optional") {
        std::optional<Borrowed> to(std::move(**result));
        result.end();
        return both(*to);
    }
    return PyErr_Format(PyExc_ValueError, "no way to move '%s'", name);
}

/// The shape that a typed view of a moved Borrowed has.
PyObject* moved_view(PyObject*, PyObject* object) {
    Place<isthmus::Result<Borrowed>> result([&] { return isthmus::borrow_py(object); });
    if (!*result) return raise((*result).error());
    Borrowed to = std::move(**result);
    result.end();
    const auto view = to.view<const std::uint8_t, isthmus::dynamic_rank>();
    return view ? int_tuple(view->shape()) : raise(view.error());
}

// In a frame of its own, so that what the call leaves behind can be overwritten.
template <class T>
[[gnu::noinline]] bool parse(isthmus::Arguments<T>& in, PyObject* const* args, Py_ssize_t nargs) {
    return in.parse(args, nargs);
}

/// An argument of a function is moved on its way to its place: as Borrowed, as a view, as an optional of each.
template <class T>
PyObject* shape_of_argument(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    isthmus::Arguments<T> in("shape_of_argument", {"x"});
    if (!parse(in, args, nargs)) return nullptr;
    overwrite_stack();
    auto& x = in.template get<0>();
    if constexpr (requires { x->shape(); })
        return int_tuple(x->shape());
    else
        return int_tuple(x.shape());
}

/// after(x, f): the dict and the elements of borrow_py(x) after f() was called while it was held.
PyObject* after(PyObject*, PyObject* args) {
    PyObject *object = nullptr, *function = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &object, &function)) return nullptr;
    const auto borrowed = isthmus::borrow_py(object);
    if (!borrowed) return raise(borrowed.error());
    isthmus::Ref called(PyObject_CallNoArgs(function));
    return called ? both(*borrowed) : nullptr;
}

// Bytes whose buffer is as PyBuffer_FillInfo makes it (its shape lies in the Py_buffer itself), and which notes what it
// gets back.
struct Recorder {
    PyObject_HEAD PyObject* seen;
    char memory[32];
};

int recorder_get(PyObject* object, Py_buffer* view, int flags) {
    auto* self = reinterpret_cast<Recorder*>(object);
    return PyBuffer_FillInfo(view, object, self->memory, sizeof self->memory, 0, flags);
}
void recorder_release(PyObject* object, Py_buffer* view) {
    const bool inside = reinterpret_cast<char*>(view->shape) >= reinterpret_cast<char*>(view) &&
                        reinterpret_cast<char*>(view->shape) < reinterpret_cast<char*>(view + 1);
    isthmus::Ref size(PyLong_FromSsize_t(inside ? *view->shape : -1));
    if (!size || PyList_Append(reinterpret_cast<Recorder*>(object)->seen, size.get()) != 0)
        PyErr_WriteUnraisable(object);
}
PyObject* recorder_new(PyTypeObject* type, PyObject*, PyObject*) {
    auto* self = reinterpret_cast<Recorder*>(type->tp_alloc(type, 0));
    if (self != nullptr) self->seen = PyList_New(0);
    return reinterpret_cast<PyObject*>(self);
}
void recorder_dealloc(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    Py_XDECREF(reinterpret_cast<Recorder*>(object)->seen);
    type->tp_free(object);
    Py_DECREF(type);
}
PyObject* recorder_seen(PyObject* object, void*) {
    PyObject* seen = reinterpret_cast<Recorder*>(object)->seen;
    Py_INCREF(seen);
    return seen;
}

PyGetSetDef recorder_attributes[] = {
    {"seen", recorder_seen, nullptr, "the shape[0] of each buffer that came back; -1 where it lay elsewhere", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};
PyType_Slot recorder_slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(recorder_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(recorder_dealloc)},
    {Py_tp_getset, recorder_attributes},
    {Py_bf_getbuffer, reinterpret_cast<void*>(recorder_get)},
    {Py_bf_releasebuffer, reinterpret_cast<void*>(recorder_release)},
    {0, nullptr},
};
PyType_Spec recorder_spec{"isthmus_test_moves.Recorder", sizeof(Recorder), 0, Py_TPFLAGS_DEFAULT, recorder_slots};

using Any = View<const std::uint8_t, isthmus::dynamic_rank>;

PyMethodDef moves_methods[] = {
    {"moved", moved, METH_VARARGS, "moved(x, how): (dict, elements) of a moved Borrowed"},
    {"moved_view", moved_view, METH_O, "the shape of a view of a moved Borrowed"},
    {"after", after, METH_VARARGS, "after(x, f): (dict, elements) of borrow_py(x) after f()"},
    {"borrowed_argument", method(shape_of_argument<Borrowed>), METH_FASTCALL, "the shape of an argument"},
    {"view_argument", method(shape_of_argument<Any>), METH_FASTCALL, "the same of a view"},
    {"optional_borrowed_argument", method(shape_of_argument<std::optional<Borrowed>>), METH_FASTCALL,
     "the same of an optional"},
    {"optional_view_argument", method(shape_of_argument<std::optional<Any>>), METH_FASTCALL,
     "the same of an optional view"},
    {nullptr, nullptr, 0, nullptr},
};
struct PyModuleDef moves_definition{PyModuleDef_HEAD_INIT, "isthmus_test_moves", nullptr, -1, moves_methods};

}  // namespace
}  // namespace ext

PyMODINIT_FUNC PyInit_isthmus_test_moves() {
    PyObject* module = create_module(ext::moves_definition);
    PyObject* type = module != nullptr ? PyType_FromSpec(&ext::recorder_spec) : nullptr;
    return type != nullptr && PyModule_AddObject(module, "Recorder", type) == 0 ? module : nullptr;
}
