// PyOwner: a Python object as the owner of memory of C++.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <concepts>
#include <utility>

#include <isthmus/core/block.h>

ISTHMUS_BEGIN

/// A Python object that keeps memory of C++ alive: the instance whose member it is, a capsule, a module.
///
///     Tensor::wrap(grid.cells, {grid.h, grid.w}, {}, float32, Device::cpu(), PyOwner(self))
///
/// Holds a reference, which the tensor takes over: it is released on whatever thread the last handle is dropped,
/// with the GIL, also while the interpreter ends; never to a later interpreter than its own. In Python it is the
/// tensor's
/// `.owner`, and the garbage collector sees it. The GIL must be held when one is made. Throws Error if the object is
/// NULL, or the interpreter is not the one in use.
class PyOwner {
public:
    /// A new reference to `object`.
    explicit PyOwner(PyObject* object) : object_(checked(object)), ops_(keeper()) { Py_INCREF(object); }
    /// The same of what a binder makes of a reference: nb::handle, py::handle, and what derives from them.
    template <class Handle>
        requires requires(const Handle& handle) {
            { handle.ptr() } -> std::same_as<PyObject*>;
        }
    explicit PyOwner(const Handle& handle) : PyOwner(handle.ptr()) {}
    explicit PyOwner(const Ref& object) : PyOwner(object.get()) {}
    PyOwner(PyOwner&& other) noexcept : object_(other.release()), ops_(other.ops_) {}
    PyOwner& operator=(PyOwner&& other) noexcept {
        std::swap(object_, other.object_);
        std::swap(ops_, other.ops_);
        return *this;
    }
    ~PyOwner() {
        if (object_ != nullptr) ops_->release(object_);
    }

    /// Borrowed; NULL once a tensor has taken it over.
    PyObject* object() const noexcept { return object_; }

    /// For layers above (Tensor): the reference, which the caller releases through owner_ops().
    PyObject* release() noexcept { return std::exchange(object_, nullptr); }
    const detail::OwnerOps& owner_ops() const noexcept { return *ops_; }

private:
    friend struct detail::BackendAccess;
    static PyObject* checked(PyObject* object);
    static const detail::OwnerOps* keeper() noexcept;

    PyObject* object_;
    const detail::OwnerOps* ops_;  // of the session that the object belongs to
};

ISTHMUS_END
