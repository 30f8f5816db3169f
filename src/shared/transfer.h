// How the memory of a tensor is found and made fit to be sent, and where what arrived finds its place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "allocate.h"

ISTHMUS_BEGIN

namespace shared::impl {

/// How the memory object was sealed decides what the receiver may get; if that does not suffice, the pages move to
/// memory of another kind, which is possible only while no other process may have them.
inline Result<void> move_slot(Region& from, std::size_t slot_offset, bool writers) {
    Registry& r = registry();
    std::size_t size = 0;
    PoolState* pool = nullptr;
    {
        Guard guard(r.mutex);
        size = from.by_offset[slot_offset].size;
        pool = from.pool;
    }
    Result<Hold> made = allocate(*pool, size, writers, Wait{.timeout_ms = 0});
    if (!made) return std::move(made).error();
    Hold hold = std::move(*made);
    char* old_pages = from.map.data() + slot_offset;
    std::memcpy(hold.data(), old_pages, size);
    Dead dead;
    Guard guard(r.mutex);
    Slot& slot = from.by_offset[slot_offset];
    if (!slot.aside) {
        char* aside = duplicate_pages(old_pages, size);
        if (aside == nullptr) return system_error("mremap", errno);
        slot.aside = Mapping(aside, size);
    }
    // From here on this process sees the new pages at the old address.
    if (duplicate_pages(hold.data(), size, old_pages) == nullptr) return system_error("mremap", errno);
    ++hold.region().by_offset[hold.offset()].users;
    ++hold.region().users;
    Region* before = std::exchange(slot.home, &hold.region());
    const std::size_t before_offset = std::exchange(slot.home_offset, hold.offset());
    if (before != nullptr) drop_slot(r, before, before_offset, dead);
    return {};
}

/// Whether the place can be sent with this access as it is; false if it must move first; an Error if that is not
/// possible either.
inline Result<bool> is_fit(const Place& place, Access access) {
    if (!seals_writers || place.region->writers == (access == Access::shared)) return true;
    const Region& seen = *place.seen_in;
    if (seen.kind == RegionKind::pool && seen.pool != nullptr && !seen.inherited) {
        const Slot& slot = place.region->by_offset.find(place.slot_offset)->second;
        if (!slot.sent || (!slot.unleasable && !leased(place.region->file, place.slot_offset, place.slot_size)))
            return false;
    }
    return value_error(ErrorCode::read_only,
                       {"argument 'access': '", access_name(access), "', but the memory is ",
                        place.region->writers ? "one that others may write" : "sealed against writers",
                        ", or lent so to another process now; expected a tensor made for this access"});
}

/// Finds the slot of the tensor's elements, made fit for `access`.
inline Result<Place> place_for(const Tensor& tensor, Access access, std::int64_t first, std::int64_t last) {
    Registry& r = registry();
    for (;;) {
        Place place;
        {
            Guard guard(r.mutex);
            if (!find_place(r, tensor.data(), first, last, place))
                return Error(
                    ErrorCode::needs_copy,
                    "argument 'tensor': its memory is not in a segment of isthmus::shared that this process may send "
                    "on; make it with empty(), or copy it with share()");
            if (access == Access::shared && place.region->access == Access::read_only)
                return value_error(ErrorCode::read_only,
                                   "argument 'access': 'shared', but the memory was received as read_only");
            Result<bool> fit = is_fit(place, access);
            if (!fit) return std::move(fit).error();
            if (*fit) {
                place.region->by_offset.find(place.slot_offset)->second.sent = true;
                return place;
            }
        }
        if (auto moved = move_slot(*place.seen_in, place.seen_at, access == Access::shared); !moved)
            return std::move(moved).error();
    }
}

/// The open file that goes with a message, of the memory of a slot, and whether it holds a lease on it.
struct Sent {
    File own;  ///< none: the region's is sent
    bool leased = false;
};

/// If there can be no lease (the system has none, or /proc is not mounted) the memory is not reused before its whole
/// segment is free.
inline Result<Sent> file_to_send(const Place& place) {
    Sent sent{.own = reopen(place.region->file)};
    if (!sent.own && (errno == EMFILE || errno == ENFILE || errno == ENOMEM)) return system_error("open", errno);
    sent.leased = sent.own && lease(sent.own, place.slot_offset, place.slot_size);
    if (sent.leased) return sent;
    Guard guard(registry().mutex);
    place.region->by_offset.find(place.slot_offset)->second.unleasable = true;
    return sent;
}

inline Message describe(const Tensor& t, const Place& place, Access access, bool leased) {
    Message m;
    Header& h = m.header;
    std::memcpy(h.magic, message_magic, sizeof h.magic);
    h.version = message_version;
    h.dtype = t.dtype();
    h.ndim = t.ndim();
    h.flags = t.is_padded() ? static_cast<std::uint32_t>(flag::padded) : 0;
    h.access = static_cast<std::uint8_t>(access);
    h.leased = leased ? 1 : 0;
    h.segment_size = place.region->size;
    h.slot_offset = place.slot_offset;
    h.slot_size = place.slot_size;
    h.data_offset = place.offset;
    std::copy(t.shape().begin(), t.shape().end(), m.dims);
    std::copy(t.strides().begin(), t.strides().end(), m.dims + h.ndim);
    h.length = static_cast<std::uint32_t>(m.length());
    return m;
}

/// The region of the same object whose leases another message may join, if it has a place for the slot: ranges of one
/// open file are unlocked whoever has locked them, so that slots of one region are the same or apart.
inline Region* joinable_region(Registry& r, const Registry::Joinable& key, std::size_t offset, std::size_t size) {
    const auto found = r.joinable.find(key);
    if (found == r.joinable.end()) return nullptr;
    Region& region = *found->second;
    const auto at = region.by_offset.lower_bound(offset);
    const bool same = at != region.by_offset.end() && at->first == offset && at->second.size == size;
    if (same) return &region;
    if (at != region.by_offset.end() && at->first < offset + size) return nullptr;
    if (at != region.by_offset.begin() && std::prev(at)->first + std::prev(at)->second.size > offset) return nullptr;
    return &region;
}

/// Another slot of a region that was received. `file` brings the lease of the message.
inline Hold join_region(Region& region, std::size_t offset, std::size_t size, File file) {
    auto [at, is_new] = region.by_offset.try_emplace(offset);
    Slot& slot = at->second;
    if (is_new) slot.unleasable = !lease(region.file, offset, slot.size = size);
    Hold hold = hold_slot(region, offset, slot);
    if (slot.unleasable) hold.keep(std::move(file));  // the message's own lease, as long as this tensor lives
    return hold;
}

/// Joins an existing region of the same object, or makes a new one. `file` brings the lease of the message.
inline Result<Hold> attach(const Message& m, Access access, File file) {
    const Header& h = m.header;
    const auto offset = static_cast<std::size_t>(h.slot_offset), size = static_cast<std::size_t>(h.slot_size);
    Registry& r = registry();
    const Identity identity = identify(file);
    Guard guard(r.mutex);
    if (h.leased != 0)
        if (Region* known = joinable_region(r, {identity, access}, offset, size))
            return join_region(*known, offset, size, std::move(file));
    auto region = std::make_unique<Region>();
    region->kind = RegionKind::received;
    region->writers = allows_writers(file);
    region->identity = identity;
    region->access = access;
    region->size = static_cast<std::size_t>(h.segment_size);
    if (access != Access::copy_on_write) {  // private mappings belong to one tensor each
        Result<Mapping> map = map_file(file, 0, region->size, access);
        if (!map) return std::move(map).error();
        region->map = std::move(*map);
    }
    // The sender has the open file of its message too, and could end any lease in it: those of others' messages need
    // one that only this process has.
    File own = h.leased != 0 ? reopen(file) : File();
    const bool joinable = own && lease(own, offset, size);
    region->file = joinable ? std::move(own) : std::move(file);
    region->inherited = h.leased == 0;
    Slots::node_type slot = make_node<Slots>();
    return add_slot(add_region(r, region, joinable), offset, size, std::move(slot));
}

/// The tensor of a message that has been checked.
inline Result<Tensor> open_tensor(const Message& m, Access access, File file) {
    const Header& h = m.header;
    const auto slot_offset = static_cast<std::size_t>(h.slot_offset), slot_size = static_cast<std::size_t>(h.slot_size);
    Mapping view;
    if (access == Access::copy_on_write) {
        Result<Mapping> map = map_file(file, slot_offset, slot_size, access);
        if (!map) return std::move(map).error();
        view = std::move(*map);
    }
    Result<Hold> hold = attach(m, access, std::move(file));
    if (!hold) return std::move(hold).error();
    if (view) hold->keep(std::move(view));
    char* data = hold->data() + (h.data_offset - h.slot_offset);
    const auto count = static_cast<std::size_t>(h.ndim);
    const auto spec_of_message = [&] {
        TensorSpec spec(data, h.dtype, std::span<const std::int64_t>(m.shape(), count));
        spec.set_strides(std::span<const std::int64_t>(m.strides(), count));
        spec.read_only = access == Access::read_only;
        spec.padded = m.padded();
        return spec;
    };
    Result<Tensor> tensor = catch_error([&] { return Tensor::wrap_spec(spec_of_message, std::move(*hold)); });
    if (!tensor) return bad_tensor("the message", std::move(tensor).error());
    return tensor;
}

/// The refusals of send() that do not depend on the tensor's memory.
inline Result<void> check_sendable(const Tensor& tensor, Access access) {
    if (!tensor) return Error(ErrorCode::bad_argument, "argument 'tensor': empty; expected a tensor");
    if (static_cast<std::uint8_t>(access) > static_cast<std::uint8_t>(Access::shared))
        return make_error(ErrorCode::bad_argument,
                          {"argument 'access': ", static_cast<int>(access), "; expected 0, 1 or 2"});
    if (!tensor.device().is_host())
        return make_error(ErrorCode::bad_device, {"argument 'tensor': on ", tensor.device(), "; expected host memory"});
    if (tensor.read_only() && access == Access::shared)
        return value_error(
            ErrorCode::read_only,
            "argument 'access': 'shared', but the tensor is read-only; expected read_only or copy_on_write");
    return {};
}

}  // namespace shared::impl

ISTHMUS_END
