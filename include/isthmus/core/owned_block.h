// The owners of a tensor's memory, and the block that holds an owner in its own allocation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>

#include <isthmus/core/block.h>
#include <isthmus/core/result.h>
#include <isthmus/core/tensor_spec.h>

struct _object;  // NOLINT(bugprone-reserved-identifier): CPython's name for a PyObject

ISTHMUS_BEGIN

namespace detail {

/// Calls an owner that can be called: a function, a lambda.
template <class Owner>
void call_owner(Owner& owner) noexcept {
    if constexpr (std::is_invocable_v<Owner&>) {
        if constexpr (std::is_pointer_v<Owner>)
            if (owner == nullptr) return;
        run_deleter([&] { owner(); });
    }
}

/// The release of an owner when the last handle is gone, beside its destructor.
enum class AtEnd {
    call,     ///< it is called, if it can be: the owner of wrap()
    destroy,  ///< nothing: an object that holds elements may have an operator() for another purpose
};

/// References of Python's C++ libraries: nb::object, py::object, Ref. A smart pointer with a deleter may do better.
template <class X>
concept PythonReference = requires(const X& x) {
    { x.ptr() } -> std::same_as<_object*>;
} || (requires(X& x) {
    { x.get() } -> std::same_as<_object*>;
    { x.release() } -> std::same_as<_object*>;
} && !requires { typename X::deleter_type; });

/// Ends the compilation if the type says that it keeps nothing alive, or cannot be released on any thread.
template <class Owner>
constexpr void check_owner() noexcept {
    static_assert(!PythonReference<Owner> && !std::is_same_v<Owner, _object*>,
                  "isthmus: a reference to a Python object would be given back without the GIL, and called; write "
                  "isthmus::PyOwner(object), of <isthmus/python.h>");
    static_assert(
        !std::is_pointer_v<Owner> || std::is_invocable_v<Owner&> || std::is_same_v<Owner, _object*>,
        "isthmus: a plain pointer as the owner keeps nothing alive; hand over a std::shared_ptr, a std::unique_ptr or "
        "a function that ends what it points to, or nullptr where the memory outlives every view");
    static_assert(!std::ranges::enable_borrowed_range<Owner> && !is_view<Owner>,
                  "isthmus: a view or a span as the owner keeps nothing alive; hand over what owns the elements");
}

/// Whether it keeps nothing: the caller answers for the memory. (A lambda that captures nothing may release what it
/// reaches in another way.)
template <class Owner>
constexpr bool is_no_owner([[maybe_unused]] const Owner& owner) noexcept {
    if constexpr (std::is_null_pointer_v<Owner> || std::is_pointer_v<Owner>)
        return owner == nullptr;
    else
        return false;
}

/// An owner of the layer above, which brings its own table: PyOwner.
template <class Owner>
concept OwnerWithOps = requires(Owner& owner) {
    { owner.owner_ops() } noexcept -> std::same_as<const OwnerOps&>;
    { owner.release() } noexcept -> std::convertible_to<void*>;
};

/// An object in a separate allocation. (<memory> would cost every file that includes this a tenth of its time.)
template <class X>
struct Boxed {
    X* object;
    explicit Boxed(X&& x) : object(new X(std::move(x))) {}
    Boxed(Boxed&& other) noexcept : object(std::exchange(other.object, nullptr)) {}
    Boxed& operator=(Boxed&&) = delete;
    ~Boxed() { delete object; }
};

/// Whether the name of a type begins so. The standard library's own types are recognised by "std::", which nobody else
/// may use, without the headers that declare them.
template <class X>
constexpr bool is_called(std::string_view beginning) noexcept {
    constexpr std::string_view said = __PRETTY_FUNCTION__, mark = "X = ";
    static_assert(said.find(mark) != std::string_view::npos);
    return said.substr(said.find(mark) + mark.size()).substr(0, beginning.size()) == beginning;
}
/// Whether the end of an owner frees memory and does nothing else: no code of anybody runs that could wait, throw or
/// end another tensor.
template <class Owner>
constexpr bool only_frees() noexcept {
    if constexpr (std::is_trivially_destructible_v<Owner>)
        return true;
    else if constexpr (Container<Owner>)
        return is_called<Owner>("std::") &&
               std::is_same_v<typename Owner::allocator_type, std::allocator<typename Owner::value_type>>;
    else if constexpr (ArrayPointer<Owner> && requires { typename Owner::deleter_type; })
        return is_called<Owner>("std::") && is_called<typename Owner::deleter_type>("std::default_delete<");
    else
        return false;
}

ISTHMUS_COLD Error no_memory_for_owner(std::size_t bytes);

/// A block whose owner follows in the same allocation. Room for the dims is set aside before their number is known; a
/// tensor of more than that many dimensions pays for a second allocation.
struct OwnedHead {
    static constexpr int inline_dims = 8;

