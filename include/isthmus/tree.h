// Trees of tensors: dicts, lists and tuples within each other, for code that walks them without knowing their names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <span>
#include <string>
#include <vector>

ISTHMUS_BEGIN

/// The tensors of a tree of dicts, lists and tuples (named ones too), in its order. An object that is neither a tensor
/// nor one of these and is a number, a text or None stays as it is; anything else is an error. Holds the tree, and ends
/// with the GIL held.
///
///     // {"layers": [{"w": a, "b": b}], "step": 3}: "layers.0.w", "layers.0.b".
///     const auto tree = Tree::from_py(object).value();
///     for (const auto& leaf : tree.leaves()) use(leaf.path, leaf.tensor);
///     PyObject* result = tree.to_py(new_tensors).value();  // the same tree of other tensors
class Tree {
public:
    /// One tensor of a tree, with its place.
    struct Leaf {
        std::string path;  ///< keys and places, with dots between them; empty if the tree is one tensor
        Tensor tensor;     ///< the tensor there
    };

    /// All tensors of `object`, or the Error of the first that is none, which names its path.
    static Result<Tree> from_py(PyObject* object, const ImportOptions& options = {}) noexcept;
    /// The tensors in the tree's order; valid as long as this object.
    std::span<const Leaf> leaves() const noexcept { return leaves_; }

    /// The tree with other tensors in place of its tensors, one for each, in their order; each in the framework of the
    /// one that was there: a new reference. Subclasses of dict, list and tuple stay what they are, with their
    /// attributes; an Error if they cannot be copied, or if the tree was changed since it was read.
    Result<PyObject*> to_py(std::span<const Tensor> tensors) const noexcept {
        return rebuild(root_.get(), leaves_.size(), tensors);
    }

private:
    friend struct detail::BackendAccess;
    explicit Tree(PyObject* root) : root_(Ref::borrow(root)) {}
    static Result<PyObject*> rebuild(PyObject* root, std::size_t expected, std::span<const Tensor> tensors) noexcept;
    Result<void> walk(PyObject* object, const std::string& argument, const std::string& path,
                      const ImportOptions& options);
    Result<void> walk_dict(PyObject* dict, const std::string& argument, const std::string& path,
                           const ImportOptions& options);
    Result<void> walk_list(PyObject* list, const std::string& argument, const std::string& path,
                           const ImportOptions& options);
    Result<void> take(PyObject* object, const std::string& argument, const std::string& path,
                      const ImportOptions& options);

    Ref root_;
    std::vector<Leaf> leaves_;
};

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/tree.h>
#endif

#include <isthmus/python.h>  // last: with ISTHMUS_IMPLEMENTATION it brings the sources, which need the above
