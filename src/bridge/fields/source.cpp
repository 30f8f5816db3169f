// Where the fields of a struct come from: a mapping, an object's attributes, a tuple, a sparse matrix, a record batch.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/fields/source.h>

ISTHMUS_BEGIN

namespace detail {

/// torch's names for the fields of a sparse tensor; other libraries use SciPy's as attributes.
struct TorchSparseField {
    std::string_view format, name;
    const char* method;
};
inline constexpr TorchSparseField torch_sparse_fields[] = {
    {"csr", "indptr", "crow_indices"}, {"csr", "indices", "col_indices"}, {"csr", "data", "values"},
    {"csc", "indptr", "ccol_indices"}, {"csc", "indices", "row_indices"}, {"csc", "data", "values"},
};

/// "csr", "csc", "coo", … of a sparse matrix or tensor of SciPy, torch or JAX; empty for anything else.
inline std::string find_sparse_format(PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (has_base_of_package(type, "torch")) {
        const std::string layout = text_of(Ref(PyObject_GetAttrString(object, "layout")).get());
        constexpr std::string_view prefix = "torch.sparse_";
        return layout.substr(0, prefix.size()) == prefix ? layout.substr(prefix.size()) : "";
    }
    const ClassName said(type);
    if (said.module.substr(0, 12) == "scipy.sparse") return text_of(Ref(PyObject_GetAttrString(object, "format")).get());
    if (said.module.substr(0, 23) != "jax.experimental.sparse") return {};
    return said.name == "BCSR" ? "csr" : said.name == "BCOO" ? "coo" : std::string(said.name);
}

ISTHMUS_COLD inline std::string list_of(std::span<const char* const> names) {
    std::string text;
    for (const char* name : names) text += concat({text.empty() ? "'" : ", '", name, "'"});
    return text;
}

Result<void> FieldSource::open(PyObject* object, std::string_view sparse_format,
                                           std::span<const char* const> names) {
    object_ = object;
    if (!start_life() || !make_interned()) return error_from_exception(ErrorCode::bad_thread, nullptr, "reading a struct");
    const bool has_names = PyTuple_Check(object) && PyObject_HasAttrString(object, "_fields") != 0;
    if (PyDict_Check(object)) {
        form_ = FieldForm::mapping;
    } else if ((PyTuple_Check(object) || PyList_Check(object)) && !has_names) {
        form_ = FieldForm::sequence;
        if (static_cast<std::size_t>(PySequence_Fast_GET_SIZE(object)) != names.size())
            return make_error(ErrorCode::not_a_tensor, {"expected ", list_of(names), ", got a ", type_name(object), " of ",
                                                        PySequence_Fast_GET_SIZE(object), " objects"});
    } else if (has_base_of_package(Py_TYPE(object), "pyarrow") && PyObject_HasAttrString(object, "column") != 0) {
        form_ = FieldForm::columns;
    } else {
        sparse_format_ = find_sparse_format(object);
        const bool is_torch = !sparse_format_.empty() && has_base_of_package(Py_TYPE(object), "torch");
        const bool has_keys =
            sparse_format_.empty() && PyMapping_Check(object) != 0 && PyObject_HasAttrString(object, "keys") != 0;
        form_ = is_torch ? FieldForm::methods : has_keys ? FieldForm::mapping : FieldForm::attributes;
    }
    if (sparse_format_ == sparse_format || sparse_format_.empty()) return {};
    if (sparse_format.empty())
        return make_error(
            ErrorCode::bad_layout,
            {"got a ", type_name(object), " of sparse format ", sparse_format_,
             ", and the struct does not say which one it takes: static constexpr std::string_view sparse_format"});
    return Error(ErrorCode::bad_layout, ErrorKind::value,
                 concat({"expected sparse format ", sparse_format, ", got ", sparse_format_, ": ", type_name(object)}));
}

Ref FieldSource::get(int index, const char* name) const {
    const auto missing = [](PyObject* kind) {  // any other exception is reported
        if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(kind)) PyErr_Clear();
    };
    switch (form_) {
        case FieldForm::mapping: {
            Ref key(PyUnicode_FromString(key_of(name).c_str()));
            if (key && PyDict_Check(object_)) return dict_item(object_, key.get());  // a defaultdict makes no item for it
            Ref value(key ? PyObject_GetItem(object_, key.get()) : nullptr);
            if (!value) missing(PyExc_KeyError);
            return value;
        }
        case FieldForm::sequence:
            return sequence_item(object_, index);
        case FieldForm::columns: {
            Ref value(PyObject_CallMethod(object_, "column", "s", name));
            if (!value) missing(PyExc_KeyError);
            return value;
        }
        case FieldForm::methods:
            for (const TorchSparseField& field : torch_sparse_fields)
                if (field.format == sparse_format_ && field.name == name)
                    return Ref(PyObject_CallMethod(object_, field.method, nullptr));
            break;
        case FieldForm::attributes:
            break;
    }
    Ref value(PyObject_GetAttrString(object_, name));
    if (!value) missing(PyExc_AttributeError);
    return value;
}

}  // namespace detail

ISTHMUS_END
