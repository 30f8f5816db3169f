// SPDX-License-Identifier: Apache-2.0
// to_py: the ways out, and what they cost.
#include "src/bridge/framework/numpy/export.h"
#include "ext.h"
#include "src/bridge/framework/torch/export.h"

#include <thread>

namespace ext {
namespace {

/// A framework's number from its name, ValueError when there is none.
bool read_framework(const char* name, isthmus::Framework& out) {
    if (isthmus::parse_framework(name, out)) return true;
    PyErr_Format(PyExc_ValueError, "no framework '%s'", name);
    return false;
}

/// tensor_of(x, **import options): the isthmus.Tensor of from_py.
PyObject* tensor_of(PyObject*, PyObject* args, PyObject* kwargs) {
    Options options;
    if (!options.parse(args, kwargs)) return nullptr;
    const auto tensor = isthmus::from_py(options.object, options.import);
    if (!tensor) return raise(tensor.error());
    const auto object = isthmus::to_py(*tensor);
    return object ? *object : raise(object.error());
}

/// hand(x, framework, *, allow_read_only_loss, allow_copy): from_py, then to_py.
PyObject* hand(PyObject*, PyObject* args, PyObject* kwargs) {
    static const char* names[] = {"", "", "allow_read_only_loss", "allow_copy", nullptr};
    PyObject* x = nullptr;
    const char* name = nullptr;
    int loss = 0, copy = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Os|$pp", const_cast<char**>(names), &x, &name, &loss, &copy))
        return nullptr;
    isthmus::Framework framework{};
    if (!read_framework(name, framework)) return nullptr;
    const auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    isthmus::ExportOptions options;
    options.allow_read_only_loss = loss != 0;
    options.allow_copy = copy != 0;
    const auto object = isthmus::to_py(*tensor, framework, options);
    return object ? *object : raise(object.error());
}

/// give(x, framework): from_py, then to_py of the handle itself.
PyObject* give(PyObject*, PyObject* args) {
    PyObject* x = nullptr;
    const char* name = nullptr;
    isthmus::Framework framework{};
    if (!PyArg_ParseTuple(args, "Os", &x, &name) || !read_framework(name, framework)) return nullptr;
    auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    const auto object = isthmus::to_py(std::move(*tensor), framework);
    if (*tensor) return PyErr_Format(PyExc_AssertionError, "the handle was kept");
    return object ? *object : raise(object.error());
}

/// allocate(type): what the exchange API of isthmus.Tensor allocates, deleted again.
PyObject* allocate(PyObject*, PyObject* type) {
    PyObject* capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    if (capsule == nullptr) return nullptr;
    const auto* api = static_cast<const DLPackExchangeAPI*>(PyCapsule_GetPointer(capsule, "dlpack_exchange_api"));
    Py_DECREF(capsule);
    std::int64_t shape[] = {2, 3};
    DLTensor wanted{nullptr, {kDLCPU, 0}, 2, {kDLFloat, 32, 1}, shape, nullptr, 0};
    DLManagedTensorVersioned* made = nullptr;
    const auto raise_said = [](void*, const char* kind, const char* text) {
        PyErr_SetString(std::string_view(kind) == "MemoryError" ? PyExc_MemoryError : PyExc_RuntimeError, text);
    };
    if (api->managed_tensor_allocator(&wanted, &made, nullptr, raise_said) != 0) return nullptr;
    made->deleter(made);
    Py_RETURN_NONE;
}

/// shown_and_given(): an isthmus.Tensor of memory that has no owner, and a capsule of another handle on it, given away.
PyObject* shown_and_given(PyObject*, PyObject*) {
    static float memory[4];
    auto tensor = isthmus::Tensor::wrap(memory, {4}, {}, isthmus::float32, isthmus::Device::cpu(), nullptr);
    const auto shown = isthmus::to_py(tensor);
    if (!shown) return raise(shown.error());
    const auto given = isthmus::to_py(std::move(tensor), isthmus::Framework::capsule);
    if (!given) return Py_DECREF(*shown), raise(given.error());
    return Py_BuildValue("NN", *shown, *given);
}

/// hand_like(x, example)
PyObject* hand_like(PyObject*, PyObject* args) {
    PyObject *x = nullptr, *example = nullptr;
    if (!PyArg_ParseTuple(args, "OO", &x, &example)) return nullptr;
    const auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    const auto object = isthmus::to_py_like(*tensor, example);
    return object ? *object : raise(object.error());
}

/// hand_as_it_was(x, framework): the way back after another description of the same memory was made: no identity.
PyObject* hand_reshaped(PyObject*, PyObject* args) {
    PyObject* x = nullptr;
    const char* name = nullptr;
    isthmus::Framework framework{};
    if (!PyArg_ParseTuple(args, "Os", &x, &name) || !read_framework(name, framework)) return nullptr;
    const auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    try {
        const auto object =
            isthmus::to_py(tensor->as_strided(tensor->data(), {tensor->numel()}, {}, tensor->dtype()), framework);
        return object ? *object : raise(object.error());
    } catch (const isthmus::Error& error) {
        return raise(error);
    }
}

/// to_py in a framework that is none of the enumerators.
PyObject* hand_unknown(PyObject*, PyObject* x) {
    const auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    const auto object = isthmus::to_py(*tensor, static_cast<isthmus::Framework>(200));
    return object ? *object : raise(object.error());
}

/// hand_empty(framework): of no tensor.
PyObject* hand_empty(PyObject*, PyObject* name) {
    isthmus::Framework framework{};
    const char* utf8 = PyUnicode_AsUTF8(name);
    if (utf8 == nullptr || !read_framework(utf8, framework)) return nullptr;
    const auto object = isthmus::to_py(isthmus::Tensor(), framework);
    return object ? *object : raise(object.error());
}

/// hand_times(x, framework, n): n exits in a row, each given back at once; what counting and timing look at.
PyObject* hand_times(PyObject*, PyObject* args) {
    PyObject* x = nullptr;
    const char* name = nullptr;
    Py_ssize_t count = 0;
    isthmus::Framework framework{};
    if (!PyArg_ParseTuple(args, "Osn", &x, &name, &count) || !read_framework(name, framework)) return nullptr;
    const auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    for (Py_ssize_t i = 0; i < count; ++i) {
        const auto object = isthmus::to_py(*tensor, framework);
        if (!object) return raise(object.error());
        Py_DECREF(*object);
    }
    Py_RETURN_NONE;
}

/// What the framework itself allocates for an array over foreign memory, with the hook for the owner that it asks for.
PyObject* bare_times(PyObject*, PyObject* args) {
    PyObject* x = nullptr;
    const char* name = nullptr;
    Py_ssize_t count = 0;
    if (!PyArg_ParseTuple(args, "Osn", &x, &name, &count)) return nullptr;
    auto tensor = isthmus::from_py(x);
    if (!tensor) return raise(tensor.error());
    const DLTensor& t = tensor->descriptor();
    const std::string_view framework = name;
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* made = nullptr;
        if (framework == "numpy") {
            if (isthmus::detail::numpy_api->make == nullptr && !isthmus::detail::load_numpy_api()) return nullptr;
            auto& api = *isthmus::detail::numpy_api;
            Py_ssize_t strides[isthmus::max_ndim];
            for (int d = 0; d < t.ndim; ++d) strides[d] = t.strides[d] * tensor->itemsize();
            PyObject* dtype = api.dtypes[isthmus::detail::numpy_type_number(t.dtype)];
            Py_INCREF(dtype);
            made = api.make(api.array_type, dtype, t.ndim, reinterpret_cast<const Py_ssize_t*>(t.shape), strides,
                            t.data, isthmus::detail::numpy_flag::writeable, nullptr);
        } else if (framework == "capsule") {
            static DLManagedTensorVersioned nothing{};
            made = PyCapsule_New(&nothing, "dltensor_versioned", nullptr);
        } else if (framework == "torch") {
            auto& torch = isthmus::detail::torch_shims;
            isthmus::detail::TorchShims::Handle handle = nullptr;
            void* object = nullptr;
            if (torch.from_blob(
                    t.data, t.ndim, t.shape, t.strides, 0, isthmus::detail::torch_dtype_table.number_of(t.dtype),
                    torch.device_cpu, -1, &handle, torch.layout_strided, nullptr, 0, [](void*, void*) {},
                    tensor->block()) != 0 ||
                torch.to_pyobject(handle, nullptr, &object) != 0)
                return PyErr_Format(PyExc_RuntimeError, "torch");
            torch.delete_handle(handle);
            made = static_cast<PyObject*>(object);
        }
        if (made == nullptr)
            return PyErr_Occurred() ? nullptr : PyErr_Format(PyExc_ValueError, "no framework '%s'", name);
        Py_DECREF(made);
    }
    Py_RETURN_NONE;
}

/// end_capsule(capsule): takes a capsule as a consumer does and calls its deleter on a thread without the GIL.
PyObject* end_capsule_on_thread(PyObject*, PyObject* capsule) {
    const auto end = [&]<class Managed>(Managed*, const char* name, const char* used) -> PyObject* {
        auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
        if (managed == nullptr || PyCapsule_SetName(capsule, used) != 0) return nullptr;
        Py_BEGIN_ALLOW_THREADS std::thread([managed] { managed->deleter(managed); }).join();
        Py_END_ALLOW_THREADS Py_RETURN_NONE;
    };
    if (PyCapsule_IsValid(capsule, "dltensor"))
        return end(static_cast<DLManagedTensor*>(nullptr), "dltensor", "used_dltensor");
    return end(static_cast<DLManagedTensorVersioned*>(nullptr), "dltensor_versioned", "used_dltensor_versioned");
}

}  // namespace

