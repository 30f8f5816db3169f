// Tensor::empty: new, aligned memory.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/copy.h>
#include <isthmus/core/tensor.h>

#include "memory.h"

ISTHMUS_BEGIN

namespace detail {

std::int64_t bytes_of_new(const std::int64_t* shape, int ndim, DType dtype, std::int64_t spare) {
    if (!dtype.is_valid())
        throw make_error(ErrorCode::bad_dtype, ErrorKind::value,
                         {"argument 'dtype': ", dtype, " is not one that DLPack 1.3 defines"});
    for (int i = 0; i < ndim; ++i)
        if (shape[i] < 0)
            throw make_error(
                ErrorCode::bad_layout, ErrorKind::value,
                {"argument 'shape': ", sizes_text(shape, ndim), " has a negative size; expected sizes of 0 or more"});
    std::int64_t numel = 0, nbytes = 0;
    if (!layout::numel(shape, ndim, numel) || !layout::nbytes(numel, dtype, false, nbytes) ||
        nbytes > INT64_MAX - spare)
        throw make_error(
            ErrorCode::overflow, ErrorKind::value,
            {"argument 'shape': ", sizes_text(shape, ndim), " of ", dtype, " has more bytes than the address space"});
    return nbytes;
}

void release_new_memory(void* memory) { release_memory(*static_cast<NewMemory*>(memory)); }

ISTHMUS_COLD inline Error explain_no_memory(const DLTensor& t, std::int64_t nbytes) {
    return make_error(ErrorCode::out_of_memory,
                      {"no memory for ", nbytes, " bytes of ", DType(t.dtype), sizes_text(t.shape, t.ndim)});
}
/// A block whose elements lie elsewhere: what takes them back is written behind its dims. Throws Error.
ISTHMUS_NOINLINE inline Block* allocate_separate(const DLTensor& t, std::int64_t nbytes, std::size_t alignment) {
    Block* block = allocate_block(t.ndim, sizeof(NewMemory));
    if (block == nullptr) throw explain_no_memory(t, nbytes);
    auto* memory =
        ::new (block->dims() + 2 * t.ndim) NewMemory(take_memory(static_cast<std::size_t>(nbytes), alignment));
    const bool aligned =
        memory->allocator == nullptr || reinterpret_cast<std::uintptr_t>(memory->start) % alignment == 0;
    if (memory->start == nullptr || !aligned) {
        Error why = aligned ? explain_no_memory(t, nbytes)
                            : make_error(ErrorCode::bad_layout, {"the allocator gave memory at ", hex(memory->start),
                                                                 ", which is no multiple of ", alignment, " bytes"});
        if (!aligned) release_memory(*memory);
        std::free(block);
        throw why;
    }
    block->ops = &plain_owner_ops<release_new_memory, true>;
    block->owner = memory;
    block->dl.data = memory->start;
    return block;
}
/// A block with its elements behind it, in one allocation. It is malloc's: aligned_alloc() costs three times as much,
/// and keeps no small memory for its thread. Throws Error.
ISTHMUS_ALWAYS_INLINE Block* allocate_inline(const DLTensor& t, std::int64_t nbytes, std::size_t alignment) {
    const std::size_t header = sizeof(Block) + 2 * static_cast<std::size_t>(t.ndim) * sizeof(std::int64_t);
    auto* block = static_cast<Block*>(std::malloc(header + alignment - 1 + static_cast<std::size_t>(nbytes)));
    if (block == nullptr) throw explain_no_memory(t, nbytes);
    init_block(block, t.ndim, block->dims());
    block->dl.data = reinterpret_cast<char*>(block) + header;
    return block;
}
ISTHMUS_ALWAYS_INLINE Block* make_elements(DLTensor& t, Flags flags, std::int64_t nbytes, std::size_t alignment) {
    Block* block = needs_separate_storage(static_cast<std::size_t>(nbytes)) ? allocate_separate(t, nbytes, alignment)
                                                                            : allocate_inline(t, nbytes, alignment);
    t.data =
        reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(block->dl.data) + alignment - 1) & ~(alignment - 1));
    describe(block, t, flags);
    return block;
}
Block* new_elements(DLTensor& t, Flags flags, std::int64_t nbytes, std::size_t alignment) {
    return make_elements(t, flags, nbytes, alignment);
}

}  // namespace detail

Tensor Tensor::empty(const Shape& shape, DType dtype, std::size_t alignment) {
    const TensorSpec spec(static_cast<void*>(nullptr), dtype, shape);
    constexpr std::size_t most = std::size_t{1} << 40;
    if (alignment < 64 || alignment > most || (alignment & (alignment - 1)) != 0)
        throw detail::make_error(ErrorCode::bad_argument, {"argument 'alignment': ", alignment,
                                                           " bytes; expected a power of two from 64 to ", most});
    const std::int64_t nbytes =
        detail::bytes_of_new(spec.shape, spec.ndim, dtype, 4096 + static_cast<std::int64_t>(alignment));
    DLTensor t{nullptr, Device::cpu(), spec.ndim, dtype, const_cast<std::int64_t*>(spec.shape), nullptr, 0};
    return steal(detail::announce(detail::make_elements(t, 0, nbytes, alignment)));
}

ISTHMUS_END