    Block block;
    std::int64_t* more_dims;
    std::int64_t dims[2 * inline_dims];

    /// Throws Error(out_of_memory).
    void reserve_dims(int ndim) {
        if (ISTHMUS_LIKELY(ndim <= inline_dims))
            place_dims(&block, ndim, dims);
        else
            reserve_more_dims(ndim);
    }
    /// Checks what the owner says of its elements, and completes the block. Throws Error.
    void complete(const TensorSpec& spec, Flags flags);
    /// The same for row-major elements of the host, of which the owner holds as many as `held` says; any number for -1.
    ISTHMUS_ALWAYS_INLINE void complete(void* data, DType dtype, Flags flags, const std::int64_t* sizes,
                                        std::size_t count, std::int64_t held) {
        if (ISTHMUS_UNLIKELY(count > static_cast<std::size_t>(max_ndim))) throw too_many_dims(count);
        const int ndim = static_cast<int>(count);
        reserve_dims(ndim);
        DLTensor& t = block.dl;
        t.data = data;
        t.device = Device{};
        t.dtype = dtype;
        t.byte_offset = 0;
        for (int i = 0; i < ndim; ++i) t.shape[i] = sizes[i];
        block.flags = flags;
        std::int64_t n = 0;
        const bool counted = layout::numel(sizes, ndim, n);
        if (ISTHMUS_UNLIKELY(held >= 0 && (!counted || n != held))) throw wrong_count(sizes, ndim, held);
        if (ISTHMUS_UNLIKELY(!counted || !is_sound_row_major(data, n, dtype, (flags & flag::padded) != 0)))
            check_row_major();
        (void)layout::row_major(t.shape, ndim, t.strides);
        announce(&block);
    }

private:
    friend struct BackendAccess;
    void reserve_more_dims(int ndim);
    void check_row_major() const;
    ISTHMUS_COLD static Error wrong_count(const std::int64_t* sizes, int ndim, std::int64_t held);
};
template <class Owner, AtEnd at_end>
struct OwnedBlock : OwnedHead {
    // malloc() aligns for whatever asks for no more than usual; for another owner there is room to begin further on.
    static constexpr std::size_t slack = alignof(Owner) > alignof(std::max_align_t) ? alignof(Owner) - 1 : 0;
    alignas(slack == 0 ? alignof(Owner) : 1) unsigned char storage[sizeof(Owner) + slack];

    void* place() noexcept {
        if constexpr (slack == 0)
            return storage;
        else
            return reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(storage) + slack) &
                                           ~std::uintptr_t{slack});
    }
    Owner& owner() noexcept { return *std::launder(static_cast<Owner*>(place())); }

    static OwnedBlock* make(Owner& from) noexcept {
        static_assert(std::is_nothrow_move_constructible_v<Owner>, "isthmus: an owner must move without throwing");
        auto* held = static_cast<OwnedBlock*>(std::malloc(sizeof(OwnedBlock)));
        if (held == nullptr) return nullptr;
        init_block(&held->block, 0, held->dims);
        held->more_dims = nullptr;
        ::new (held->place()) Owner(std::move(from));
        held->block.owner = held;
        constexpr bool quiet = only_frees<Owner>() && (at_end == AtEnd::destroy || !std::is_invocable_v<Owner&>);
        held->block.ops = &plain_owner_ops < end, at_end == AtEnd::destroy, quiet ? end_quietly : nullptr > ;
        return held;
    }
    static bool end_quietly(void* owner) noexcept {
        auto* self = static_cast<OwnedBlock*>(owner);
        if (ISTHMUS_UNLIKELY(self->more_dims != nullptr)) std::free(self->more_dims);
        self->owner().~Owner();
        return true;
    }
    static void end(void* owner) {
        auto* self = static_cast<OwnedBlock*>(owner);
        std::free(self->more_dims);
        const NoCancellation whole;
        if constexpr (at_end == AtEnd::call) call_owner(self->owner());
        self->owner().~Owner();
    }
};

}  // namespace detail

ISTHMUS_END
