// The message sent with a segment's descriptor: which part of it is a tensor, and of what shape. Every field is checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>
#include <string>

#include <isthmus/core/tensor.h>
#include <isthmus/shared/access.h>
#include <isthmus/shared/reach.h>

ISTHMUS_BEGIN

namespace shared::impl {

inline constexpr char message_magic[8] = {'I', 's', 't', 'h', 'm', 'u', 's', '\n'};
inline constexpr std::uint32_t message_version = 1;

/// Numbers in the machine's own byte order: both ends are on one machine. Shape and strides follow, `ndim` int64 each.
struct Header {
    char magic[8];
    std::uint32_t version;
    std::uint32_t length;  ///< bytes of the whole message
    DLDataType dtype;
    std::int32_t ndim;
    std::uint32_t flags;  ///< DLPack's; only "padded" is used
    std::uint8_t access;  ///< the most that the receiver may take
    std::uint8_t leased;  ///< 1: the message has an open file of its own, which holds a lease on the slot
    std::uint8_t zero[2];
    std::uint64_t segment_size;
    std::uint64_t slot_offset, slot_size;  ///< what the receiver leases: whole pages
    std::uint64_t data_offset;             ///< of the first element, from the segment's beginning
};
static_assert(sizeof(Header) == 64 && std::is_trivially_copyable_v<Header>);

struct Message {
    Header header{};
    std::int64_t dims[2 * max_ndim];  ///< shape, then strides

    static constexpr std::size_t dims_bytes(int ndim) noexcept {
        return 2 * static_cast<std::size_t>(ndim) * sizeof(std::int64_t);
    }
    std::size_t length() const noexcept { return sizeof(Header) + dims_bytes(header.ndim); }
    const std::int64_t* shape() const noexcept { return dims; }
    const std::int64_t* strides() const noexcept { return dims + header.ndim; }
    Access access() const noexcept { return static_cast<Access>(header.access); }
    bool padded() const noexcept { return (header.flags & flag::padded) != 0; }
};
static_assert(offsetof(Message, dims) == sizeof(Header));

ISTHMUS_COLD inline Error bad_message(std::string text) { return Error(ErrorCode::bad_message, std::move(text)); }

/// What must hold before the rest of the message can be read: that it is not empty, and has a known length.
inline Result<void> check_header(const Header& h) {
    if (std::memcmp(h.magic, message_magic, sizeof message_magic) != 0)
        return bad_message("the message is not one of isthmus::shared::send()");
    if (h.version != message_version)
        return bad_message(concat({"the message is of version ", h.version, "; wanted ", message_version}));
    if (h.ndim < 0 || h.ndim > max_ndim)
        return bad_message(concat({"the message says ", h.ndim, " dimensions; wanted 0 to ", max_ndim}));
    if (h.length != sizeof(Header) + Message::dims_bytes(h.ndim))
        return bad_message(concat({"the message says ", h.length, " bytes; wanted ",
                                   sizeof(Header) + Message::dims_bytes(h.ndim), " for ", h.ndim, " dimensions"}));
    return {};
}

/// Whether the slot lies in the segment and the elements in the slot. The description itself (dtype, shape, alignment, packed
/// strides) is checked by Tensor::wrap_spec(), as for every tensor.
inline Result<void> check_message(const Message& m, std::size_t page) {
    const Header& h = m.header;
    if (h.access > static_cast<std::uint8_t>(Access::shared))
        return bad_message(concat({"the message says access ", h.access, "; wanted 0, 1 or 2"}));
    if ((h.flags & ~static_cast<std::uint32_t>(flag::padded)) != 0 || h.leased > 1 || (h.zero[0] | h.zero[1]) != 0)
        return bad_message("the message has bits that this version does not know");
    const DType dtype = h.dtype;
    if (!dtype.is_valid())
        return bad_message(concat({"the message says dtype (code ", dtype.code, ", bits ", dtype.bits(), ", lanes ",
                                   dtype.lanes(), "), which is not one that DLPack 1.3 defines"}));
    if (h.segment_size == 0 || h.segment_size > static_cast<std::uint64_t>(INT64_MAX) || h.segment_size % page != 0 ||
        h.slot_offset % page != 0 || h.slot_size % page != 0 || h.slot_size == 0 || h.slot_size > h.segment_size ||
        h.slot_offset > h.segment_size - h.slot_size)
        return bad_message(concat({"the message says bytes ", static_cast<unsigned long long>(h.slot_offset), " + ",
                                   static_cast<unsigned long long>(h.slot_size), " of a segment of ",
                                   static_cast<unsigned long long>(h.segment_size), "; wanted whole pages within it"}));
    const DLTensor t{
        nullptr, {kDLCPU, 0}, h.ndim, h.dtype, const_cast<std::int64_t*>(m.shape()), const_cast<std::int64_t*>(m.strides()), 0};
    std::int64_t first = 0, last = 0;
    if (!reach(t, m.padded(), first, last))
        return bad_message("the message says a shape or strides that leave the address space");
    const std::uint64_t slot_end = h.slot_offset + h.slot_size;
    if (h.data_offset < h.slot_offset || h.data_offset > slot_end ||
        isthmus::detail::magnitude(first) > h.data_offset - h.slot_offset ||
        (last >= 0 && static_cast<std::uint64_t>(last) >= slot_end - h.data_offset))
        return bad_message(
            concat({"the elements reach from ", static_cast<long long>(first), " to ", static_cast<long long>(last),
                    " around byte ", static_cast<unsigned long long>(h.data_offset), " of the segment; wanted bytes ",
                    static_cast<unsigned long long>(h.slot_offset), " to ", static_cast<unsigned long long>(slot_end)}));
    return {};
}

}  // namespace shared::impl

ISTHMUS_END
