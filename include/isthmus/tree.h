// Trees of tensors: dicts, lists and tuples within each other, for code that walks them without knowing their names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <span>
#include <string>
#include <vector>

#include <isthmus/python/binding.h>

ISTHMUS_BEGIN

/// The tensors of a tree of dicts, lists and tuples (named ones too), in its order. What is neither a tensor nor one of these
/// and is a number, a text or None stays as it is; anything else is an error. Holds the tree, and ends with the GIL held.
///
///     const auto tree = Tree::from_py(object).value();          // {"layers": [{"w": a, "b": b}], "step": 3}
///     for (const auto& leaf : tree.leaves()) use(leaf.path, leaf.tensor);  // "layers.0.w", "layers.0.b"
///     PyObject* result = tree.to_py(new_tensors).value();       // the same tree of other tensors
class Tree {
public:
    /// One tensor of a tree, with its place.
    struct Leaf {
        std::string path;  ///< keys and places, with dots between them; empty where the tree is one tensor
        Tensor tensor;     ///< the tensor there
    };

    /// All tensors of `object`, or the Error of the first that is none, which names its path.
    static Result<Tree> from_py(PyObject* object, const ImportOptions& options = {}) noexcept {
        return detail::surviving_exit([&]() -> Result<Tree> {
            Tree tree(object);
            Result<void> walked = tree.walk(object, options.argument != nullptr ? options.argument : "", "", options);
            if (!walked) return std::move(walked).error();
            return Result<Tree>(std::move(tree));  // nvcc 12 moves no local variable into another type
        });
    }
    /// The tensors in the tree's order; valid as long as this object.
    std::span<const Leaf> leaves() const noexcept { return leaves_; }

    /// The tree with other tensors in the places of its own, one for each, in their order; each in the framework of the one
    /// that was there: a new reference.
    Result<PyObject*> to_py(std::span<const Tensor> tensors) const noexcept {
        if (tensors.size() != leaves_.size())
            return detail::make_error(ErrorCode::bad_argument,
                                      {"argument 'tensors': found ", tensors.size(), " tensors; wanted ", leaves_.size(),
                                       ", one for each of the tree"});
        return detail::surviving_exit([&]() -> Result<PyObject*> {
            const Tensor* next = tensors.data();
            Ref made = rebuild(root_.get(), next);
            if (!made) return detail::error_from_exception(ErrorCode::consumer_failed, nullptr, "making a tree");
            return made.release();
        });
    }

private:
    explicit Tree(PyObject* root) : root_(Ref::borrow(root)) {}

    static bool stays(PyObject* object) noexcept {
        return object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) ||
               PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object);
    }
    static std::string joined(const std::string& path, std::string_view step) {
        return path.empty() ? std::string(step) : detail::concat({path, ".", step});
    }

    Result<void> walk(PyObject* object, const std::string& argument, const std::string& path, const ImportOptions& options) {
        if (Py_EnterRecursiveCall(" while a tree of tensors is read"))
            return detail::error_from_exception(ErrorCode::bad_layout, nullptr, "reading the tree");
        Result<void> done = PyDict_Check(object)                            ? walk_dict(object, argument, path, options)
                            : PyTuple_Check(object) || PyList_Check(object) ? walk_list(object, argument, path, options)
                                                                            : take(object, argument, path, options);
        Py_LeaveRecursiveCall();
        return done;
    }
    Result<void> walk_dict(PyObject* dict, const std::string& argument, const std::string& path, const ImportOptions& options) {
        const Ref items(PyDict_Items(dict));  // reading a tensor may change the dict
        for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
            PyObject* item = PyList_GET_ITEM(items.get(), i);
            const Ref text(PyObject_Str(PyTuple_GET_ITEM(item, 0)));
            const std::string_view key = detail::utf8_of(text.get());
            if (key.data() == nullptr)
                return detail::error_from_exception(ErrorCode::producer_failed, nullptr, "a key of the tree");
            if (auto done = walk(PyTuple_GET_ITEM(item, 1), argument, joined(path, key), options); !done) return done;
        }
        return items ? Result<void>() : Error(ErrorCode::out_of_memory, "no memory for the items of a dict");
    }
    Result<void> walk_list(PyObject* list, const std::string& argument, const std::string& path, const ImportOptions& options) {
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list); ++i) {
            const Ref item = detail::sequence_item(list, i);
            if (!item) return detail::error_from_exception(ErrorCode::producer_failed, nullptr, "reading the tree");
            if (auto done = walk(item.get(), argument, joined(path, std::to_string(i)), options); !done) return done;
        }
        return {};
    }
    Result<void> take(PyObject* object, const std::string& argument, const std::string& path, const ImportOptions& options) {
        if (stays(object)) return {};
        const std::string name = detail::printable(path.empty() ? argument : joined(argument, path));
        ImportOptions named = options;
        named.argument = name.c_str();
        Result<Tensor> tensor = isthmus::from_py(object, named);
        if (!tensor) return std::move(tensor).error();
        leaves_.push_back({path, std::move(*tensor)});
        return {};
    }

    /// A new reference; none with an exception set.
    static Ref rebuild(PyObject* object, const Tensor*& next) {
        if (Py_EnterRecursiveCall(" while a tree of tensors is made")) return {};
        Ref made = PyDict_Check(object)                            ? rebuild_dict(object, next)
                   : PyTuple_Check(object) || PyList_Check(object) ? rebuild_list(object, next)
                   : stays(object)                                 ? Ref::borrow(object)
                                                                   : Ref(detail::to_result(Reply{*next++, object}));
        Py_LeaveRecursiveCall();
        return made;
    }
    static Ref rebuild_dict(PyObject* dict, const Tensor*& next) {
        Ref made(PyDict_CheckExact(dict) ? PyDict_New() : PyObject_CallMethod(dict, "copy", nullptr));
        const Ref items(PyDict_Items(dict));
        for (Py_ssize_t i = 0; items && made && i < PyList_GET_SIZE(items.get()); ++i) {
            PyObject* item = PyList_GET_ITEM(items.get(), i);
            const Ref value = rebuild(PyTuple_GET_ITEM(item, 1), next);
            if (!value || PyObject_SetItem(made.get(), PyTuple_GET_ITEM(item, 0), value.get()) != 0) return {};
        }
        return items ? std::move(made) : Ref();
    }
    static Ref rebuild_list(PyObject* list, const Tensor*& next) {
        Ref made(PyList_New(0));
        for (Py_ssize_t i = 0; made && i < PySequence_Fast_GET_SIZE(list); ++i) {
            const Ref old = detail::sequence_item(list, i);
            const Ref item = old ? rebuild(old.get(), next) : Ref();
            if (!item || PyList_Append(made.get(), item.get()) != 0) return {};
        }
        if (!made || PyList_CheckExact(list)) return made;
        if (PyTuple_CheckExact(list)) return Ref(PyList_AsTuple(made.get()));
        auto* type = reinterpret_cast<PyObject*>(Py_TYPE(list));
        return Ref(PyObject_HasAttrString(list, "_make") != 0 ? PyObject_CallMethod(type, "_make", "O", made.get())
                                                              : PyObject_CallOneArg(type, made.get()));
    }

    Ref root_;
    std::vector<Leaf> leaves_;
};

ISTHMUS_END
