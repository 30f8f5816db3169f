// Checks of a descriptor that do not touch the elements, and their errors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/device.h>
#include <isthmus/core/error.h>
#include <isthmus/core/layout.h>

ISTHMUS_BEGIN

namespace detail {

/// The check that fails, in words. Called only when is_sound() has said no, so that the good case stays short.
Error explain_unsound(const DLTensor& t, Flags flags, const char* argument);

/// Everything that can be known of a descriptor without touching the elements (DLPack 1.3, dlpack.h: DLTensor).
/// NULL strides mean row-major, as they did before DLPack 1.2.
inline bool is_sound(const DLTensor& t, Flags flags) noexcept {
    const DType dtype = t.dtype;
    const Device device = t.device;
    if (ISTHMUS_UNLIKELY((flags & ~flag::dlpack_known) || t.ndim < 0 || t.ndim > max_ndim)) return false;
    if (ISTHMUS_UNLIKELY(t.ndim > 0 && t.shape == nullptr)) return false;
    if (ISTHMUS_UNLIKELY(!dtype.is_valid() || !device.is_valid())) return false;
    std::int64_t numel = 0, bytes = 0;
    if (ISTHMUS_UNLIKELY(!layout::numel(t.shape, t.ndim, numel) ||
                         !layout::nbytes(numel, dtype, flags & flag::padded, bytes)))
        return false;
    const auto base = reinterpret_cast<std::uintptr_t>(t.data);
    if (ISTHMUS_UNLIKELY(t.byte_offset > static_cast<std::uint64_t>(INT64_MAX) || base > UINTPTR_MAX - t.byte_offset))
        return false;
    if (numel == 0) return true;
    if (ISTHMUS_UNLIKELY(t.data == nullptr)) return false;
    const auto address = base + t.byte_offset;
    std::int64_t first = 0, last = bytes - 1;
    if (t.strides != nullptr) {
        if (ISTHMUS_UNLIKELY(dtype.is_subbyte()) &&
            !(flags & flag::padded)) {  // packed: strides in whole bytes say nothing
            if (!layout::is_contiguous(t.shape, t.strides, t.ndim)) return false;
        } else if (ISTHMUS_UNLIKELY(!layout::extent(t.shape, t.strides, t.ndim, dtype.itemsize(), first, last))) {
            return false;
        }
    }
    if (device.is_opaque()) return true;  // a handle is not an address
    if (ISTHMUS_UNLIKELY(address < magnitude(first) || reaches_end(address, last))) return false;
    return (address & static_cast<std::uint64_t>(dtype.alignment() - 1)) == 0;
}

}  // namespace detail

ISTHMUS_END
