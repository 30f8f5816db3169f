// Checks of a descriptor that do not touch the elements, and their errors.
// SPDX-License-Identifier: Apache-2.0
#include "validate.h"

ISTHMUS_BEGIN

namespace detail {

ISTHMUS_RARE Error explain_unsound(const DLTensor& t, Flags flags, const char* argument) {
    const DType dtype = t.dtype;
    const Device device = t.device;
    const auto error = [argument](ErrorCode code, Message text) { return make_error(code, argument, text); };
    if (flags & ~flag::dlpack_known)
        return error(ErrorCode::unsupported_version,
                     {"flags ", hex(flags), " have bits that DLPack 1.3 does not define; expected a combination of ",
                      hex(flag::dlpack_known)});
    if (t.ndim < 0 || t.ndim > max_ndim)
        return error(ErrorCode::bad_layout, {"ndim is ", t.ndim, "; expected 0 to ", max_ndim});
    if (t.ndim > 0 && t.shape == nullptr)
        return error(ErrorCode::bad_layout, {"shape is NULL with ndim ", t.ndim, "; expected one size per dimension"});
    for (int i = 0; i < t.ndim; ++i)
        if (t.shape[i] < 0)
            return error(ErrorCode::bad_layout,
                         {"shape ", sizes_text(t.shape, t.ndim), " has a negative size in dimension ", i,
                          "; expected sizes of 0 or more"});
    if (!dtype.is_valid())
        return error(ErrorCode::bad_dtype, {"dtype (code ", dtype.code, ", bits ", dtype.bits(), ", lanes ",
                                            dtype.lanes(), ") is not one that DLPack 1.3 defines"});
    if (!device.is_valid())
        return error(ErrorCode::bad_device,
                     {"device (type ", device.type, ", id ", device.id, ") is not one that DLPack 1.3 defines"});
    std::int64_t numel = 0, bytes = 0;
    if (!layout::numel(t.shape, t.ndim, numel) || !layout::nbytes(numel, dtype, flags & flag::padded, bytes))
        return error(ErrorCode::overflow, {"shape ", sizes_text(t.shape, t.ndim), " of ", dtype,
                                           " has more bytes than a 64-bit size can count"});
    if (numel > 0 && t.data == nullptr)
        return error(ErrorCode::null_data, {"data is NULL with ", numel, " elements (shape ",
                                            sizes_text(t.shape, t.ndim), "); expected the address of the elements"});
    if (t.byte_offset > static_cast<std::uint64_t>(INT64_MAX) ||
        reinterpret_cast<std::uintptr_t>(t.data) > UINTPTR_MAX - t.byte_offset)
        return error(ErrorCode::overflow,
                     {"byte_offset ", t.byte_offset, " from data ", hex(t.data), " leaves the address space"});
    const auto address = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
    const bool packed = dtype.is_subbyte() && !(flags & flag::padded);
    if (numel > 0 && t.strides != nullptr) {
        if (packed && !layout::is_contiguous(t.shape, t.strides, t.ndim))
            return error(ErrorCode::bad_layout,
                         {"strides ", sizes_text(t.strides, t.ndim), " of packed ", dtype,
                          " are not row-major; expected contiguous memory, since elements share bytes"});
        std::int64_t first = 0, last = 0;
        const bool fits = packed || layout::extent(t.shape, t.strides, t.ndim, dtype.itemsize(), first, last);
        if (packed) last = bytes - 1;
        if (!fits || (!device.is_opaque() && (address < magnitude(first) || reaches_end(address, last))))
            return error(ErrorCode::overflow, {"strides ", sizes_text(t.strides, t.ndim), " of shape ",
                                               sizes_text(t.shape, t.ndim), " leave the address space"});
    }
    const bool leaves =
        t.strides == nullptr && numel > 0 && reaches_end(address, bytes - 1);  // a copy would read there
    if (!leaves && numel > 0 && !device.is_opaque() && address % static_cast<std::uint64_t>(dtype.alignment()) != 0)
        return error(ErrorCode::needs_copy,
                     {"data at ", hex(address), " is not aligned to the ", dtype.alignment(), " bytes of ", dtype,
                      "; copy it first (numpy: np.require(x, requirements='A'))"});
    return error(ErrorCode::overflow,
                 {"shape ", sizes_text(t.shape, t.ndim), " at ", hex(address), " leaves the address space"});
}

}  // namespace detail

ISTHMUS_END
