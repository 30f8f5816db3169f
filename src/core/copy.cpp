// copy_of: a row-major copy of host memory.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/copy.h>

#include "validate.h"
#include "walk_rows.h"

ISTHMUS_BEGIN

namespace detail {

/// Copies `count` elements that are `step` elements apart into a row.
static void gather(const char* from, std::int64_t step, std::int64_t count, std::size_t itemsize, char* to) noexcept {
    if (step == 1) {
        std::memcpy(to, from, static_cast<std::size_t>(count) * itemsize);
        return;
    }
    for (std::int64_t i = 0; i < count; ++i)
        std::memcpy(to + static_cast<std::size_t>(i) * itemsize, from + i * step * static_cast<std::int64_t>(itemsize),
                    itemsize);
}

void copy_elements(const DLTensor& t, char* to) noexcept {
    const auto itemsize = static_cast<std::size_t>(DType(t.dtype).itemsize());
    walk_rows(t, [&](const char* from, std::int64_t step, std::int64_t count) {
        gather(from, step, count, itemsize, to);
        to += static_cast<std::size_t>(count) * itemsize;
    });
}

}  // namespace detail

Result<Tensor> copy_of(const DLTensor& t, Flags flags) {
    if (!detail::is_sound(t, flags)) {
        Error error = detail::explain_unsound(t, flags, nullptr);
        if (error.code() != ErrorCode::needs_copy) return error;  // what is merely not aligned is copied byte by byte
    }
    if (!Device(t.device).is_host())
        return detail::make_error(ErrorCode::bad_device, {"the tensor is on ", Device(t.device),
                                                          "; only its framework can copy that: expected host memory"});
    const DType dtype = t.dtype;
    const bool packed = dtype.is_subbyte() && !(flags & flag::padded);
    // A padded sub-byte element takes the bytes that itemsize() rounds up to: copied as bytes, and called what it is
    // afterwards.
    const DType stored = dtype.is_subbyte() ? DType(kDLUInt, 8, static_cast<int>(dtype.itemsize())) : dtype;
    try {
        const std::int64_t numel = layout::numel(t), nbytes = layout::nbytes(t, flags & flag::padded);
        const std::span<const std::int64_t> shape{t.shape, static_cast<std::size_t>(t.ndim)};
        Tensor copy = packed ? Tensor::empty(shape, dtype) : Tensor::empty(shape, stored);
        copy.block()->dl.dtype = dtype;
        copy.block()->flags |= flag::copied | (flags & flag::padded);
        if (numel == 0) return copy;
        const char* from = static_cast<const char*>(t.data) + t.byte_offset;
        char* to = static_cast<char*>(copy.data());
        if (packed || t.strides == nullptr || layout::is_contiguous(t.shape, t.strides, t.ndim)) {
            std::memcpy(to, from, static_cast<std::size_t>(nbytes));
            return copy;
        }
        detail::copy_elements(t, to);
        return copy;
    } catch (Error& error) {
        return std::move(error);
    }
}

ISTHMUS_END
