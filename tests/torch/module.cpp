// SPDX-License-Identifier: Apache-2.0
// isthmus/torch.h in an extension that links libtorch, with the bridge in the module or behind the backend's table.
#include <isthmus/torch.h>

#include "../python/support/module.h"
#include "support.h"

namespace {

using isthmus::Tensor;
using isthmus::Undefined;
using Kept = support::Keeper<at::Tensor>;
using KeptTensor = support::Keeper<Tensor>;

PyObject* address(const at::Tensor& tensor) { return PyLong_FromVoidPtr(tensor.unsafeGetTensorImpl()); }

/// (address of the TensorImpl, its count while only the caller's and Python's references are there)
PyObject* borrow(PyObject*, PyObject* object) {
    const auto tensor = isthmus::borrow_py_torch(object, "x");
    if (!tensor) return support::raise(tensor.error());
    return Py_BuildValue("(Nn)", address(**tensor), static_cast<Py_ssize_t>((*tensor)->use_count()));
}

PyObject* own(PyObject*, PyObject* object) {
    const auto tensor = isthmus::from_py_torch(object, "x");
    if (!tensor) return support::raise(tensor.error());
    return Py_BuildValue("(Nn)", address(*tensor), static_cast<Py_ssize_t>(tensor->use_count()));
}

PyObject* there_and_back(PyObject*, PyObject* object) {
    const auto tensor = isthmus::from_py_torch(object);
    return tensor ? support::give(isthmus::to_py(*tensor)) : support::raise(tensor.error());
}

/// With Undefined::none in both directions.
PyObject* there_and_back_or_none(PyObject*, PyObject* object) {
    const auto tensor = isthmus::from_py_torch(object, "x", Undefined::none);
    return tensor ? support::give(isthmus::to_py(*tensor, Undefined::none)) : support::raise(tensor.error());
}

PyObject* undefined(PyObject*, PyObject*) { return support::give(isthmus::to_py(at::Tensor())); }

PyObject* from_undefined(PyObject*, PyObject*) {
    const auto tensor = isthmus::try_from_torch(at::Tensor());
    return tensor ? PyLong_FromLong(0) : support::raise(tensor.error());
}

PyObject* from_null(PyObject*, PyObject*) {
    const auto tensor = isthmus::from_py_torch(nullptr);
    return tensor ? PyLong_FromLong(0) : support::raise(tensor.error());
}

/// The exception that from_torch() throws, as text.
PyObject* thrown(PyObject*, PyObject* object) {
    const auto tensor = isthmus::from_py_torch(object);
    if (!tensor) return support::raise(tensor.error());
    try {
        isthmus::from_torch(*tensor);
    } catch (const isthmus::Error& error) {
        return PyUnicode_FromString(error.what());
    }
    Py_RETURN_NONE;
}

isthmus::Result<Tensor> import(PyObject* args, PyObject* kwargs) {
    support::Options options;
    if (!options.parse(args, kwargs))
        return isthmus::Error(isthmus::ErrorCode::bad_argument, "arguments of the test's function");
    return isthmus::from_py_torch(options.object).and_then([&](const at::Tensor& t) {
        return isthmus::try_from_torch(t, options.import);
    });
}

/// at::Tensor → isthmus::Tensor: (data, shape, strides, dtype, device, read_only)
PyObject* describe(PyObject*, PyObject* args, PyObject* kwargs) {
    const auto tensor = import(args, kwargs);
    if (!tensor) return support::raise(tensor.error());
    const auto& t = *tensor;
    isthmus::Ref shape(PyTuple_New(t.ndim())), strides(PyTuple_New(t.ndim()));
    for (int i = 0; i < t.ndim(); ++i) {
        PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(t.shape()[static_cast<std::size_t>(i)]));
        PyTuple_SET_ITEM(strides.get(), i, PyLong_FromLongLong(t.strides()[static_cast<std::size_t>(i)]));
    }
    return Py_BuildValue("(NOOssO)", PyLong_FromVoidPtr(t.data()), shape.get(), strides.get(), t.dtype().name().c_str(),
                         t.device().name().c_str(), t.read_only() ? Py_True : Py_False);
}

