// Trees of tensors: dicts, lists and tuples within each other.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/tree.h>

#include <optional>

#include <isthmus/python/binding.h>
#include "runtime/errors.h"
#include "runtime/lookups.h"
#include "runtime/names.h"

ISTHMUS_BEGIN

namespace detail {

/// Whether an object of a tree is neither a tensor nor a container: a number, a text, bytes or None. Scalars of NumPy
/// are numbers too, and come back as they were.
inline bool stays(PyObject* object) {
    return object == Py_None || PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) ||
           PyUnicode_Check(object) || PyBytes_Check(object) || has_base_called(Py_TYPE(object), "numpy.generic");
}
inline std::string joined(const std::string& path, std::string_view step) {
    return path.empty() ? std::string(step) : concat({path, ".", step});
}
/// As errors write it: "tree.layers.0".
inline std::string name_in_tree(const std::string& argument, const std::string& path) {
    return printable(path.empty() ? argument : joined(argument, path));
}

/// A level of CPython's recursion, left however the function ends: without memory that is by an exception of C++.
class RecursionLevel {
public:
    /// `doing`: of the RecursionError if there are too many.
    explicit RecursionLevel(const char* doing) : entered_(Py_EnterRecursiveCall(doing) == 0) {}
    RecursionLevel(const RecursionLevel&) = delete;
    RecursionLevel& operator=(const RecursionLevel&) = delete;
    ~RecursionLevel() {
        if (entered_) Py_LeaveRecursiveCall();
    }
    explicit operator bool() const noexcept { return entered_; }

private:
    bool entered_;
};

/// A tree of other tensors in the making. Its functions return an empty reference with a Python exception set, or what
/// error() says.
class TreeMaker {
public:
    explicit TreeMaker(std::span<const Tensor> tensors) : next_(tensors.data()), left_(tensors.size()) {}

    Ref make(PyObject* object) {
        const RecursionLevel level(" while a tree of tensors is made");
        return !level                  ? Ref()
               : PyDict_Check(object)  ? make_dict(object)
               : PyList_Check(object)  ? make_list(object)
               : PyTuple_Check(object) ? make_tuple(object)
               : stays(object)         ? Ref::borrow(object)
                                       : make_tensor(object);
    }
    /// Why there is no tree, of what make() gave.
    Error error(std::size_t expected) {
        if (refused_) return *std::move(refused_);
        if (PyErr_Occurred() != nullptr)
            return error_from_exception(ErrorCode::consumer_failed, nullptr, "making a tree");
        return make_error(ErrorCode::bad_argument,
                          {"the tree was changed after it was read: expected one of ", expected, " tensors"});
    }
    bool has_tensors_left() const noexcept { return left_ > 0; }

private:
    Ref make_tensor(PyObject* object) {
        if (left_ == 0) return {};
        --left_;
        return Ref(to_result(Reply{*next_++, object}));
    }
    Ref make_dict(PyObject* dict) {
        Ref made = PyDict_CheckExact(dict) ? Ref(PyDict_New()) : copy_of_container(dict);
        const Ref items(made ? PyDict_Items(dict) : nullptr);
        for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
            PyObject* item = PyList_GET_ITEM(items.get(), i);
            const Ref value = make(PyTuple_GET_ITEM(item, 1));
            if (!value) return {};
            if (PyObject_SetItem(made.get(), PyTuple_GET_ITEM(item, 0), value.get()) != 0)
                return refuse(dict, "setting an item");
        }
        return items ? std::move(made) : Ref();
    }
    /// The tensors of a list or tuple, and what stays, in a new list.
    Ref make_items(PyObject* sequence) {
        const Ref items = snapshot_of(sequence);
        Ref made(items ? PyList_New(0) : nullptr);
        for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(items.get()); ++i) {
            const Ref item = make(PyTuple_GET_ITEM(items.get(), i));
            if (!item || PyList_Append(made.get(), item.get()) != 0) return {};
        }
        return made;
    }
    Ref make_list(PyObject* list) {
        Ref items = make_items(list);
        if (!items || PyList_CheckExact(list)) return items;
        Ref made = copy_of_container(list);
        if (made && PyList_SetSlice(made.get(), 0, PY_SSIZE_T_MAX, items.get()) != 0) return {};
        return made;
    }
    /// A subclass is made by tuple's own constructor, since that of the class may want other arguments; if
    /// CPython says that this is not safe (the structs of C code), by that of the class.
    Ref make_tuple(PyObject* tuple) {
        const Ref list = make_items(tuple);
        Ref items(list ? PyList_AsTuple(list.get()) : nullptr);
        if (!items || PyTuple_CheckExact(tuple)) return items;
        auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tuple));
        Ref made(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyTuple_Type), "__new__", "OO", type, items.get()));
        if (!made && PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Clear();
            made = Ref(PyObject_CallOneArg(type, items.get()));
        }
        if (!made) return refuse(tuple, "its constructor");
        if (Py_TYPE(made.get()) != Py_TYPE(tuple)) return refuse(tuple, nullptr);
        return copy_attributes(tuple, made.get()) ? std::move(made) : refuse(tuple, "setting its attributes");
    }
    static bool copy_attributes(PyObject* from, PyObject* to) {
        const Ref name(PyUnicode_InternFromString("__dict__"));
        const Ref own(name ? PyObject_GetAttr(from, name.get()) : nullptr);
        if (!own) {
            if (PyErr_ExceptionMatches(PyExc_AttributeError)) PyErr_Clear();
            return PyErr_Occurred() == nullptr;
        }
        if (!PyDict_Check(own.get()) || PyDict_Size(own.get()) == 0) return true;
        const Ref fresh(PyObject_GetAttr(to, name.get()));
        return fresh && PyDict_Update(fresh.get(), own.get()) == 0;
    }
    /// An instance of a subclass of dict or list, with its attributes, as copy.copy() makes it.
    Ref copy_of_container(PyObject* container) {
        const Ref module(PyImport_ImportModule("copy"));
        Ref made(module ? PyObject_CallMethod(module.get(), "copy", "O", container) : nullptr);
        if (!made) return refuse(container, "copy.copy()");
        if (Py_TYPE(made.get()) != Py_TYPE(container) || made.get() == container) return refuse(container, nullptr);
        return made;
    }
    /// `what` raised the exception that is set; NULL: it gave something else. Always empty.
    ISTHMUS_COLD Ref refuse(PyObject* container, const char* what) {
        if (what != nullptr && !PyErr_ExceptionMatches(PyExc_Exception)) return {};  // an interrupt
        const std::string found =
            concat({"a ", type_name(container), " of the tree cannot be made again for other tensors"});
        if (what != nullptr)
            refused_ = error_from_exception(ErrorCode::consumer_failed, nullptr, {found, ": ", what});
        else
            refused_ = make_error(ErrorCode::consumer_failed, {found, ": copying it gives an object of another class"});
        return {};
    }

    const Tensor* next_;
    std::size_t left_;
    std::optional<Error> refused_;
};

}  // namespace detail

