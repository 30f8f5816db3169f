// Tensor: an owning handle on memory of any kind, one pointer wide.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include <isthmus/core/owned_block.h>
#include <isthmus/core/rearrange.h>
#include <isthmus/core/result.h>
#include <isthmus/core/shape.h>
#include <isthmus/core/tensor_spec.h>

ISTHMUS_BEGIN

namespace detail {

/// The accessors that a Tensor and a Borrowed share. `Self` has `const DLTensor& dl() const` and `Flags flags() const`.
template <class Self>
class Accessors {
public:
    /// Address of the first element, the byte offset included; a driver's handle on OpenCL, Vulkan, Metal and WebGPU.
    void* data() const noexcept { return dl().data; }
    /// Sizes, one per dimension. Of a temporary a copy, so that `for (auto n : make().shape())` reads none that are
    /// gone.
    std::span<const std::int64_t> shape() const& noexcept { return dims(dl().shape); }
    SizesList shape() const&& noexcept { return dims(dl().shape); }
    /// The size of one dimension.
    std::int64_t extent(int dimension) const { return dl().shape[dimension_of("extent", dimension, ndim())]; }
    /// Steps in elements, one per dimension; never missing.
    std::span<const std::int64_t> strides() const& noexcept { return dims(dl().strides); }
    SizesList strides() const&& noexcept { return dims(dl().strides); }
    /// Number of dimensions.
    int ndim() const noexcept { return dl().ndim; }
    /// Number of elements.
    std::int64_t numel() const noexcept { return layout::numel(dl()); }
    /// Bytes of one element; 1 for a type of fewer than 8 bits.
    std::int64_t itemsize() const noexcept { return dtype().itemsize(); }
    /// Bytes of all elements when compact; sub-byte elements counted as packed unless is_padded().
    std::int64_t nbytes() const noexcept { return layout::nbytes(dl(), is_padded()); }
    /// The type of one element.
    DType dtype() const noexcept { return dl().dtype; }
    /// Where the memory is.
    Device device() const noexcept { return dl().device; }
    /// Nobody may write to the elements: view<T, N>() then gives only views of const.
    bool read_only() const noexcept { return (self().flags() & flag::read_only) != 0; }
    /// The producer made this as a copy for us.
    bool is_copied() const noexcept { return (self().flags() & flag::copied) != 0; }
    /// Elements of fewer than 8 bits occupy a whole byte each.
    bool is_padded() const noexcept { return (self().flags() & flag::padded) != 0; }
    /// Row-major and compact.
    bool is_contiguous() const noexcept { return layout::is_contiguous(dl().shape, dl().strides, dl().ndim); }
    /// The descriptor itself, for a C function that takes a `const DLTensor*`; valid as long as this object.
    const DLTensor* operator->() const noexcept { return &dl(); }

private:
    const Self& self() const noexcept { return static_cast<const Self&>(*this); }
    const DLTensor& dl() const noexcept { return self().descriptor(); }
    std::span<const std::int64_t> dims(const std::int64_t* first) const noexcept {
        return span_of(first, static_cast<std::size_t>(dl().ndim));
    }
};

}  // namespace detail

