// Classes of other packages: found without importing anything, and without running code of the class that is looked at.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "errors.h"  // Python.h must come before any standard header

#include <string_view>

#include "interned.h"

ISTHMUS_BEGIN

namespace detail {

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
inline std::string_view package_of(std::string_view qualified) noexcept {
    return qualified.substr(0, qualified.find('.'));
}
inline std::string_view name_of(std::string_view qualified) noexcept {
    return qualified.substr(qualified.rfind('.') + 1);
}
inline std::string_view module_of(std::string_view qualified) noexcept {
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
        said = dict_item(type->tp_dict, interned().module);
        const char* utf8 = said && PyUnicode_Check(said.get()) ? PyUnicode_AsUTF8(said.get()) : nullptr;
        if (utf8 != nullptr) module = utf8;
        PyErr_Clear();
    }
};

inline bool has_base_of_package(PyTypeObject* type, std::string_view package) {
    return any_base(type, [&](PyTypeObject* base) { return package_of(ClassName(base).module) == package; });
}
/// Whether a base calls itself "package.module.Name", which any class may do.
inline bool has_base_called(PyTypeObject* type, std::string_view qualified) {
    return any_base(type, [&](PyTypeObject* base) {
        const ClassName said(base);
        return said.name == name_of(qualified) && said.module == module_of(qualified);
    });
}

inline PyTypeObject* as_type(const Ref& object) noexcept { return reinterpret_cast<PyTypeObject*>(object.get()); }

/// A module imported so far; empty if sys.modules does not have it (not yet, or not any more).
inline Ref loaded_module(const char* name) { return dict_item(PyImport_GetModuleDict(), name); }

/// The class that "package.module.Name" means in the modules imported so far; empty if that module is not imported, or
/// has no such class.
inline Ref loaded_class(std::string_view qualified) {
    const std::string module(module_of(qualified)), name(name_of(qualified));
    const Ref loaded = loaded_module(module.c_str());
    if (!loaded || !PyModule_Check(loaded.get())) return {};
    Ref found = dict_item(PyModule_GetDict(loaded.get()), name.c_str());
    return found && PyType_Check(found.get()) ? std::move(found) : Ref();
}

/// Whether the type is a public class or derived from it. `complete` becomes false if the type has a base of that
/// package but the class cannot be found, so that the answer is not certain.
inline bool is_of_class(PyTypeObject* type, std::string_view qualified, bool& complete) {
    if (!has_base_of_package(type, package_of(qualified))) return false;
    const Ref known = loaded_class(qualified);
    if (!known) complete = false;
    return known && PyType_IsSubtype(type, as_type(known));
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
