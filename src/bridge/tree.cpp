// Trees of tensors: dicts, lists and tuples within each other.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/tree.h>

#include <isthmus/python/binding.h>
#include "runtime/errors.h"

ISTHMUS_BEGIN

namespace detail {

/// Whether an object of a tree is neither a tensor nor a container.
inline bool stays(PyObject* object) noexcept {
    return object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) ||
           PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object);
}
inline std::string joined(const std::string& path, std::string_view step) {
    return path.empty() ? std::string(step) : concat({path, ".", step});
}

inline Ref rebuild_tree_dict(PyObject* dict, const Tensor*& next);
inline Ref rebuild_tree_list(PyObject* list, const Tensor*& next);
/// A new reference; none with an exception set.
inline Ref rebuild_tree(PyObject* object, const Tensor*& next) {
    if (Py_EnterRecursiveCall(" while a tree of tensors is made")) return {};
    Ref made = PyDict_Check(object)                            ? rebuild_tree_dict(object, next)
               : PyTuple_Check(object) || PyList_Check(object) ? rebuild_tree_list(object, next)
               : stays(object)                                 ? Ref::borrow(object)
                                                               : Ref(to_result(Reply{*next++, object}));
    Py_LeaveRecursiveCall();
    return made;
}
inline Ref rebuild_tree_dict(PyObject* dict, const Tensor*& next) {
    Ref made(PyDict_CheckExact(dict) ? PyDict_New() : PyObject_CallMethod(dict, "copy", nullptr));
    const Ref items(PyDict_Items(dict));
    for (Py_ssize_t i = 0; items && made && i < PyList_GET_SIZE(items.get()); ++i) {
        PyObject* item = PyList_GET_ITEM(items.get(), i);
        const Ref value = rebuild_tree(PyTuple_GET_ITEM(item, 1), next);
        if (!value || PyObject_SetItem(made.get(), PyTuple_GET_ITEM(item, 0), value.get()) != 0) return {};
    }
    return items ? std::move(made) : Ref();
}
inline Ref rebuild_tree_list(PyObject* list, const Tensor*& next) {
    Ref made(PyList_New(0));
    for (Py_ssize_t i = 0; made && i < PySequence_Fast_GET_SIZE(list); ++i) {
        const Ref old = sequence_item(list, i);
        const Ref item = old ? rebuild_tree(old.get(), next) : Ref();
        if (!item || PyList_Append(made.get(), item.get()) != 0) return {};
    }
    if (!made || PyList_CheckExact(list)) return made;
    if (PyTuple_CheckExact(list)) return Ref(PyList_AsTuple(made.get()));
    auto* type = reinterpret_cast<PyObject*>(Py_TYPE(list));
    return Ref(PyObject_HasAttrString(list, "_make") != 0 ? PyObject_CallMethod(type, "_make", "O", made.get())
                                                          : PyObject_CallOneArg(type, made.get()));
}

}  // namespace detail

Result<Tree> Tree::from_py(PyObject* object, const ImportOptions& options) noexcept {
    return detail::surviving_exit([&] {
        return detail::with_memory([&]() -> Result<Tree> {
            Tree tree(object);
            Result<void> walked = tree.walk(object, options.argument != nullptr ? options.argument : "", "", options);
            if (!walked) return std::move(walked).error();
            return Result<Tree>(std::move(tree));  // nvcc 12 moves no local variable into another type
        });
    });
}

Result<PyObject*> Tree::rebuild(PyObject* root, std::size_t expected, std::span<const Tensor> tensors) noexcept {
    if (tensors.size() != expected)
        return detail::make_error(ErrorCode::bad_argument,
                                  {"argument 'tensors': found ", tensors.size(), " tensors; expected ", expected,
                                   ", one for each of the tree"});
    return detail::surviving_exit([&]() -> Result<PyObject*> {
        const Tensor* next = tensors.data();
        Ref made = detail::rebuild_tree(root, next);
        if (!made) return detail::error_from_exception(ErrorCode::consumer_failed, nullptr, "making a tree");
        return made.release();
    });
}

Result<void> Tree::walk(PyObject* object, const std::string& argument, const std::string& path,
                        const ImportOptions& options) {
    if (Py_EnterRecursiveCall(" while a tree of tensors is read"))
        return detail::error_from_exception(ErrorCode::bad_layout, nullptr, "reading the tree");
    Result<void> done = PyDict_Check(object)                            ? walk_dict(object, argument, path, options)
                        : PyTuple_Check(object) || PyList_Check(object) ? walk_list(object, argument, path, options)
                                                                        : take(object, argument, path, options);
    Py_LeaveRecursiveCall();
    return done;
}
Result<void> Tree::walk_dict(PyObject* dict, const std::string& argument, const std::string& path,
                             const ImportOptions& options) {
    const Ref items(PyDict_Items(dict));  // reading a tensor may change the dict
    for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
        PyObject* item = PyList_GET_ITEM(items.get(), i);
        const Ref text(PyObject_Str(PyTuple_GET_ITEM(item, 0)));
        const std::string_view key = detail::utf8_of(text.get());
        if (key.data() == nullptr)
            return detail::error_from_exception(ErrorCode::producer_failed, nullptr, "a key of the tree");
        if (auto done = walk(PyTuple_GET_ITEM(item, 1), argument, detail::joined(path, key), options); !done)
            return done;
    }
    return items ? Result<void>() : Error(ErrorCode::out_of_memory, "no memory for the items of a dict");
}
Result<void> Tree::walk_list(PyObject* list, const std::string& argument, const std::string& path,
                             const ImportOptions& options) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i) {
        const Ref item = detail::sequence_item(list, i);
        if (!item) return detail::error_from_exception(ErrorCode::producer_failed, nullptr, "reading the tree");
        if (auto done = walk(item.get(), argument, detail::joined(path, std::to_string(i)), options); !done)
            return done;
    }
    return {};
}
Result<void> Tree::take(PyObject* object, const std::string& argument, const std::string& path,
                        const ImportOptions& options) {
    if (detail::stays(object)) return {};
    const std::string name = detail::printable(path.empty() ? argument : detail::joined(argument, path));
    ImportOptions named = options;
    named.argument = name.c_str();
    Result<Tensor> tensor = isthmus::from_py(object, named);
    if (!tensor) return std::move(tensor).error();
    leaves_.push_back({path, std::move(*tensor)});
    return {};
}

ISTHMUS_END
