// For binders: one tensor argument, held for the length of a call or owned, and arrays that need no holding.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <bit>

#include <isthmus/core/view/match.h>

ISTHMUS_BEGIN

namespace detail {

/// The outcome of loading one argument.
enum class Loaded : std::uint8_t {
    yes,
    no,      ///< it is something else: the next overload is to be tried
    raised,  ///< the exception is set
};

/// Decided quickly, so that trying an overload with a number does not ask every protocol.
bool is_no_tensor(PyObject* object) noexcept;
/// Whether no other overload is to be tried, and no other text to be reported.
bool passes_through(const Error& error) noexcept;
/// Like set_python_error(); an exception that passes_through() stays the producer's own.
ISTHMUS_RARE Loaded raise_in_call(const Error& error) noexcept;
/// The meaning of a failed import while overloads are tried.
ISTHMUS_RARE Loaded pass_on(const Error& error, bool last) noexcept;
/// A failed import as an error of the call. Read-only memory is an argument that does not fit, as a wrong dtype is.
ISTHMUS_RARE Error argument_error(const Error& error, const char* function);

/// Says that `loader` holds a tensor argument of `call`, until it ends with its overload: a result follows the one that
/// ran. Without memory for it nothing is noted.
void note_like(const void* loader, PyObject* object, const void* call) noexcept;
/// The first of the call on this thread; NULL if there is none.
PyObject* find_like(const void* call) noexcept;

/// One tensor of a call: borrowed for its length (H is Borrowed), or owned (Tensor). One class serves the views of all
/// types: each has its Requirement.
template <class H>
class TensorSlot {
public:
    TensorSlot() noexcept {}
    ~TensorSlot() { clear(); }
    TensorSlot(const TensorSlot&) = delete;
    TensorSlot& operator=(const TensorSlot&) = delete;

    /// Passes on an object that is not such a tensor, without an error text, unless the failure must not be swallowed
    /// (an interrupt) or is the reason why no overload takes it (`last`).
    Loaded try_load(PyObject* object, const Requirement& r, bool last) noexcept;
    /// Raises for an object that is not such a tensor. `match` knows the sizes that earlier arguments of the call have
    /// named; NULL if there are none.
    Loaded load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                Match* match) noexcept;
    /// Whether it holds nothing.
    bool is_empty() const noexcept { return !made_ && !noted_; }
    /// After a load has succeeded: whether neither commit() nor the end has anything to do; what was imported.
    bool is_done() const noexcept {
        if constexpr (std::is_same_v<H, Tensor>)
            return false;  // it is to be taken
        else
            return !made_ || (result_->ops_ == nullptr && pending_ == nullptr);
    }
    const DLTensor& descriptor() const noexcept { return result_->descriptor(); }
    /// After a commit; the slot is then empty.
    H take() noexcept { return std::move(*result_); }

    /// Call when every argument of the call has been found to fit: autograd is notified of a write, once, and a capsule
    /// is taken. Until then the call may be refused for another reason, and the capsule is whole again when the slot
    /// ends. False with the exception set.
    ISTHMUS_ALWAYS_INLINE bool commit(const char* function, const char* argument) noexcept {
        return ISTHMUS_LIKELY(pending_ == nullptr) || commit_or_raise(function, argument);
    }
    /// The same without the GIL; throws the Error.
    void commit_or_throw(const char* function, const char* argument) {
        if (ISTHMUS_UNLIKELY(pending_ != nullptr)) commit_now(function, argument).value();
    }
    /// Call after a load, if the call is refused for another reason: a capsule can then be consumed again.
    void roll_back(PyObject* object) noexcept;
    /// As note_like(), which ends with what was borrowed.
    void note(PyObject* object, const void* call) noexcept { noted_ = true, note_like(this, object, call); }

private:
    friend struct BackendAccess;
    bool read_array(PyObject* object, const Requirement& r) noexcept;
    bool read(PyObject* object, const Requirement& r, const char* argument) noexcept;
    Result<void> check_object(PyObject*, const Requirement&, const char* function, const char* argument, Match*,
                              bool is_read) noexcept;
    Result<void> convert(PyObject* object, const Requirement& r, const char* argument, Match& match) noexcept;
    Result<void> convert_object(PyObject* object, const Requirement& r, const char* argument, Match& match) noexcept;
    Result<void> commit_now(const char* function, const char* argument) noexcept;
    bool commit_or_raise(const char* function, const char* argument) noexcept;
    void clear() noexcept {
        if (!is_empty()) end();
    }
    void end() noexcept;

    union {
        Result<H> result_;
    };
    bool made_ = false, noted_ = false;
    PyObject* pending_ = nullptr;  // the object, if commit() has anything to do; borrowed from the caller
};
using BorrowSlot = TensorSlot<Borrowed>;
#if !defined(ISTHMUS_BACKEND)
extern template class TensorSlot<Borrowed>;
#endif

/// An array of NumPy's, valid while the caller holds it and nobody reshapes it. The strides are in bytes: whole
/// elements where a dimension has more than one, since the array is contiguous.
struct ArrayParts {
    void* data;
    const std::int64_t* sizes;
    const std::int64_t* strides;
};
/// False for all but most arrays of NumPy's that meet `r`, the requirement of a view that shows_arrays; the others a
/// slot loads.
bool show_array(PyObject* object, const Requirement& r, ArrayParts& parts) noexcept;
/// Whether a view asks for one dtype as it lies in an array, one rank and no sizes: of such an array it needs no
/// borrow.
template <class V>
inline constexpr bool shows_arrays = false;
template <class T, int N, class... C>
    requires(!DTypeSet<std::remove_cv_t<T>> && N >= 0)
inline constexpr bool shows_arrays<View<T, N, C...>> = [] {
    constexpr Requirement r = View<T, N, C...>::requirement;
    return r.size_count == -1 && r.alignment <= alignof(T) && is_host_type(r.device_type) && !r.dtype.is_subbyte() &&
           r.dtype.itemsize() == sizeof(T);
}();

/// The view of such an array.
template <class V>
V view_of_array(const ArrayParts& parts) noexcept {
    constexpr int N = V::ndim();
    constexpr int shift = std::countr_zero(static_cast<std::size_t>(V::itemsize()));
    std::int64_t strides[N > 0 ? N : 1];
    for (int i = 0; i < N; ++i) strides[i] = parts.strides[i] >> shift;
    return view_of<V>({.data = parts.data,
                       .device = {kDLCPU, 0},
                       .ndim = N,
                       .dtype = V::requirement.dtype,
                       .shape = const_cast<std::int64_t*>(parts.sizes),
                       .strides = strides,
                       .byte_offset = 0});
}
/// Most arguments: an array of NumPy's. False, and nothing held, for all others, and if the slot is in use.
template <class V>
ISTHMUS_ALWAYS_INLINE bool show_without_borrow([[maybe_unused]] const BorrowSlot& slot,
                                               [[maybe_unused]] PyObject* object, [[maybe_unused]] V& value) noexcept {
    if constexpr (shows_arrays<V>) {
        ArrayParts parts;
        if (ISTHMUS_UNLIKELY(!slot.is_empty() || !show_array(object, V::requirement, parts))) return false;
        value = view_of_array<V>(parts);
        return true;
    }
    return false;
}

}  // namespace detail

ISTHMUS_END