/// torch.Tensor → at::Tensor → isthmus::Tensor → torch.Tensor, by the bridge's to_py
PyObject* through_isthmus(PyObject*, PyObject* args, PyObject* kwargs) {
    const auto tensor = import(args, kwargs);
    return tensor ? support::give(isthmus::to_py(*tensor, isthmus::Framework::torch)) : support::raise(tensor.error());
}

/// The same, out as an isthmus.Tensor that other extensions may take.
PyObject* as_isthmus(PyObject*, PyObject* args, PyObject* kwargs) {
    const auto tensor = import(args, kwargs);
    return tensor ? support::give(isthmus::to_py(*tensor)) : support::raise(tensor.error());
}

/// Any array → isthmus::Tensor → at::Tensor: the address of its TensorImpl, and the tensor.
PyObject* to_at(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    int allow = 0;
    if (!PyArg_ParseTuple(args, "O|p", &object, &allow)) return nullptr;
    const auto tensor = isthmus::from_py(object);
    if (!tensor) return support::raise(tensor.error());
    isthmus::ExportOptions options;
    options.allow_read_only_loss = allow != 0;
    const auto made = isthmus::to_torch(*tensor, options);
    if (!made) return support::raise(made.error());
    PyObject* back = support::give(isthmus::to_py(*made));
    return back != nullptr ? Py_BuildValue("(NN)", address(*made), back) : nullptr;
}

/// Memory of C++ as a torch.Tensor.
PyObject* buffer(PyObject*, PyObject* size) {
    const auto made = isthmus::to_torch(support::make_buffer(PyLong_AsLong(size)));
    return made ? support::give(isthmus::to_py(*made)) : support::raise(made.error());
}

/// Its views that torch does not take.
PyObject* refused_buffer(PyObject*, PyObject* how) {
    const Tensor plain = support::make_buffer(8);
    const std::string_view wanted = PyUnicode_AsUTF8(how);
    const Tensor odd = wanted == "reversed"
                           ? plain.as_strided(static_cast<float*>(plain.data()) + 7, {8}, {-1}, isthmus::float32)
                       : wanted == "int4"      ? plain.as_strided(plain.data(), {64}, {}, isthmus::DType(kDLInt, 4, 1))
                       : wanted == "read_only" ? plain.as_read_only()
                                               : Tensor();
    const auto made = isthmus::to_torch(odd);
    return made ? support::give(isthmus::to_py(*made)) : support::raise(made.error());
}

/// Writes from C++, by an isthmus::View over the at::Tensor's memory.
PyObject* add_in_place(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    float value = 0;
    if (!PyArg_ParseTuple(args, "Of", &object, &value)) return nullptr;
    isthmus::ImportOptions options;
    options.require_writable = true;
    const auto tensor = isthmus::from_py_torch(object).and_then(
        [&](const at::Tensor& t) { return isthmus::try_from_torch(t, options); });
    if (!tensor) return support::raise(tensor.error());
    const auto view = tensor->view<float, 1>();
    if (!view) return support::raise(view.error());
    for (std::int64_t i = 0; i < tensor->numel(); ++i) (*view)(i) += value;
    Py_RETURN_NONE;
}

PyObject* keep(PyObject*, PyObject* object) {
    auto tensor = isthmus::from_py_torch(object);
    return tensor ? Kept::add(*std::move(tensor)) : support::raise(tensor.error());
}

/// The same as an isthmus::Tensor over it.
PyObject* keep_tensor(PyObject*, PyObject* object) {
    auto tensor =
        isthmus::from_py_torch(object).and_then([](const at::Tensor& t) { return isthmus::try_from_torch(t); });
    return tensor ? KeptTensor::add(*std::move(tensor)) : support::raise(tensor.error());
}

PyObject* kept(PyObject*, PyObject* number) {
    const at::Tensor* tensor = Kept::find(number);
    return tensor != nullptr ? Py_BuildValue("(Nn)", address(*tensor), static_cast<Py_ssize_t>(tensor->use_count()))
                             : nullptr;
}

PyObject* give(PyObject*, PyObject* number) {
    const at::Tensor* tensor = Kept::find(number);
    return tensor != nullptr ? support::give(isthmus::to_py(*tensor)) : nullptr;
}

PyObject* give_tensor(PyObject*, PyObject* number) {
    const Tensor* tensor = KeptTensor::find(number);
    return tensor != nullptr ? support::give(isthmus::to_py(*tensor, isthmus::Framework::torch)) : nullptr;
}