/// An owning handle on a tensor, one pointer wide. A copy shares the memory (one atomic count), a move is free, and the
/// memory stays alive until the last handle, view or export is gone, on whatever thread that is.
class Tensor : public detail::Accessors<Tensor> {
public:
    /// No tensor: every accessor but operator bool is undefined.
    Tensor() noexcept : block_(nullptr) {}
    Tensor(const Tensor& other) noexcept : block_(other.block_) {
        if (block_ != nullptr) detail::retain(block_);
    }
    Tensor(Tensor&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
    Tensor& operator=(Tensor other) noexcept {
        std::swap(block_, other.block_);
        return *this;
    }
    ~Tensor() {
        // NOLINTNEXTLINE(clang-analyzer-unix.Malloc): copies share the block, whose count the analyzer does not follow
        if (block_ != nullptr) detail::drop(block_);
    }
    explicit operator bool() const noexcept { return block_ != nullptr; }

    /// New, uninitialised, row-major host memory. 64-byte aligned, so that JAX/XLA imports it without a copy;
    /// `alignment` may be any larger power of two. Throws Error.
    static Tensor empty(const Shape& shape, DType dtype, std::size_t alignment = 64);

    /// Takes `owner` and shows the memory at `data` until the last handle is gone; then calls the owner, if it can be
    /// called without arguments, and destroys it. Empty `strides` mean row-major; strides count elements.
    /// The memory is read-only when `data` points to const. Throws Error (the owner is then gone as well).
    template <class Owner>
    static Tensor wrap(void* data, const Shape& shape, const Shape& strides, DType dtype, Device device, Owner owner) {
        return adopt<detail::AtEnd::call>(std::move(owner),
                                          [&](auto&) { return spec(data, shape, strides, dtype, device); });
    }
    template <class Owner>
    static Tensor wrap(const void* data, const Shape& shape, const Shape& strides, DType dtype, Device device,
                       Owner owner) {
        return adopt<detail::AtEnd::call>(std::move(owner), [&](auto&) {
            TensorSpec s = spec(const_cast<void*>(data), shape, strides, dtype, device);
            s.read_only = true;
            return s;
        });
    }

    /// wrap() for a description that `describe()` makes and may throw from: the owner is then called and gone as well.
    template <class Describe, class Owner>
        requires std::is_invocable_r_v<TensorSpec, Describe&>
    static Tensor wrap_spec(Describe describe, Owner owner) {
        return adopt<detail::AtEnd::call>(std::move(owner), [&](auto&) -> TensorSpec { return describe(); });
    }

    /// Takes a container that owns its elements (std::vector, std::array, std::string, …), a std::unique_ptr<T[]> or a
    /// std::shared_ptr<T[]> without copying the elements. For a container the sizes must multiply to its length; behind
    /// a pointer the caller must give the right length. Types that are not owners do not compile: spans, expressions,
    /// arrays with strides.
    template <class X>
        requires(!std::is_lvalue_reference_v<X>) && detail::OwnableWithShape<X>
    static Tensor own(X&& x, const Shape& shape) {
        return adopt_elements(x, shape.data(), shape.size());
    }
    /// One dimension, as long as the container, and those of its elements: a std::vector<std::array<float, 3>> of n
    /// elements is n x 3.
    template <class X>
        requires(!std::is_lvalue_reference_v<X>) && detail::Container<X>
    static Tensor own(X&& x) {
        using Cell = detail::Cell<typename X::value_type>;
        std::int64_t sizes[1 + Cell::rank] = {static_cast<std::int64_t>(x.size())};
        Cell::place_sizes(sizes + 1);
        return adopt_elements(x, sizes, 1 + Cell::rank);
    }
    /// Takes memory that `keeper` (a std::shared_ptr, say) keeps alive.
    template <class T, class Keeper>
        requires has_dtype<T>
    static Tensor own(Keeper keeper, std::span<T> elements, const Shape& shape) {
        return adopt(std::move(keeper), [&](auto&) {
            auto* data = const_cast<std::remove_const_t<T>*>(elements.data());
            TensorSpec s = spec_of_span(data, shape, dtype_of<T>(), elements.size());
            s.read_only = std::is_const_v<T>;
            return s;
        });
    }
    /// Takes any object that tensor_traits describes.
    template <class X>
        requires(!std::is_lvalue_reference_v<X>) && detail::HasTensorTraits<X>
    static Tensor own(X&& x) {
        if constexpr (std::is_nothrow_move_constructible_v<X>) {
            return adopt(std::move(x), [](X& held) -> TensorSpec { return tensor_traits<X>::describe(held); });
        } else {  // one allocation more, so that a move that throws leaves nothing half made
            return adopt(detail::Boxed<X>(std::move(x)),
                         [](auto& held) -> TensorSpec { return tensor_traits<X>::describe(*held.object); });
        }
    }

    /// Refused: anything else ends the compilation with what to write.
    template <class X>
    static Tensor own(X&&, const Shape&) {
        detail::refuse_owner<X, true>();
        return {};
    }
    /// Refused: the same without a shape.
    template <class X>
    static Tensor own(X&&) {
        detail::refuse_owner<X, false>();
        return {};
    }

    /// Takes ownership of a managed tensor, also when it is refused: its deleter has then run, once (DLPack 1.3,
    /// dlpack.h).
    static Result<Tensor> from_dlpack(DLManagedTensorVersioned* managed);
    static Result<Tensor> from_dlpack(DLManagedTensor* managed);
    /// A managed tensor that shares this memory; the receiver calls its deleter, on any thread. NULL when memory is
    /// out. A view that lies differently in the same memory keeps its own sizes and strides: nothing is shared but the
    /// elements.
    DLManagedTensorVersioned* to_dlpack() const noexcept;
    /// The same in the layout before DLPack 1.0, which has no flags: NULL also for a tensor that is read-only (ask
    /// read_only()) or whose sub-byte elements are padded (ask is_padded()).
    DLManagedTensor* to_dlpack_legacy() const noexcept;

    /// The same memory, to be read only.
    Tensor as_read_only() const;
    /// The same owner, another description (what a slice or a reshape is made of). Throws Error when it is not sound.
    Tensor as_strided(void* data, const Shape& shape, const Shape& strides, DType dtype) const;

    // Parts and other shapes of the same memory, with the same owner; a negative number counts from the end. They throw
    // Error.

    /// Index `i` of one dimension, which is gone.
    Tensor select(int dimension, std::int64_t i) const;
    /// The elements [start, stop) of one dimension, every `step`th, cut off at the end of the dimension, as Python's
    /// slices.
    Tensor slice(int dimension, std::int64_t start, std::int64_t stop = INT64_MAX, std::int64_t step = 1) const;
    /// The dimensions in the order of `axes`; without them in the opposite order.
    Tensor transpose(const Shape& axes = {}) const;
    /// The elements in row-major order in another shape, one of whose sizes may be -1: the rest. Never a copy: a shape
    /// that needs a copy is an Error(bad_layout).
    Tensor reshape(const Shape& shape) const;
    /// The elements repeated along dimensions of size 1 and new ones in front, as NumPy broadcasts. To be read.
    Tensor broadcast_to(const Shape& shape) const;
    /// The same memory if it is row-major without gaps, else a copy of it, which only host memory has. The strides are
    /// those of row-major memory, also in dimensions of size 1, where any number is allowed.
    Tensor contiguous() const;

    /// A typed view of exactly N dimensions, or an Error that says what differs. `T const` accepts read-only memory,
    /// plain `T` refuses it; device memory is refused, since the host must not touch it, unless a constraint asks for
    /// it. The view is valid as long as this tensor. More can be asked: view<const float, 2, c_contiguous>().
    template <class T, int N, class... C>
    Result<View<T, N, C...>> view() const&;
    template <class T, int N, class... C>
    Result<View<T, N, C...>> view() const&& = delete;  // the view would outlive the tensor
    /// The same by the name of the view's type: view<View<const float, 2, c_contiguous>>().
    template <class V>
        requires detail::is_view<V>
    Result<V> view() const&;
    template <class V>
        requires detail::is_view<V>
    Result<V> view() const&& = delete;

    /// The stream that the work on the memory is on, by the numbers of `__dlpack__(stream=)` (CUDA: 1 legacy, 2 per
    /// thread, an address; ROCm: 0, an address); no_stream if none is known, which means the legacy default stream.
    std::int64_t stream() const noexcept { return (flags() & detail::stream_flag) ? block_->stream.number : no_stream; }
    /// Sets the stream of the work on the memory, so that a consumer's stream waits for it. The stream must live
    /// until the last export. Not while another thread uses a handle on the same memory.
    void set_stream(std::int64_t number) noexcept { detail::set_stream(block_, number); }

    /// Handles on the same memory (this one counted); exports count too.
    std::uint32_t use_count() const noexcept { return block_ != nullptr ? block_->refs.load_relaxed() : 0; }
    /// Whether anything but this handle keeps the memory: another handle, a part, an array of a framework, a capsule.
    /// False is a promise: nobody sees the memory, on any thread, until this handle passes it on, and what others read
    /// and wrote is done, so that the owner may resize or reuse it. True may be out of date at once. Parts of memory
    /// that has no owner are not counted.
    bool is_exported() const noexcept {
        if (block_ == nullptr) return false;
        return block_->refs.load_acquire() != 1 || detail::root_of(block_)->refs.load_acquire() != 1;
    }

    /// DLPack's descriptor, `byte_offset` as the producer had it; valid as long as this handle.
    const DLTensor& descriptor() const noexcept { return block_->dl; }
    /// The flags (flag::read_only, …), by the numbers of DLPack.
    Flags flags() const noexcept { return block_->flags; }
    /// For layers above: the shared block, and back.
    detail::Block* block() const noexcept { return block_; }
    static Tensor steal(detail::Block* block) noexcept {
        Tensor t;
        t.block_ = block;
        return t;
    }
    detail::Block* release_block() noexcept { return std::exchange(block_, nullptr); }

private:
    friend struct detail::BackendAccess;
    static TensorSpec spec(void* data, const Shape& shape, const Shape& strides, DType dtype, Device device);
    static TensorSpec spec_of_span(void* data, const Shape& shape, DType dtype, std::size_t count);
    /// Moves the owner of the elements to its final place and describes them there. It is destroyed if this throws.
    template <class X>
    static Tensor adopt_elements(X& from, const std::int64_t* sizes, std::size_t count) {
        using Held = detail::OwnedBlock<X, detail::AtEnd::destroy>;
        detail::check_owner<X>();
        auto* held = Held::make(from);
        if (ISTHMUS_UNLIKELY(held == nullptr)) {
            const X gone(std::move(from));
            throw detail::no_memory_for_owner(sizeof(Held));
        }
        Tensor result = steal(&held->block);
        auto* elements = detail::elements_of(held->owner());
        using T = std::remove_pointer_t<decltype(elements)>;
        constexpr DType dtype = dtype_of<std::remove_const_t<T>>();
        constexpr Flags flags = (std::is_const_v<T> ? flag::read_only : 0) | (dtype.is_subbyte() ? flag::padded : 0);
        std::int64_t size = -1;
        if constexpr (detail::Container<X>)
            size = static_cast<std::int64_t>(held->owner().size()) * detail::Cell<typename X::value_type>::count;
        held->complete(const_cast<std::remove_const_t<T>*>(elements), dtype, flags, sizes, count, size);
        return result;
    }
    Tensor part(std::int64_t offset, int ndim, const std::int64_t* shape, const std::int64_t* strides) const;
    Tensor alias(const DLTensor& t, Flags flags) const;
    Tensor alias(const TensorSpec& spec) const;

    /// Moves the owner to its last place and describes it there, so that storage inside the object is found right.
    template <detail::AtEnd at_end = detail::AtEnd::destroy, class Owner, class Describe>
    static Tensor adopt(Owner owner, Describe&& describe) {
        // A tensor that keeps another's memory holds what keeps that one's, so that a chain of them stays flat.
        if constexpr (std::is_same_v<Owner, Tensor>)
            if (owner) return owner.alias(describe(owner));
        detail::check_owner<Owner>();
        if constexpr (detail::OwnerWithOps<Owner>) {
            Tensor result = with_ops(describe(owner), owner.owner_ops());
            result.block_->owner = owner.release();
            detail::announce(result.block_);
            return result;
        }
        const Flags kept = detail::is_no_owner(owner) ? detail::unowned_flag : 0;
        using Held = detail::OwnedBlock<Owner, at_end>;
        auto* held = Held::make(owner);
        if (held == nullptr) {
            if constexpr (at_end == detail::AtEnd::call) detail::call_owner(owner);
            throw detail::no_memory_for_owner(sizeof(Held));
        }
        Tensor result = steal(&held->block);
        held->complete(describe(held->owner()), kept);
        return result;
    }
    /// For an owner of the layer above, which the caller still has to put there.
    static Tensor with_ops(const TensorSpec& spec, const detail::OwnerOps& ops);

    detail::Block* block_;
};

static_assert(sizeof(Tensor) == sizeof(void*));

ISTHMUS_END