Result<Tree> Tree::from_py(PyObject* object, const ImportOptions& options) noexcept {
    if (!have_gil()) return detail::explain_no_gil(options.argument, "a tree is read");
    if (object == nullptr)
        return detail::make_error(ErrorCode::not_a_tensor, options.argument, "expected a tree, got a NULL PyObject*");
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
    if (!have_gil()) return detail::explain_no_gil(nullptr, "a tree is made");
    return detail::surviving_exit([&] {
        return detail::with_memory([&]() -> Result<PyObject*> {
            detail::TreeMaker maker(tensors);
            Ref made = maker.make(root);
            if (!made || maker.has_tensors_left()) return maker.error(tensors.size());
            return made.release();
        });
    });
}

Result<void> Tree::walk(PyObject* object, const std::string& argument, const std::string& path,
                        const ImportOptions& options) {
    const detail::RecursionLevel level(" while a tree of tensors is read");
    if (!level) return detail::error_from_exception(ErrorCode::bad_layout, argument.c_str(), "reading the tree");
    return PyDict_Check(object)                            ? walk_dict(object, argument, path, options)
           : PyTuple_Check(object) || PyList_Check(object) ? walk_list(object, argument, path, options)
                                                           : take(object, argument, path, options);
}
Result<void> Tree::walk_dict(PyObject* dict, const std::string& argument, const std::string& path,
                             const ImportOptions& options) {
    const Ref items(PyDict_Items(dict));  // reading a tensor may change the dict
    for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
        PyObject* item = PyList_GET_ITEM(items.get(), i);
        const Ref text(PyObject_Str(PyTuple_GET_ITEM(item, 0)));
        const std::string_view key = detail::utf8_of(text.get());
        if (key.data() == nullptr) {
            const std::string name = detail::name_in_tree(argument, path);
            return detail::error_from_exception(ErrorCode::producer_failed, name.c_str(), "a key of this dict");
        }
        if (auto done = walk(PyTuple_GET_ITEM(item, 1), argument, detail::joined(path, key), options); !done)
            return done;
    }
    return items ? Result<void>() : Error(ErrorCode::out_of_memory, "no memory for the items of a dict");
}
Result<void> Tree::walk_list(PyObject* list, const std::string& argument, const std::string& path,
                             const ImportOptions& options) {
    const Ref items = detail::snapshot_of(list);  // reading a tensor may change the list
    for (Py_ssize_t i = 0; items && i < PyTuple_GET_SIZE(items.get()); ++i) {
        PyObject* item = PyTuple_GET_ITEM(items.get(), i);
        if (auto done = walk(item, argument, detail::joined(path, std::to_string(i)), options); !done) return done;
    }
    return items ? Result<void>() : Error(ErrorCode::out_of_memory, "no memory for the items of a list");
}
Result<void> Tree::take(PyObject* object, const std::string& argument, const std::string& path,
                        const ImportOptions& options) {
    if (detail::stays(object)) return {};
    const std::string name = detail::name_in_tree(argument, path);
    ImportOptions named = options;
    named.argument = name.c_str();
    Result<Tensor> tensor = isthmus::from_py(object, named);
    if (!tensor) return std::move(tensor).error();
    leaves_.push_back({path, std::move(*tensor)});
    return {};
}

ISTHMUS_END