PyMethodDef export_methods[] = {
    {"tensor_of", method(tensor_of), METH_VARARGS | METH_KEYWORDS, "the isthmus.Tensor of from_py(x)"},
    {"hand", method(hand), METH_VARARGS | METH_KEYWORDS, "from_py(x), then to_py in a framework"},
    {"give", give, METH_VARARGS, "from_py(x), then to_py of the handle itself, which is empty afterwards"},
    {"allocate", allocate, METH_O, "what the exchange API of isthmus.Tensor allocates, deleted again"},
    {"shown_and_given", shown_and_given, METH_NOARGS, "an isthmus.Tensor without an owner, and a capsule of it"},
    {"hand_like", hand_like, METH_VARARGS, "from_py(x), then to_py_like(example)"},
    {"hand_reshaped", hand_reshaped, METH_VARARGS, "from_py(x), flattened, then to_py in a framework"},
    {"hand_unknown", hand_unknown, METH_O, "from_py(x), then to_py in no framework that there is"},
    {"hand_empty", hand_empty, METH_O, "to_py of no tensor, given away"},
    {"hand_times", hand_times, METH_VARARGS, "n exits, each dropped"},
    {"bare_times", bare_times, METH_VARARGS, "n arrays that the framework alone makes over the same memory"},
    {"end_capsule_on_thread", end_capsule_on_thread, METH_O, "consumes a capsule on a thread without the GIL"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace ext
