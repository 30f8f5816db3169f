// Checks of a descriptor that do not touch the elements, and their errors.
// SPDX-License-Identifier: Apache-2.0
#include "validate.h"

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_RARE Error explain_unsound(const DLTensor& t, Flags flags, const char* argument) {
    const DType dtype = t.dtype;
    const Device device = t.device;
    const auto error = [argument](ErrorCode code, const char* words, std::initializer_list<Piece> values) {
        return make_error(code, argument, compose(words, values));
    };
    if (flags & ~flag::dlpack_known)
        return error(ErrorCode::unsupported_version,
                     "flags % have bits that DLPack 1.3 does not define; expected a combination of %",
                     {hex(flags), hex(flag::dlpack_known)});
    if (t.ndim < 0 || t.ndim > max_ndim)
        return error(ErrorCode::bad_layout, "ndim is %; expected 0 to %", {t.ndim, max_ndim});
    if (t.ndim > 0 && t.shape == nullptr)
        return error(ErrorCode::bad_layout, "shape is NULL with ndim %; expected one size per dimension", {t.ndim});
    for (int i = 0; i < t.ndim; ++i)
        if (t.shape[i] < 0)
            return error(ErrorCode::bad_layout,
                         "shape % has a negative size in dimension %; expected sizes of 0 or more",
                         {sizes_text(t.shape, t.ndim), i});
    if (!dtype.is_valid())
        return error(ErrorCode::bad_dtype, "dtype (code %, bits %, lanes %) is not one that DLPack 1.3 defines",
                     {dtype.code, dtype.bits(), dtype.lanes()});
    if (!device.is_valid())
        return error(ErrorCode::bad_device, "device (type %, id %) is not one that DLPack 1.3 defines",
                     {device.type, device.id});
    std::int64_t numel = 0, bytes = 0;
    if (!layout::numel(t.shape, t.ndim, numel) || !layout::nbytes(numel, dtype, flags & flag::padded, bytes))
        return error(ErrorCode::overflow, "shape % of % has more bytes than a 64-bit size can count",
                     {sizes_text(t.shape, t.ndim), dtype});
    if (numel > 0 && t.data == nullptr)
        return error(ErrorCode::null_data,
                     "data is NULL with % elements (shape %); expected the address of the elements",
                     {numel, sizes_text(t.shape, t.ndim)});
    if (t.byte_offset > static_cast<std::uint64_t>(INT64_MAX) ||
        reinterpret_cast<std::uintptr_t>(t.data) > UINTPTR_MAX - t.byte_offset)
        return error(ErrorCode::overflow, "byte_offset % from data % leaves the address space",
                     {t.byte_offset, hex(t.data)});
    const auto address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
    const bool packed = dtype.is_subbyte() && !(flags & flag::padded);
    if (numel > 0 && t.strides != nullptr) {
        if (packed && !layout::is_contiguous(t.shape, t.strides, t.ndim))
            return error(
                ErrorCode::bad_layout,
                "strides % of packed % are not row-major; expected contiguous memory, since elements share bytes",
                {sizes_text(t.strides, t.ndim), dtype});
        std::int64_t first = 0, last = 0;
        const bool fits = packed || layout::extent(t.shape, t.strides, t.ndim, dtype.itemsize(), first, last);
        if (packed) last = bytes - 1;
        if (!fits || (!device.is_opaque() && (address < magnitude(first) || reaches_end(address, last))))
            return error(ErrorCode::overflow, "strides % of shape % leave the address space",
                         {sizes_text(t.strides, t.ndim), sizes_text(t.shape, t.ndim)});
    }
    const bool leaves =
        t.strides == nullptr && numel > 0 && reaches_end(address, bytes - 1);  // a copy would read there
    if (!leaves && numel > 0 && !device.is_opaque() && address % static_cast<std::uint64_t>(dtype.alignment()) != 0)
        return error(
            ErrorCode::needs_copy,
            "data at % is not aligned to the % bytes of %; copy it first (numpy: np.require(x, requirements='A'))",
            {hex(address), dtype.alignment(), dtype});
    return error(ErrorCode::overflow, "shape % at % leaves the address space",
                 {sizes_text(t.shape, t.ndim), hex(address)});
}

}  // namespace detail

ISTHMUS_END
