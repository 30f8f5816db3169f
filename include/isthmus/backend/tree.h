// Tree in a module of the stable ABI, for isthmus/tree.h: the backend walks the objects, the module keeps the leaves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/backend/bridge.h>

ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_TREE)

ISTHMUS_BEGIN

inline Result<Tree> Tree::from_py(PyObject* object, const ImportOptions& options) noexcept {
    Tree tree(object);
    Result<void> walked = detail::backend::walk_tree(
        object, options, &tree.leaves_, [](void* to, detail::TextRef path, Tensor& tensor) noexcept {
            try {
                static_cast<std::vector<Leaf>*>(to)->push_back({std::string(path), std::move(tensor)});
                return true;
            } catch (const std::bad_alloc&) {
                return false;
            }
        });
    if (!walked) return std::move(walked).error();
    return Result<Tree>(std::move(tree));
}

ISTHMUS_END
