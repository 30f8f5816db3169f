// TensorSpec and tensor_traits: what Tensor::own() takes, and how it is described.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <type_traits>

#include <isthmus/core/device.h>
#include <isthmus/core/dtype.h>
#include <isthmus/core/error.h>
#include <isthmus/core/shape.h>
#include <isthmus/core/text.h>

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_COLD Error too_many_dims(std::size_t found);

}  // namespace detail

/// The description that tensor_traits gives of an object: where its elements are and how they lie.
struct TensorSpec {
    void* data = nullptr;            ///< first element, or the handle that `byte_offset` counts from
    DType dtype{};                   ///< what one element is
    int ndim = 0;                    ///< how many of `shape` and `strides` count
    std::int64_t shape[max_ndim];    ///< sizes, one per dimension
    std::int64_t strides[max_ndim];  ///< in elements; read only when has_strides
    bool has_strides = false;        ///< false for row-major
    Device device{};                 ///< where the memory is
    bool read_only = false;          ///< nobody may write to the elements
    bool padded = false;             ///< elements of fewer than 8 bits occupy a whole byte each
    std::uint64_t byte_offset = 0;   ///< for devices whose `data` is a handle; otherwise it is added to `data`

    /// Row-major elements at `data_`, read-only if that points to const. Throws Error for more than max_ndim sizes.
    TensorSpec(void* data_, DType dtype_, const Shape& sizes);
    TensorSpec(const void* data_, DType dtype_, const Shape& sizes);
    /// Strides in elements, one per dimension. Throws Error(bad_layout) for another number of them.
    TensorSpec& set_strides(const Shape& steps);
    /// Memory of another device than the CPU.
    TensorSpec& set_device(Device where) noexcept {
        device = where;
        return *this;
    }
};

/// Specialise for your own type, and Tensor::own(std::move(x)) takes it:
///     template <> struct isthmus::tensor_traits<Image> {
///         static TensorSpec describe(Image& x) {
///             return {x.pixels(), isthmus::uint8, {x.height, x.width, 3}};
///         }
///     };
/// The object is moved to its last place first and described there, so that inline storage is right.
template <class X>
struct tensor_traits {};

