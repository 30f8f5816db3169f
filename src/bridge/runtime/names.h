// Interned strings, and classes of other packages by name: found without an import, and without running their code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "object_owner.h"  // Python.h must come before any standard header

#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>

#include "errors.h"

ISTHMUS_BEGIN

namespace detail {

struct Interned {
    PyObject *dlpack, *dlpack_device, *exchange_api;
    PyObject *array_interface, *array_struct, *cuda_array_interface, *arrow_array, *arrow_device_array, *arrow_stream;
    PyObject *buffer, *array, *array_ufunc, *array_function, *add, *multiply;
    PyObject* module;  ///< the first that says nothing of what a class offers: see special_names()
    PyObject *max_version, *stream, *dl_device, *copy, *dtype, *backing_device;
    PyObject* only_max_version;  ///< ("max_version",)
    PyObject* version_and_copy;  ///< ("max_version", "copy")
    PyObject* newest_version;    ///< (1, 3)

    /// False with a Python exception set.
    ISTHMUS_COLD bool make() {
        struct Row {
            PyObject*& slot;
            const char* text;
        };
        const Row rows[] = {
            {dlpack, "__dlpack__"},
            {dlpack_device, "__dlpack_device__"},
            {exchange_api, "__dlpack_c_exchange_api__"},
            {array_interface, "__array_interface__"},
            {array_struct, "__array_struct__"},
            {cuda_array_interface, "__cuda_array_interface__"},
            {arrow_array, "__arrow_c_array__"},
            {arrow_device_array, "__arrow_c_device_array__"},
            {arrow_stream, "__arrow_c_stream__"},
            {buffer, "__buffer__"},
            {array, "__array__"},
            {array_ufunc, "__array_ufunc__"},
            {array_function, "__array_function__"},
            {add, "__add__"},
            {multiply, "__mul__"},
            {module, "__module__"},
            {max_version, "max_version"},
            {stream, "stream"},
            {dl_device, "dl_device"},
            {copy, "copy"},
            {dtype, "dtype"},
            {backing_device, "backing_device"},
        };
        constexpr std::size_t tuples = 3;
        static_assert(sizeof(rows) / sizeof(rows[0]) + tuples == sizeof(Interned) / sizeof(PyObject*),
                      "isthmus: one row per string");
        for (const Row& row : rows)
            if ((row.slot = PyUnicode_InternFromString(row.text)) == nullptr) return false;
        only_max_version = PyTuple_Pack(1, max_version);
        version_and_copy = PyTuple_Pack(2, max_version, copy);
        newest_version = Py_BuildValue("(ii)", DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
        return only_max_version != nullptr && version_and_copy != nullptr && newest_version != nullptr;
    }
    void release_references() noexcept {
        for (PyObject*& one : *reinterpret_cast<PyObject*(*)[sizeof(Interned) / sizeof(PyObject*)]>(this))
            Py_CLEAR(one);
    }
};
ISTHMUS_STATE PerSession<Interned> interned_strings;

/// Makes them when first needed. False with a Python exception set.
inline bool make_interned() {
    if (ISTHMUS_LIKELY(interned_strings->newest_version != nullptr)) return true;
    Interned made{};
    if (!start_session() || !made.make()) return false;
    (void)interned_strings.keep(made);  // else those of another thread are kept, which are the same strings
    return true;
}

/// Valid once a type was classified or one of our Python types was made.
inline const Interned& interned() noexcept { return *interned_strings; }

/// Every attribute and method that a class is asked for, so that one without them is as its base is.
inline std::span<PyObject* const> special_names() noexcept {
    return {&interned().dlpack, offsetof(Interned, module) / sizeof(PyObject*)};
}
/// Whether a class itself, not a base of it, has one of the special names; true if that is not certain.
ISTHMUS_COLD inline bool may_define_special(PyTypeObject* type) {
    PyObject* own = type->tp_dict;
    if (own == nullptr) return true;
#if !defined(Py_GIL_DISABLED)
    // One walk over few names is shorter than as many lookups. Those of Python's source are interned: one address each.
    constexpr Py_ssize_t few = 16;
    if (PyDict_Size(own) <= few) {
        Py_ssize_t at = 0;
        for (PyObject* key = nullptr; PyDict_Next(own, &at, &key, nullptr);) {
            if (!PyUnicode_CheckExact(key) || !PyUnicode_CHECK_INTERNED(key)) return true;
            for (PyObject* name : special_names())
                if (key == name) return true;
        }
        return false;
    }
#endif
    for (PyObject* name : special_names())
        if (dict_item(own, name) || is_interrupted()) return true;
    return false;
}

/// Calls `look(base)` for the type and each of its bases until one says yes.
template <class F>
bool any_base(PyTypeObject* type, F&& look) {
    const Ref bases = bases_of(type);
    for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases.get()); ++i) {
        PyObject* base = PyTuple_GET_ITEM(bases.get(), i);
        if (PyType_Check(base) && look(reinterpret_cast<PyTypeObject*>(base))) return true;
    }
    return false;
}

// "numpy", "MaskedArray" and "numpy.ma" of "numpy.ma.MaskedArray".
constexpr std::string_view package_of(std::string_view qualified) noexcept {
    return qualified.substr(0, qualified.find('.'));
}
constexpr std::string_view name_of(std::string_view qualified) noexcept {
    return qualified.substr(qualified.rfind('.') + 1);
}
constexpr std::string_view module_of(std::string_view qualified) noexcept {
    const std::size_t dot = qualified.rfind('.');
    return dot == qualified.npos ? std::string_view() : qualified.substr(0, dot);
}

