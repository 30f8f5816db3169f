// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <isthmus/python/framework/facts.h>
#include <isthmus/python/framework/numpy/import.h>
#include <isthmus/python/runtime/life.h>
#include <isthmus/python/dispatch/type_cache.h>

ISTHMUS_BEGIN

namespace detail {

/// A module that the process has already imported, as a new reference; empty otherwise.
inline Ref loaded_module(const char* name) {
    PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), name);
    return Ref::borrow(module);
}

inline bool is_subtype_of(PyTypeObject* type, const char* module, const char* attribute) {
    Ref loaded = loaded_module(module);
    if (!loaded) return false;
    Ref base(PyObject_GetAttrString(loaded.get(), attribute));
    if (!base) PyErr_Clear();
    return base && PyType_Check(base.get()) && PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base.get()));
}

inline const KnownProducer* find_known_producer(PyTypeObject* type) {
    PyObject* bases = type->tp_mro;
    if (bases == nullptr) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(bases); ++i) {
        auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i));
        if (!PyType_Check(reinterpret_cast<PyObject*>(base))) continue;
        const std::string full = type_name(base);
        const std::string_view view = full;
        for (const KnownProducer& known : known_producers) {
            const std::string_view prefix = known.module_prefix, name = known.name;
            if (view.size() > prefix.size() + name.size() && view.substr(0, prefix.size()) == prefix &&
                view.substr(view.size() - name.size()) == name && view[view.size() - name.size() - 1] == '.' &&
                (view[prefix.size()] == '.' || view[prefix.size()] == '_'))
                return &known;
        }
    }
    return nullptr;
}

/// The framework whose array type this is, or is derived from: told by the package of each base.
inline Framework framework_of(PyTypeObject* type) {
    PyObject* bases = type->tp_mro;
    for (Py_ssize_t i = 0; bases != nullptr && i < PyTuple_GET_SIZE(bases); ++i) {
        PyObject* base = PyTuple_GET_ITEM(bases, i);
        if (!PyType_Check(base)) continue;
        const std::string full = type_name(reinterpret_cast<PyTypeObject*>(base));
        const std::string_view package = std::string_view(full).substr(0, full.find('.'));
        for (const FrameworkFacts& facts : framework_facts)
            if (package == facts.package || package == facts.other_package) return facts.framework;
    }
    return Framework::none;
}

/// Whether the object has the attribute, None counting as none. An exception that must not be swallowed (KeyboardInterrupt and
/// its like) stays set, and the answer is no.
inline bool has_attribute(PyObject* object, PyObject* name) {
    if (PyErr_Occurred() != nullptr) return false;
    Ref value(PyObject_GetAttr(object, name));
    if (!value && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
    return value && value.get() != Py_None;
}
inline bool type_has(PyTypeObject* type, PyObject* name) { return has_attribute(reinterpret_cast<PyObject*>(type), name); }

/// numpy.ndarray or a subclass. The struct behind it is read directly, so that a stand-in under NumPy's name must not pass.
inline bool is_numpy_array_type(PyTypeObject* type) {
    Ref numpy = loaded_module("numpy");
    Ref found(numpy ? PyObject_GetAttrString(numpy.get(), "ndarray") : nullptr);
    if (!found) return PyErr_Clear(), false;
    if (!PyType_Check(found.get())) return false;
    auto* array = reinterpret_cast<PyTypeObject*>(found.get());
    const bool genuine = !(array->tp_flags & Py_TPFLAGS_HEAPTYPE) && std::strcmp(array->tp_name, "numpy.ndarray") == 0 &&
                         array->tp_basicsize >= static_cast<Py_ssize_t>(sizeof(NumpyArray));
    return genuine && PyType_IsSubtype(type, array);
}

enum class TorchState : std::uint8_t { unknown, stable, missing };
ISTHMUS_STATE TorchState torch_state = TorchState::unknown;

/// Set (to anything but 0) in the environment, this hides libtorch's stable shims: the way to test what older versions get.
inline constexpr const char* hide_torch_shims = "ISTHMUS_NO_TORCH_SHIMS";

inline Protocol torch_protocol(TypeEntry& entry) {
    if (torch_state == TorchState::unknown) {
        const char* hidden = std::getenv(hide_torch_shims);
        const bool hide = hidden != nullptr && std::strcmp(hidden, "0") != 0 && *hidden != '\0';
        torch_state = !hide && torch_shims.load() ? TorchState::stable : TorchState::missing;
    }
    if (torch_state == TorchState::stable) {
        entry.known_torch = torch_shims.tensor_class != nullptr && PyType_IsSubtype(entry.type, torch_shims.tensor_class);
        return Protocol::torch_stable;
    }
    entry.api = find_exchange_api(entry.type);
    return entry.api != nullptr ? Protocol::torch_exchange : Protocol::torch_method;
}

ISTHMUS_COLD inline Protocol choose_protocol(TypeEntry& entry) {
    PyTypeObject* type = entry.type;
    const Names& names = interned();
    SharedRuntime* shared = shared_runtime();
    if (shared == nullptr) return Protocol::none;
    if (shared->tensor != nullptr && PyType_IsSubtype(type, shared->tensor)) return Protocol::isthmus_tensor;
    if (const KnownProducer* known = find_known_producer(type)) {
        entry.may_be_written = known->may_be_written;
        entry.refusal = known->refusal;
        entry.string_dtype_aborts = known->string_dtype_aborts;
        if (known->protocol != Protocol::none || known->refusal != nullptr) return known->protocol;
    }
    if (is_subtype_of(type, "torch._C", "TensorBase")) return torch_protocol(entry);
    if (is_numpy_array_type(type)) return Protocol::numpy;
    if (type == &PyCapsule_Type) return Protocol::capsule;
    if ((entry.api = find_exchange_api(type)) != nullptr) return Protocol::exchange_api;
    if (type_has(type, names.dlpack)) return Protocol::dlpack_method;
    if (type_has(type, names.cuda_array_interface)) return Protocol::cuda_array_interface;
    if (type->tp_as_buffer != nullptr && type->tp_as_buffer->bf_getbuffer != nullptr) return Protocol::buffer;
    if (type_has(type, names.array_interface)) return Protocol::array_interface;
    if (type_has(type, names.arrow_device_array)) return Protocol::arrow_device_array;
    if (type_has(type, names.arrow_array)) return Protocol::arrow_array;
    return Protocol::none;
}

ISTHMUS_COLD inline const TypeEntry* look_at_type(PyTypeObject* type, TypeEntry& scratch) {
    if (!start_runtime()) return nullptr;
    scratch = TypeEntry{type, 0, Protocol::none, framework_of(type), true, nullptr, nullptr, false, false};
    scratch.protocol = choose_protocol(scratch);
    if (PyErr_Occurred() != nullptr) return nullptr;
    scratch.version = version_of(type);  // asking for attributes has given it one, unless CPython ran out of them
    TypeEntry& entry = type_cache.entries[TypeCache::slot(type)];
    if (scratch.version != 0 && scratch.protocol != Protocol::none) entry = scratch;
    return &scratch;
}

}  // namespace detail

ISTHMUS_END
