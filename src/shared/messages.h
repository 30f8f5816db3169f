// Messages of every kind: send() and receive(), and the trees of a Channel of Python, which are more than one tensor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "transfer.h"

ISTHMUS_BEGIN

namespace shared::impl {

/// As send(), for every kind.
inline Result<void> send_message(int socket, const Tensor& tensor, Access access, Kind kind, const Wait& wait) {
#if defined(_WIN32)
    (void)socket, (void)tensor, (void)access, (void)kind, (void)wait;
    return unsupported();
#else
    if (auto good = check_sendable(tensor, access); !good) return good;
    if (auto supported = socket_kind(socket); !supported) return std::move(supported).error();
    // Without elements any memory will do.
    const bool hollow = tensor.numel() == 0;
    Tensor stand_in;
    if (hollow) {
        Result<Tensor> made = empty({1}, uint8, access);
        if (!made) return std::move(made).error();
        stand_in = std::move(*made);
    }
    std::int64_t first = 0, last = 0;
    if (!hollow && !reach(tensor.descriptor(), tensor.is_padded(), first, last))
        return Error(ErrorCode::overflow, "argument 'tensor': its strides leave the address space");
    const Result<Place> place = place_for(hollow ? stand_in : tensor, access, first, last);
    if (!place) return place.error();
    const Result<Sent> sent = file_to_send(*place);
    if (!sent) return sent.error();
    Message m = describe(tensor, *place, access, sent->leased);
    m.header.kind = static_cast<std::uint8_t>(kind);
    const char* bytes = reinterpret_cast<const char*>(&m);
    return send_bytes(socket, bytes, m.length(), sent->own ? sent->own : place->region->file, wait);
#endif
}

/// As receive(), for every kind.
inline Result<Tensor> receive_message_of(int socket, std::optional<Access> access, Kind& kind, const Wait& wait) {
#if defined(_WIN32)
    (void)socket, (void)access, (void)kind, (void)wait;
    return unsupported();
#else
    Message m;
    Result<File> file = receive_message(socket, m, wait);
    if (!file) return std::move(file).error();
    if (auto good = check_message(m, page_size()); !good) return std::move(good).error();
    const Access wanted = access.value_or(m.access());
    if (wanted > m.access())
        return value_error(ErrorCode::read_only, {"argument 'access': '", access_name(wanted),
                                                  "', but the sender allows '", access_name(m.access()), "'"});
    if (auto good = check_memory(*file, m.header.segment_size, m.access() == Access::shared); !good)
        return std::move(good).error();
    kind = static_cast<Kind>(m.header.kind);
    return open_tensor(m, wanted, std::move(*file));
#endif
}

/// Copies the elements, in their own order if they are dense (then it returns true, and `first` is the first byte that
/// belongs to them, from the first element), else row-major.
inline bool copy_elements_to(const Tensor& tensor, char* to, std::int64_t& first) {
    const DLTensor& t = tensor.descriptor();
    std::int64_t last = 0;
    first = 0;
    const bool packed = tensor.dtype().is_subbyte() && !tensor.is_padded();
    const bool dense = tensor.numel() != 0 && reach(t, tensor.is_padded(), first, last) &&
                       (packed || layout::is_dense(t.shape, t.strides, t.ndim));
    if (dense)
        std::memcpy(to, static_cast<char*>(tensor.data()) + first, static_cast<std::size_t>(tensor.nbytes()));
    else
        isthmus::detail::copy_elements(t, to);
    return dense;
}

/// A tensor over a part of `flat`, flat bytes that it keeps; an Error of code bad_message if it does not lie within
/// them. `strides` count elements; NULL is row-major.
inline Result<Tensor> view_within(const Tensor& flat, std::uint64_t offset, DType dtype, const Shape& shape,
                                  const Shape* strides, bool padded) {
    if (!dtype.is_valid()) return bad_message("the tree says a dtype that DLPack does not define");
    if (offset > static_cast<std::uint64_t>(flat.nbytes()))
        return bad_message({"the tree says a tensor at byte ", offset, " of ", flat.nbytes()});
    const auto describe = [&] {
        TensorSpec spec(static_cast<char*>(flat.data()) + offset, dtype, shape);
        if (strides != nullptr) spec.set_strides(*strides);
        spec.padded = padded;
        spec.read_only = flat.read_only();
        return spec;
    };
    Result<Tensor> view = catch_error([&] { return Tensor::wrap_spec(describe, Tensor(flat)); });
    if (!view) return bad_tensor("the tree", std::move(view).error());
    std::int64_t first = 0, last = 0;
    if (!reach(view->descriptor(), padded, first, last) || isthmus::detail::magnitude(first) > offset ||
        (last >= 0 && static_cast<std::uint64_t>(last) >= static_cast<std::uint64_t>(flat.nbytes()) - offset))
        return bad_message(
            {"the tree says elements from ", first, " to ", last, " around byte ", offset, " of ", flat.nbytes()});
    return view;
}

}  // namespace shared::impl

ISTHMUS_END