namespace detail {

template <class X>
concept HasTensorTraits = requires(X& x) {
    { tensor_traits<X>::describe(x) } -> std::convertible_to<TensorSpec>;
};

template <class C>
inline constexpr bool is_std_array = false;
template <class T, std::size_t n>
inline constexpr bool is_std_array<std::array<T, n>> = true;

/// An element of a container as scalars: a std::array<float, 3> is three of them, one dimension more. Arrays of
/// characters are fixed strings (isthmus/records.h), and are not taken apart.
template <class T>
struct Cell {
    using Scalar = T;
    static constexpr int rank = 0;
    static constexpr std::int64_t count = 1;
    static constexpr void place_sizes(std::int64_t*) noexcept {}
};
template <class T, std::size_t n>
    requires(!std::is_same_v<T, char> && !std::is_same_v<T, char32_t> && !has_dtype<std::array<T, n>> &&
             sizeof(std::array<T, n>) == n * sizeof(T))
struct Cell<std::array<T, n>> {
    using Scalar = typename Cell<T>::Scalar;
    static constexpr int rank = 1 + Cell<T>::rank;
    static constexpr std::int64_t count = static_cast<std::int64_t>(n) * Cell<T>::count;
    static constexpr void place_sizes(std::int64_t* at) noexcept {
        *at = static_cast<std::int64_t>(n);
        Cell<T>::place_sizes(at + 1);
    }
};

/// A container that owns its elements, one after the other: std::array, or by the interface that the standard asks of a
/// contiguous container with an allocator (std::vector, std::string, and their like in other libraries). data() and
/// size() alone say neither: spans, expressions and strided arrays have them too.
template <class C>
concept Container = !std::is_const_v<C> && !HasTensorTraits<C> && requires(C& c) {
    typename C::value_type;
    requires has_dtype<typename Cell<typename C::value_type>::Scalar>;
    { c.data() } -> std::convertible_to<const typename C::value_type*>;
    { c.size() } -> std::convertible_to<std::size_t>;
} && (is_std_array<C> || requires(C& c, const typename C::value_type& element) {
    typename C::allocator_type;
    { c.get_allocator() } -> std::convertible_to<typename C::allocator_type>;
    c.push_back(element);
});

/// std::unique_ptr<T[]> and std::shared_ptr<T[]>, recognised by their interface so that <memory> is not included. A
/// pointer that only observes an array has neither a deleter nor a count.
template <class P>
inline constexpr bool points_to_array = false;
template <template <class...> class Pointer, class T, class... Rest>
inline constexpr bool points_to_array<Pointer<T[], Rest...>> = true;
template <class P>
concept ArrayPointer = points_to_array<P> && requires(P& p) {
    typename P::element_type;
    requires has_dtype<typename P::element_type>;
    { p.get() } -> std::convertible_to<const typename P::element_type*>;
} && (requires(P& p) { p.get_deleter(); } || requires(P& p) { p.use_count(); });

/// The elements, once the owner is at its final place: by a pointer to const if they are read-only.
template <class X>
auto* elements_of(X& owner) noexcept {
    if constexpr (Container<X>) {
        using Scalar = typename Cell<typename X::value_type>::Scalar;
        using Element = std::remove_reference_t<decltype(*owner.data())>;
        return reinterpret_cast<std::conditional_t<std::is_const_v<Element>, const Scalar, Scalar>*>(owner.data());
    } else
        return static_cast<typename X::element_type*>(owner.get());
}

/// Types that Tensor::own(std::move(x), shape) takes, and Tensor::own(std::move(x)).
template <class X>
concept OwnableWithShape = Container<X> || ArrayPointer<X>;
template <class X>
concept Ownable = Container<X> || HasTensorTraits<X>;

/// A contiguous container whose elements are not numbers.
template <class C>
concept ContainerOfOthers = !HasTensorTraits<C> && requires(C& c) {
    typename C::value_type;
    requires !has_dtype<typename Cell<typename C::value_type>::Scalar>;
    { c.data() } -> std::convertible_to<const typename C::value_type*>;
    c.get_allocator();
};
template <class C>
concept ContainerOfContainers = ContainerOfOthers<C> && requires(typename C::value_type& row) {
    row.data();
    row.get_allocator();
};
template <class C>
concept ContainerOfStrings = ContainerOfOthers<C> && requires { typename C::value_type::traits_type; };

/// Stops the compilation with a message that says what to write in place of own(x).
template <class X, bool with_shape>
constexpr void refuse_owner() {
    using U = std::remove_cvref_t<X>;
    constexpr bool known = OwnableWithShape<U> || Ownable<U>;
    static_assert(!known || (!std::is_lvalue_reference_v<X> && !std::is_const_v<X>),
                  "isthmus: own() takes its argument away; write Tensor::own(std::move(x))");
    static_assert(with_shape || !ArrayPointer<U>,
                  "isthmus: a pointer does not know how many elements it has; write Tensor::own(std::move(p), shape)");
    static_assert(
        !with_shape || !HasTensorTraits<U>,
        "isthmus: isthmus::tensor_traits describes this type, shape and all; write Tensor::own(std::move(x))");
    static_assert(!ContainerOfStrings<U>,
                  "isthmus: strings of any length are not elements of a tensor; return the container itself, which a "
                  "binder makes a list, or strings of one width as isthmus::Records of std::array<char, n> "
                  "(isthmus/records.h)");
    static_assert(!ContainerOfContainers<U> || ContainerOfStrings<U>,
                  "isthmus: the rows of a container of containers lie apart, and a tensor is one block of memory; copy "
                  "them into a Tensor::empty, or keep one std::vector and write Tensor::own(std::move(x), shape)");
    static_assert(!ContainerOfOthers<U> || ContainerOfContainers<U>,
                  "isthmus: the container's elements have no dtype; for a struct of numbers of one type specialise "
                  "isthmus::tensor_traits for the container, whose describe(x) returns {x.data(), dtype, shape}; for "
                  "NumPy's record arrays write ISTHMUS_RECORD and isthmus::Records (isthmus/records.h)");
    static_assert(
        known || ContainerOfOthers<U>,
        "isthmus: own() takes what owns its elements: std::vector, std::array, std::string, std::unique_ptr<T[]>, "
        "std::shared_ptr<T[]>, and types that specialise isthmus::tensor_traits. For a view, an expression or an array "
        "with strides write Tensor::wrap(data, shape, strides, dtype, device, owner), with what keeps the memory as "
        "the owner; for a std::vector<bool>, which has no bool in memory, a std::vector<char>");
}

}  // namespace detail

ISTHMUS_END
