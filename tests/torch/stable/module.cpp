// SPDX-License-Identifier: Apache-2.0
// torch tensors through the bridge in an extension that neither includes nor links torch.
#include "../../python/support/module.h"
#include "../support.h"
#include "src/bridge/dispatch/classify.h"

namespace {

using isthmus::Framework;
using isthmus::Tensor;
using Kept = support::Keeper<Tensor>;

PyObject* describe(const Tensor& t) {
    isthmus::Ref shape(PyTuple_New(t.ndim())), strides(PyTuple_New(t.ndim()));
    for (int i = 0; i < t.ndim(); ++i) {
        PyTuple_SET_ITEM(shape.get(), i, PyLong_FromLongLong(t.shape()[static_cast<std::size_t>(i)]));
        PyTuple_SET_ITEM(strides.get(), i, PyLong_FromLongLong(t.strides()[static_cast<std::size_t>(i)]));
    }
    return Py_BuildValue("{s:N,s:O,s:O,s:s,s:s,s:O,s:I}", "data", PyLong_FromVoidPtr(t.data()), "shape", shape.get(),
                         "strides", strides.get(), "dtype", t.dtype().name().c_str(), "device",
                         t.device().name().c_str(), "read_only", t.read_only() ? Py_True : Py_False, "use_count",
                         t.use_count());
}

PyObject* own(PyObject*, PyObject* args, PyObject* kwargs) {
    support::Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    const auto tensor = isthmus::from_py(options.object, options.import);
    return tensor ? describe(*tensor) : support::raise(tensor.error());
}

PyObject* borrow(PyObject*, PyObject* args, PyObject* kwargs) {
    support::Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    const auto tensor = isthmus::borrow_py(options.object, options.import);
    return tensor ? PyLong_FromVoidPtr(tensor->data()) : support::raise(tensor.error());
}

/// from_py, then to_py: the framework is torch unless `like` says so.
PyObject* there_and_back(PyObject*, PyObject* args, PyObject* kwargs) {
    support::Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    const auto tensor = isthmus::from_py(options.object, options.import);
    return tensor ? support::give(isthmus::to_py(*tensor, Framework::torch)) : support::raise(tensor.error());
}

PyObject* there_and_back_like(PyObject*, PyObject* object) {
    const auto tensor = isthmus::from_py(object);
    return tensor ? support::give(isthmus::to_py_like(*tensor, object)) : support::raise(tensor.error());
}

/// Adds to every element of a one-dimensional float32 tensor, as a kernel that writes in place does.
PyObject* add_in_place(PyObject*, PyObject* args) {
    PyObject* object = nullptr;
    float value = 0;
    if (!PyArg_ParseTuple(args, "Of", &object, &value)) return nullptr;
    isthmus::ImportOptions options;
    options.require_writable = true;
    const auto tensor = isthmus::borrow_py(object, options);
    if (!tensor) return support::raise(tensor.error());
    const auto view = tensor->view<float, 1>();
    if (!view) return support::raise(view.error());
    for (std::int64_t i = 0; i < tensor->shape()[0]; ++i) (*view)(i) += value;
    Py_RETURN_NONE;
}

PyObject* keep(PyObject*, PyObject* args, PyObject* kwargs) {
    support::Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    auto tensor = isthmus::from_py(options.object, options.import);
    return tensor ? Kept::add(*std::move(tensor)) : support::raise(tensor.error());
}

PyObject* kept(PyObject*, PyObject* number) {
    const Tensor* tensor = Kept::find(number);
    return tensor != nullptr ? describe(*tensor) : nullptr;
}

/// to_py(number, framework)
PyObject* give(PyObject*, PyObject* args) {
    PyObject* number = nullptr;
    const char* name = nullptr;
    int allow = 0;
    if (!PyArg_ParseTuple(args, "Os|p", &number, &name, &allow)) return nullptr;
    const Tensor* tensor = Kept::find(number);
    Framework framework{};
    if (tensor == nullptr) return nullptr;
    if (!isthmus::parse_framework(name, framework)) return PyErr_Format(PyExc_ValueError, "no framework %s", name);
    isthmus::ExportOptions options;
    options.allow_read_only_loss = allow != 0;
    return support::give(isthmus::to_py(*tensor, framework, options));
}

PyObject* buffer(PyObject*, PyObject* size) {
    const long n = PyLong_AsLong(size);
    return n == -1 && PyErr_Occurred() ? nullptr : Kept::add(support::make_buffer(n));
}

/// Another view of a kept tensor's memory: reversed, read-only, or of another dtype.
PyObject* derive(PyObject*, PyObject* args) {
    PyObject* number = nullptr;
    const char* how = nullptr;
    if (!PyArg_ParseTuple(args, "Os", &number, &how)) return nullptr;
    const Tensor* from = Kept::find(number);
    if (from == nullptr) return nullptr;
    const std::string_view wanted = how;
    const std::int64_t n = from->numel();
    if (wanted == "read_only") return Kept::add(from->as_read_only());
    if (wanted == "int4")
        return Kept::add(from->as_strided(from->data(), {2 * from->nbytes()}, {}, isthmus::DType(kDLInt, 4, 1)));
    return Kept::add(from->as_strided(static_cast<float*>(from->data()) + (n - 1), {n}, {-1}, from->dtype()));
}

/// How torch's tensors are imported here: decided by the first one that comes.
PyObject* protocol(PyObject*, PyObject* object) {
    isthmus::detail::ProducerType scratch;
    const auto* entry = isthmus::detail::find_type(Py_TYPE(object), scratch);
    if (entry == nullptr) return nullptr;
    switch (entry->protocol) {
        case isthmus::detail::Protocol::torch_stable:
            return PyUnicode_FromString("stable");
        case isthmus::detail::Protocol::torch_exchange:
            return PyUnicode_FromString("exchange");
        case isthmus::detail::Protocol::torch_method:
            return PyUnicode_FromString("method");
        default:
            return PyUnicode_FromString("other");
    }
}

/// What libtorch exports without a promise, as if it did not: from here on, in this module.
PyObject* hide_unpromised(PyObject*, PyObject*) {
    auto& torch = isthmus::detail::torch_shims;
    torch.is_neg = torch.is_conj = torch.is_inference = nullptr;
    torch.has_dual_level = torch.in_inference_mode = nullptr;
    torch.autograd_meta = nullptr;
    torch.requires_grad = nullptr;
    torch.bump_version = nullptr;
    torch.wrap = nullptr;
    torch.inside = -1;
    torch.storage_functions = nullptr;
    isthmus::detail::torch_storages = {};
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"own", support::keywords(own), METH_VARARGS | METH_KEYWORDS, "from_py(x), dropped again: what it says of itself"},
    {"borrow", support::keywords(borrow), METH_VARARGS | METH_KEYWORDS, "borrow_py(x): the address"},
    {"there_and_back", support::keywords(there_and_back), METH_VARARGS | METH_KEYWORDS, "to_py(from_py(x), torch)"},
    {"there_and_back_like", there_and_back_like, METH_O, "to_py_like(from_py(x), x)"},
    {"add_in_place", add_in_place, METH_VARARGS, "x[i] += value in C++"},
    {"keep", support::keywords(keep), METH_VARARGS | METH_KEYWORDS, "from_py(x), kept: its number"},
    {"kept", kept, METH_O, "what a kept tensor says of itself"},
    {"give", give, METH_VARARGS, "to_py(number, framework, allow_read_only_loss=False)"},
    {"buffer", buffer, METH_O, "n floats of C++, kept: their number"},
    {"buffers", support::count_buffers, METH_NOARGS, "how many of those live"},
    {"derive", derive, METH_VARARGS, "another view of a kept tensor: its number"},
    {"protocol", protocol, METH_O, "how this tensor of torch is imported"},
    {"hide_unpromised", hide_unpromised, METH_NOARGS, "uses the promised symbols of libtorch alone"},
    {"drop", Kept::drop, METH_O, "gives a kept tensor back, with the GIL held"},
    {"drop_without_gil", Kept::drop_without_gil, METH_O, "the same with the GIL released"},
    {"drop_on_thread", Kept::drop_on_thread, METH_O, "the same on a thread of C++"},
    {"drop_later", Kept::drop_later, METH_VARARGS, "the same after some microseconds, on a detached thread"},
    {"keep_until_exit", Kept::keep_until_exit, METH_O,
     "moves a kept tensor into a static that the C++ runtime destroys"},
    {nullptr, nullptr, 0, nullptr},
};

struct PyModuleDef definition{PyModuleDef_HEAD_INIT, "isthmus_torch_stable_ext", nullptr, -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit_isthmus_torch_stable_ext() { return create_module(definition); }
