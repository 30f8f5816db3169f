// A struct of tensors as a result, in the form of an argument: a dict, a dataclass, a sparse matrix, ….
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/fields/reply.h>

ISTHMUS_BEGIN

namespace detail {

/// Built in Python: by constructors and helpers of the libraries that the objects come from.
inline constexpr const char* rebuild_source = R"(
def rebuild(like, sparse_format, fields):
    import copy, dataclasses, sys
    kind = type(like)
    if sparse_format:
        shape = tuple(fields.get('shape', like.shape))
        parts = fields['data'], fields['indices'], fields['indptr']
        if kind.__module__.partition('.')[0] != 'torch':
            return kind(parts, shape=shape)
        torch = sys.modules['torch']
        make = {'csr': torch.sparse_csr_tensor, 'csc': torch.sparse_csc_tensor}[sparse_format]
        return make(*reversed(parts), size=shape)
    if dataclasses.is_dataclass(like):
        return dataclasses.replace(like, **fields)
    if isinstance(like, tuple) and hasattr(like, '_replace'):
        return like._replace(**fields)
    if isinstance(like, (tuple, list)):
        return kind(fields.values())
    if hasattr(like, 'column') and hasattr(like, 'schema'):
        arrow = sys.modules['pyarrow']
        return kind.from_arrays([arrow.array(fields[name]) for name in fields], names=list(fields))
    made = copy.copy(like)
    for name, value in fields.items():
        setattr(made, name, value)
    return made
)";
ISTHMUS_STATE PerLife<PyObject*> rebuild_function;

/// Borrowed; valid in this life of the interpreter. NULL with a Python exception set.
inline PyObject* find_rebuild_function() {
    if (*rebuild_function != nullptr) return *rebuild_function;
    Ref names(PyDict_New());
    if (!names || !start_life() || PyDict_SetItemString(names.get(), "__builtins__", PyEval_GetBuiltins()) != 0) return nullptr;
    Ref done(PyRun_String(rebuild_source, Py_file_input, names.get(), names.get()));
    Ref function = done ? dict_item(names.get(), "rebuild") : Ref();
    if (function && rebuild_function.keep(function.get())) (void)function.release();
    return *rebuild_function;
}

PyObject* rebuild_fields(PyObject* like, FieldForm form, const std::string& sparse_format, PyObject* fields) {
    if (like == nullptr || form == FieldForm::mapping) return Py_NewRef(fields);
    PyObject* function = find_rebuild_function();
    return function != nullptr ? PyObject_CallFunction(function, "Os#O", like, sparse_format.data(),
                                                       static_cast<Py_ssize_t>(sparse_format.size()), fields)
                               : nullptr;
}

}  // namespace detail

ISTHMUS_END