/// A tensor made by C++ on a thread without the GIL, kept: it has no PyObject yet.
PyObject* make_on_thread(PyObject*, PyObject* size) {
    const std::int64_t n = PyLong_AsLong(size);
    at::Tensor made;
    Py_BEGIN_ALLOW_THREADS std::thread([&] {
        const Tensor buffer = support::make_buffer(n);
        made = isthmus::to_torch(isthmus::from_torch(isthmus::to_torch(buffer).value())).value();
    }).join();
    Py_END_ALLOW_THREADS return Kept::add(std::move(made));
}

constexpr int both = METH_VARARGS | METH_KEYWORDS;
PyMethodDef methods[] = {
    {"borrow", borrow, METH_O, "borrow_py_torch(x): (address, use count)"},
    {"own", own, METH_O, "from_py_torch(x): (address, use count)"},
    {"there_and_back", there_and_back, METH_O, "to_py(from_py_torch(x))"},
    {"there_and_back_or_none", there_and_back_or_none, METH_O, "the same, None for undefined"},
    {"undefined", undefined, METH_NOARGS, "to_py(at::Tensor())"},
    {"from_undefined", from_undefined, METH_NOARGS, "try_from_torch(at::Tensor())"},
    {"from_null", from_null, METH_NOARGS, "from_py_torch(NULL)"},
    {"thrown", thrown, METH_O, "what from_torch(x) throws"},
    {"describe", support::keywords(describe), both, "from_torch(x): what it says of itself"},
    {"through_isthmus", support::keywords(through_isthmus), both, "x by at::Tensor and isthmus::Tensor and back"},
    {"as_isthmus", support::keywords(as_isthmus), both, "x by at::Tensor as an isthmus.Tensor"},
    {"to_at", to_at, METH_VARARGS, "to_torch(from_py(x), allow_read_only_loss=False): (address, torch.Tensor)"},
    {"buffer", buffer, METH_O, "n floats of C++ as a torch.Tensor"},
    {"refused_buffer", refused_buffer, METH_O, "a view that torch does not take"},
    {"buffers", support::count_buffers, METH_NOARGS, "how many of those live"},
    {"add_in_place", add_in_place, METH_VARARGS, "x[i] += value in C++"},
    {"keep", keep, METH_O, "from_py_torch(x), kept: its number"},
    {"kept", kept, METH_O, "(address, use count) of a kept one"},
    {"give", give, METH_O, "to_py of a kept one"},
    {"make_on_thread", make_on_thread, METH_O, "n floats, made a kept at::Tensor without the GIL"},
    {"drop", Kept::drop, METH_O, "gives a kept one back, with the GIL held"},
    {"drop_without_gil", Kept::drop_without_gil, METH_O, "the same with the GIL released"},
    {"drop_on_thread", Kept::drop_on_thread, METH_O, "the same on a thread of C++"},
    {"keep_tensor", keep_tensor, METH_O, "from_torch(x), kept: its number"},
    {"give_tensor", give_tensor, METH_O, "to_py of a kept isthmus::Tensor"},
    {"drop_tensor", KeptTensor::drop, METH_O, "gives it back, with the GIL held"},
    {"drop_tensor_without_gil", KeptTensor::drop_without_gil, METH_O, "the same with the GIL released"},
    {"drop_tensor_on_thread", KeptTensor::drop_on_thread, METH_O, "the same on a thread of C++"},
    {"drop_tensor_later", KeptTensor::drop_later, METH_VARARGS,
     "the same after some microseconds, on a detached thread"},
    {"keep_tensor_until_exit", KeptTensor::keep_until_exit, METH_O,
     "moves it into a static that the C++ runtime destroys"},
    {nullptr, nullptr, 0, nullptr},
};

#if defined(ISTHMUS_BACKEND)
#define MODULE isthmus_torch_backend_test_ext
#else
#define MODULE isthmus_torch_test_ext
#endif
#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)
#define INIT_OF_NAME(x) PyInit_##x
#define INIT_OF(x) INIT_OF_NAME(x)

struct PyModuleDef definition{PyModuleDef_HEAD_INIT, NAME_OF(MODULE), nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC INIT_OF(MODULE)() { return create_module(definition); }
