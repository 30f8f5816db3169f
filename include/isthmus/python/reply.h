// Results that say where they live: Reply and Made, in the framework of an argument; As, in one framework.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <type_traits>
#include <utility>

#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

/// A result for the caller: `tensor` in the framework of the object `like`, which is an argument of the call and
/// outlives it.
struct Reply {
    Tensor tensor;             ///< the result
    PyObject* like = nullptr;  ///< borrowed; NULL for an isthmus.Tensor
};

/// A result in one framework, whatever the caller's: As<Framework::torch>{tensor}.
template <Framework framework>
struct As {
    Tensor tensor;  ///< the result
    As() noexcept = default;
    /// Takes the result.
    As(Tensor result) noexcept : tensor(std::move(result)) {}
};

namespace detail {
/// The form of a Tensor that a function returns; one for each shared object.
struct DefaultResult {
    bool reply = false;
    Framework framework = Framework::tensor;
};
ISTHMUS_STATE DefaultResult default_result;
}  // namespace detail

/// A Tensor that a function of this extension returns is from now on an array of the framework of the first tensor
/// argument of the call: set_default_result(isthmus::Reply()) in the body of the module. A function that took none
/// returns an isthmus.Tensor.
inline void set_default_result(const Reply&) noexcept { detail::default_result = {.reply = true}; }
/// The same of one framework, whatever the caller's; Framework::tensor is the default.
inline void set_default_result(Framework framework) noexcept { detail::default_result = {.framework = framework}; }

namespace detail {
/// The C++ type of the elements that a view of W writes; void if W has none or several, or may not be written.
template <class W>
struct WrittenElement {
    using type = void;
};
template <class T, int N, class... C>
    requires(!std::is_const_v<T> && requires { dtype_of<T>(); })
struct WrittenElement<View<T, N, C...>> {
    using type = T;
};
template <class W>
using element_of = typename WrittenElement<W>::type;

/// A result for the caller as a new reference; None for an empty Tensor, NULL with the exception set. `parent`, unless
/// it is NULL, is kept with a tensor that is not known to keep its memory (reference_internal).
PyObject* to_result(const Reply& reply, PyObject* parent = nullptr) noexcept;
}  // namespace detail

/// A result that the function fills and returns, in the framework of an argument, with the elements and sizes of the
/// view V:
///
///     using Image = View<const std::uint8_t, 2, sizes<"h w">>;
///     using Edges = View<float, 2>;
///     Made<Edges> edges(const Argument<Image>& image) {
///         auto out = image.make<Edges>({image->extent(0), image->extent(1)});
///         for_each([](float& to, std::uint8_t from) { to = from / 255.0F; }, *out, *image);
///         return out;
///     }
///
/// It owns the memory, which is not zeroed.
template <class V>
class Made {
public:
    static_assert(
        !std::is_void_v<detail::element_of<V>>,
        "isthmus: a result is made as a View of one C++ type that is not const: make<View<float, 2>>({h, w})");
    static constexpr char isthmus_annotation[] = "typing.Any";  ///< in signatures
    /// The tensor, which must be as V says; throws Error if it is not.
    explicit Made(Reply reply) : reply_(std::move(reply)), view_(reply_.tensor.template view<V>().value()) {}

    /// The view itself; `out->data()`, and `out` as a `const V&`, are the same.
    const V& operator*() const noexcept { return view_; }
    const V* operator->() const noexcept { return &view_; }
    /// As operator*.
    operator const V&() const noexcept { return view_; }
    /// An element: `out(i, j)` is `(*out)(i, j)`.
    template <class... Index>
    decltype(auto) operator()(Index... index) const {
        return view_(index...);
    }
    /// The handle of its memory.
    const Tensor& tensor() const noexcept { return reply_.tensor; }
    /// The same result without its type, for a function that returns a Reply.
    operator const Reply&() const noexcept { return reply_; }

private:
    Reply reply_;
    V view_;
};

/// A new reference to the result; NULL with the exception set.
template <class V>
PyObject* result_to_py(const Made<V>& made) noexcept {
    return detail::to_result(static_cast<const Reply&>(made));
}

ISTHMUS_END