/// The full name of a class, as type_name() writes it but without a copy, so that many names may be compared. Valid as
/// long as the class does not change.
struct ClassName {
    std::string_view module, name;
    Ref said;  ///< what `module` is a part of

    explicit ClassName(PyTypeObject* type) : module(module_of(type->tp_name)), name(name_of(type->tp_name)) {
        if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || type->tp_dict == nullptr) return;
        const PendingException pending;
        if (make_interned()) said = dict_item(type->tp_dict, interned().module);
        Py_ssize_t size = 0;
        const char* utf8 = said && PyUnicode_Check(said.get()) ? PyUnicode_AsUTF8AndSize(said.get(), &size) : nullptr;
        if (utf8 != nullptr)
            module = {utf8, static_cast<std::size_t>(size)};
        else
            PyErr_Clear();
    }
};

inline bool has_base_of_package(PyTypeObject* type, std::string_view package) {
    return any_base(type, [&](PyTypeObject* base) { return package_of(ClassName(base).module) == package; });
}
/// Whether a base calls itself "package.module.Name", which any class may do.
ISTHMUS_COLD inline bool has_base_called(PyTypeObject* type, std::string_view qualified) {
    const std::string_view name = name_of(qualified);
    return any_base(type, [&](PyTypeObject* base) {
        if (!std::string_view(base->tp_name).ends_with(name)) return false;  // most are told from it by this alone
        const ClassName said(base);
        return said.name == name && said.module == module_of(qualified);
    });
}

/// A new class; NULL with a Python exception set, which CPython forgets if there is no memory for the name.
inline PyTypeObject* make_class(PyType_Spec& spec, PyObject* bases = nullptr) {
    auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases));
    if (type == nullptr && PyErr_Occurred() == nullptr) PyErr_NoMemory();
    return type;
}

inline PyTypeObject* as_type(const Ref& object) noexcept { return reinterpret_cast<PyTypeObject*>(object.get()); }

/// A module imported so far; empty if sys.modules does not have it (not yet, or not any more).
inline Ref loaded_module(const char* name) { return dict_item(PyImport_GetModuleDict(), name); }

#if !defined(Py_GIL_DISABLED)
/// The interned module and name of classes that were looked for, by the address of their constants: a first look at a
/// type asks for several, and making a str of a name takes longer than finding it.
struct ClassKeys {
    struct Key {
        const char* text = nullptr;
        PyObject *module = nullptr, *name = nullptr;
    };
    Key keys[32];

    void release_references() noexcept {
        for (Key& key : keys) {
            Py_XDECREF(key.module);
            Py_XDECREF(key.name);
        }
    }
    Key& of(std::string_view qualified) noexcept {
        return keys[(reinterpret_cast<std::uintptr_t>(qualified.data()) * 0x9E3779B1U >> 16) % std::size(keys)];
    }
};
ISTHMUS_STATE PerSession<ClassKeys> class_keys;
#endif

/// The class that "package.module.Name", a constant, means in the modules imported so far; empty if that module is not
/// imported, or has no such class, or with an exception set that passes_through(): code of a key of sys.modules may
/// run.
ISTHMUS_COLD inline Ref loaded_class(std::string_view qualified) {
    if (PyErr_Occurred() != nullptr) return {};  // of the look before
#if defined(Py_GIL_DISABLED)
    const std::string module(module_of(qualified)), name(name_of(qualified));
    const Ref loaded = loaded_module(module.c_str());
    if (!loaded || !PyModule_Check(loaded.get())) return {};
    Ref found = dict_item(PyModule_GetDict(loaded.get()), name.c_str());
#else
    ClassKeys::Key& key = class_keys.begin().of(qualified);
    if (key.text != qualified.data()) {
        const std::string module(module_of(qualified)), name(name_of(qualified));
        Ref module_key(PyUnicode_InternFromString(module.c_str())), name_key(PyUnicode_InternFromString(name.c_str()));
        if (!module_key || !name_key) return {};
        Py_XDECREF(key.module);
        Py_XDECREF(key.name);
        // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): an address to compare, no text
        key = {qualified.data(), module_key.release(), name_key.release()};
    }
    const Ref module = Ref::borrow(key.module), name = Ref::borrow(key.name);  // which that code may replace
    const Ref loaded = dict_item(PyImport_GetModuleDict(), module.get());
    Ref found;
    if (loaded && PyModule_Check(loaded.get())) found = dict_item(PyModule_GetDict(loaded.get()), name.get());
    if (!found) (void)is_interrupted();
#endif
    return found && PyType_Check(found.get()) ? std::move(found) : Ref();
}

/// Whether type_item() finds something other than None.
inline bool type_has(PyTypeObject* type, PyObject* name) {
    const Ref found = type_item(type, name);
    return found && found.get() != Py_None;
}

/// Whether an object has the attribute with a value other than None. Any exception but AttributeError stays set, and
/// the answer is no.
inline bool has_attribute(PyObject* object, PyObject* name) {
    Ref value(PyObject_GetAttr(object, name));
    if (!value && PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
    return value && value.get() != Py_None;
}

}  // namespace detail

ISTHMUS_END
