// Owned: a typed argument that may be stored beyond the call, converted if its view says so.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

#include <utility>

ISTHMUS_BEGIN

/// An argument that may be stored beyond the call: a view, and the handle that keeps its memory. V is a View, a
/// Converted or an ArrayLike, and is checked, converted and named in errors as that argument would be.
///
///     struct Model {
///         Owned<Converted<View<const float, 2>>> weights;
///         explicit Model(Owned<Converted<View<const float, 2>>> w)
///             : weights(std::move(w)) {}
///         float first() const { return (*weights)(0, 0); }
///     };
///
/// The memory is the caller's own, or the converted copy. A copy of an Owned shares it, a move is free, and both may
/// end on any thread, with or without the GIL. As a result it is the tensor, as `return x.tensor()`.
template <class V>
class Owned {
public:
    static_assert(detail::is_view<V>,
                  "isthmus: an Owned is made of a View, a Converted or an ArrayLike; a Tensor already owns its memory");

    /// Of nothing: an empty handle, and a view without elements.
    Owned() noexcept = default;
    /// A tensor that is as V says; throws Error if it is not, or is empty.
    explicit Owned(Tensor tensor) : tensor_(std::move(tensor)), view_(view_of_all(tensor_)) {}
    Owned(const Owned&) noexcept = default;
    Owned(Owned&& other) noexcept : tensor_(std::move(other.tensor_)), view_(std::exchange(other.view_, V())) {}
    Owned& operator=(Owned other) noexcept {
        std::swap(tensor_, other.tensor_);
        std::swap(view_, other.view_);
        return *this;
    }
    ~Owned() = default;

    /// The view itself; `x->data()`, and `x` as a `const V&`, are the same. A copy of the view is valid as long as this
    /// object, or a copy of it.
    const V& operator*() const noexcept { return view_; }
    const V* operator->() const noexcept { return &view_; }
    /// As operator*.
    operator const V&() const noexcept { return view_; }
    /// The handle of its memory; empty if this is of nothing.
    const Tensor& tensor() const noexcept { return tensor_; }

private:
    template <class>
    friend struct detail::ArgumentLoader;

    Owned(Tensor tensor, const V& view) noexcept : tensor_(std::move(tensor)), view_(view) {}
    static V view_of_all(const Tensor& tensor) {
        if (!tensor) throw Error(ErrorCode::bad_argument, "an Owned is made of a tensor, got an empty handle");
        return tensor.template view<V>().value();
    }

    Tensor tensor_;
    V view_;
};

namespace detail {

#if !defined(ISTHMUS_BACKEND)
extern template class TensorSlot<Tensor>;
#endif

/// The handle moves from the slot to the value when the call is certain: until then a capsule can be made whole.
template <class V>
struct ArgumentLoader<Owned<V>> {
    using Value = Owned<V>;
    static_assert(!is_for_operators(V::requirement),
                  "isthmus: a formula or a run in sizes<> is for the parameters of operators");
    TensorSlot<Tensor> slot;

    Loaded try_load(PyObject* object, Value& value, bool last) noexcept {
        return show(slot.try_load(object, V::requirement, last), value);
    }
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument, Match* match) noexcept {
        return show(slot.load(object, V::requirement, function, argument, match), value);
    }
    bool commit(const char* function, const char* argument) noexcept {
        return slot.commit(function, argument) && take();
    }
    void commit_or_throw(const char* function = nullptr, const char* argument = nullptr) {
        slot.commit_or_throw(function, argument);
        take();
    }
    void roll_back(PyObject* object, Value& value) noexcept {
        slot.roll_back(object);
        isthmus::roll_back(object, value.tensor_);
        value = Value();
        shown_ = nullptr;
    }
    void note(PyObject* object, const void* call, Value&) noexcept { slot.note(object, call); }

private:
    Loaded show(Loaded loaded, Value& value) noexcept {
        const bool fits = ISTHMUS_LIKELY(loaded == Loaded::yes);
        shown_ = fits ? &value : nullptr;
        if (fits) value = Value(Tensor(), view_of<V>(slot.descriptor()));
        return loaded;
    }
    bool take() noexcept {
        if (shown_ != nullptr) std::exchange(shown_, nullptr)->tensor_ = slot.take();
        return true;
    }

    Value* shown_ = nullptr;  // in the caller's hands, which outlive this; NULL once it has the handle
};

/// What a returned Owned is in a signature.
template <class V>
struct OwnedWords {
    static constexpr char result[] = "isthmus.Tensor";
};
template <class T, int N, class... C>
    requires NumpyElement<T>
struct OwnedWords<View<T, N, C...>> {
    static constexpr char result[] = "numpy.ndarray";
};

/// A returned Owned as a new reference; NULL with the exception set. `like` is the first tensor argument of the call.
template <class V>
PyObject* owned_to_py(const Owned<V>& owned, PyObject* like, PyObject* parent = nullptr) noexcept {
    if constexpr (requires { result_to_py(owned); })  // of isthmus/records.h
        return result_to_py(owned);
    else
        return to_default_result(owned.tensor(), like, parent);
}

}  // namespace detail

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_OWNED)
#endif

#if defined(ISTHMUS_IMPLEMENTATION) && !defined(ISTHMUS_CALL_ARGUMENTS) && !defined(ISTHMUS_RECORDS)
#include <isthmus/python.h>  // last: it brings the sources, which need the above
#endif
