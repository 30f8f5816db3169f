// len(), [] and iteration of isthmus.Tensor: views of the same memory, as NumPy's basic indexing makes them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../runtime/shared_runtime.h"  // Python.h must come before any standard header

#include <isthmus/core/rearrange.h>
#include "../../core/validate.h"

ISTHMUS_BEGIN

namespace detail {

/// The part of a tensor that an index selects. Its functions return false with a Python exception set.
class Indexed {
public:
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-member-init): sizes_ and strides_, below
    explicit Indexed(const DLTensor& t) noexcept : from_(t), has_elements_(layout::numel(t) > 0) {}

    bool apply(PyObject* index) {
        const bool several = PyTuple_Check(index);
        PyObject* const* items = several ? &PyTuple_GET_ITEM(index, 0) : &index;
        const Py_ssize_t count = several ? PyTuple_GET_SIZE(index) : 1;
        Py_ssize_t ellipses = 0;
        for (Py_ssize_t i = 0; i < count; ++i) ellipses += items[i] == Py_Ellipsis;
        if (ellipses > 1) return fail("an index has one Ellipsis at most");
        if (count - ellipses > from_.ndim) {
            PyErr_Format(PyExc_IndexError, "%zd indices for a tensor of %d dimensions", count - ellipses, from_.ndim);
            return false;
        }
        const int skipped = from_.ndim - static_cast<int>(count - ellipses);
        for (Py_ssize_t i = 0; i < count; ++i)
            if (!(items[i] == Py_Ellipsis ? keep(skipped) : add(items[i]))) return false;
        return keep(from_.ndim - next_);
    }
    /// Index `i` of the first dimension, which counts from the start.
    bool select_first(Py_ssize_t i) { return pick(i, false) && keep(from_.ndim - next_); }

    /// The description of that part, valid as long as this object. Throws Error if packed elements cannot be shown so:
    /// if it begins within a byte, or has gaps.
    DLTensor tensor(bool padded) {
        DLTensor t = from_;
        t.ndim = ndim_;
        t.shape = sizes_;
        t.strides = strides_;
        move_first_element(t, has_elements_ && layout::numel(t) > 0 ? first_ : 0, padded);
        const Flags flags = padded ? flag::padded : 0;
        if (ISTHMUS_UNLIKELY(DType(t.dtype).is_subbyte()) && !is_sound(t, flags)) {
            const Error error = explain_unsound(t, flags, nullptr);
            throw Error(error.code(), ErrorKind::value, error.what());
        }
        return t;
    }

private:
    static bool fail(const char* text) {
        PyErr_SetString(PyExc_IndexError, text);
        return false;
    }
    bool keep(int dimensions) noexcept {
        for (; dimensions > 0; --dimensions, ++next_) push(from_.shape[next_], from_.strides[next_]);
        return true;
    }
    void push(std::int64_t size, std::int64_t stride) noexcept {
        sizes_[ndim_] = size;
        strides_[ndim_++] = stride;
    }
    bool add(PyObject* item) {
        if (PySlice_Check(item)) return cut(item);
        if (!PyIndex_Check(item) || PyBool_Check(item)) {
            PyErr_Format(
                PyExc_TypeError,
                "an isthmus.Tensor is indexed by integers, slices and an Ellipsis, not by %.200s; for all else take an "
                "array of it: x.to('numpy')",
                Py_TYPE(item)->tp_name);
            return false;
        }
        const Py_ssize_t i = PyNumber_AsSsize_t(item, PyExc_IndexError);
        return (i != -1 || PyErr_Occurred() == nullptr) && pick(i, true);
    }
    bool pick(Py_ssize_t i, bool may_be_negative) {
        const std::int64_t size = from_.shape[next_];
        const std::int64_t found = i < 0 && may_be_negative ? i + size : i;
        if (found < 0 || found >= size) {
            PyErr_Format(PyExc_IndexError, "index %zd is out of bounds for dimension %d of size %lld", i, next_,
                         static_cast<long long>(size));
            return false;
        }
        if (has_elements_) first_ += found * from_.strides[next_];
        ++next_;
        return true;
    }
    bool cut(PyObject* slice) {
        Py_ssize_t start = 0, stop = 0, step = 0;
        if (PySlice_Unpack(slice, &start, &stop, &step) != 0) return false;
        const Py_ssize_t size = PySlice_AdjustIndices(from_.shape[next_], &start, &stop, step);
        const std::int64_t stride = from_.strides[next_++];
        if (size > 0 && has_elements_) first_ += start * stride;
        push(size, size > 1 && has_elements_ ? stride * step : stride);
        return true;
    }

    const DLTensor& from_;
    const bool has_elements_;
    std::int64_t sizes_[max_ndim], strides_[max_ndim];  // of the first ndim_ dimensions; zeros in all cost 30 ns
    std::int64_t first_ = 0;                            ///< in elements, from the first one
    int ndim_ = 0, next_ = 0;
};

inline PyObject* tensor_part(Block* block, Indexed& indexed) {
    return guarded([&] {
        const DLTensor t = indexed.tensor((block->flags & flag::padded) != 0);
        Block* alias = alias_wrapped_block(block, t, block->flags & (flag::read_only | flag::padded));
        return alias != nullptr ? new_tensor_object(alias) : PyErr_NoMemory();
    });
}
inline PyObject* tensor_subscript(PyObject* self, PyObject* index) {
    Block* block = block_of(self);
    if (block == nullptr) return nullptr;
    Indexed indexed(block->dl);
    return indexed.apply(index) ? tensor_part(block, indexed) : nullptr;
}
inline bool has_length(const Block* block) {
    if (block->dl.ndim > 0) return true;
    PyErr_SetString(PyExc_TypeError, "a tensor of 0 dimensions has no len() and no items");
    return false;
}
/// One item, for iteration.
inline PyObject* tensor_item(PyObject* self, Py_ssize_t i) {
    Block* block = block_of(self);
    if (block == nullptr || !has_length(block)) return nullptr;
    Indexed indexed(block->dl);
    return indexed.select_first(i) ? tensor_part(block, indexed) : nullptr;
}
inline Py_ssize_t tensor_length(PyObject* self) {
    const Block* block = block_of(self);
    return block != nullptr && has_length(block) ? static_cast<Py_ssize_t>(block->dl.shape[0]) : -1;
}
/// Of one element it would be that element, which may lie on a device; of more there is none.
inline int tensor_bool(PyObject*) {
    PyErr_SetString(
        PyExc_TypeError,
        "an isthmus.Tensor is neither true nor false: compare it with None, or take an array of it: x.to('numpy')");
    return -1;
}
/// Without this, `in` would compare each part as an object, and never find a number.
inline int tensor_contains(PyObject*, PyObject*) {
    PyErr_SetString(PyExc_TypeError,
                    "an isthmus.Tensor does not look for its elements: ask an array of it: value in x.to('numpy')");
    return -1;
}
/// Without this, float() and int() would read the bytes of its buffer as text: 12 of a uint8 tensor of "12".
inline PyObject* tensor_number(PyObject*) {
    PyErr_SetString(PyExc_TypeError,
                    "an isthmus.Tensor is not a number: take an array of it, and of that the element: "
                    "x.to('numpy').item()");
    return nullptr;
}

}  // namespace detail

ISTHMUS_END
