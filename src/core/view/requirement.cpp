// Requirement: what a view type asks of a tensor, as plain values, with one check and one explanation for all types.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/view/view.h>

ISTHMUS_BEGIN

namespace detail {

static ISTHMUS_COLD void append_description(TextBuffer& out, const void* of, Piece::Number) noexcept {
    const auto& tensor = *static_cast<const DLTensor*>(of);
    // Opaque bytes are what records are (isthmus/records.h); the words of what was expected say which.
    const bool opaque = tensor.dtype.code == kDLOpaqueHandle && tensor.dtype.lanes != 1;
    if (!opaque) Message({DType(tensor.dtype)}).append_to(out);
    out += "[";
    for (int i = 0; i < tensor.ndim; ++i) Message({(i != 0 ? ", " : ""), tensor.shape[i]}).append_to(out);
    Message({"] on ", Device(tensor.device)}).append_to(out);
}
ISTHMUS_RARE Piece described(const DLTensor& t) noexcept { return {append_description, &t, 0}; }
ISTHMUS_RARE std::string describe_tensor(const DLTensor& t) { return concat({described(t)}); }

static ISTHMUS_COLD void append_overlap(TextBuffer& out, const void* of, Piece::Number) noexcept {
    const auto& tensor = *static_cast<const DLTensor*>(of);
    Message({"strides ", sizes_text(tensor.strides, tensor.ndim), " of shape ", sizes_text(tensor.shape, tensor.ndim),
             " let elements overlap, so that one write would show in several of them; write to a copy"})
        .append_to(out);
}
ISTHMUS_RARE Piece overlap_of(const DLTensor& t) noexcept { return {append_overlap, &t, 0}; }
ISTHMUS_RARE std::string overlap_text(const DLTensor& t) { return concat({overlap_of(t)}); }

/// Why the sizes are not the expected ones; empty if they are.
ISTHMUS_COLD inline TextBuffer explain_sizes(const DLTensor& t, const Requirement& r, SizeNames& names,
                                             const char* argument) {
    for (int i = 0; i < t.ndim; ++i) {
        const SizeSpec& wanted = r.sizes[i];
        if (wanted.size != dyn && wanted.size != t.shape[i])
            return compose("dimension % has size %, expected %", {i, t.shape[i], wanted.size});
        if (wanted.name.empty()) continue;
        const std::int64_t named = t.shape[i] - wanted.more;
        if (named < 0) return compose("dimension % has size %, expected % or more", {i, t.shape[i], wanted.more});
        const SizeNames::Entry* other = names.contradiction(wanted.name, named, argument, i);
        if (other == nullptr) continue;
        if (other->name != wanted.name) return compose("this call names more than % sizes", {SizeNames::most});
        const std::string_view name = wanted.name;
        if (other->argument != argument && other->argument != nullptr)
            return compose("% is % here and % in %", {name, named, other->size, named_argument(other->argument)});
        return compose("% is % in dimension % and % in dimension %", {name, other->size, other->dimension, named, i});
    }
    return {};
}

ISTHMUS_RARE Error explain_mismatch(const DLTensor& t, Flags flags, const Requirement& r, SizeNames& names,
                                    const char* argument) {
    const bool read_only = (flags & flag::read_only) != 0;
    const auto error = [&](ErrorCode code, Message what) {
        return make_error(code, ErrorKind::value,
                          {(r.writable ? "expected writable " : "expected "), r.words, ", got ",
                           (read_only ? "read-only " : ""), described(t), ": ", what});
    };
    const DType dtype = t.dtype;
    if (!r.takes(dtype)) return error(ErrorCode::bad_dtype, "dtype differs");
    if (t.ndim < r.min_rank || t.ndim > r.max_rank) return error(ErrorCode::bad_layout, "number of dimensions differs");
    if (r.device_type == host_memory && !Device(t.device).is_host())
        return error(ErrorCode::bad_device, "the host must not touch this memory");
    if (r.device_type > any_memory && t.device.device_type != r.device_type)
        return error(ErrorCode::bad_device, "device differs");
    if (r.writable && read_only) return error(ErrorCode::read_only, "the memory is read-only");
    if (r.writable && layout::overlaps(t)) return error(ErrorCode::bad_layout, {overlap_of(t)});
    if (r.size_count >= 0)
        if (const TextBuffer why = explain_sizes(t, r, names, argument); !why.view().empty() || why.failed())
            return error(ErrorCode::bad_layout, why);
    if (dtype.is_subbyte() && !(flags & flag::padded))
        return error(ErrorCode::bad_layout, "the elements are packed, several to a byte");
    if (!has_order(t, r.order)) {
        const char* what = r.order == Order::c   ? "are not C-contiguous"
                           : r.order == Order::f ? "are not F-contiguous"
                                                 : "leave gaps within a row";
        return error(ErrorCode::bad_layout, {"strides ", sizes_text(t.strides, t.ndim), " ", what});
    }
    if (r.alignment > 16)
        return error(ErrorCode::bad_layout, {"data at ", hex(t.data), " is not aligned to ", r.alignment, " bytes"});
    return error(ErrorCode::bad_layout, "the data is not aligned for this type");
}

Error unvisited(DType dtype) {
    return make_error(ErrorCode::bad_dtype, {"visit() tries no type of dtype ", dtype, "; name one: visit<T, …>(f)"});
}
Error not_of_type(DType wanted, DType found) {
    const bool same = found == wanted;
    return make_error(
        same ? ErrorCode::bad_layout : ErrorCode::bad_dtype, ErrorKind::value,
        {"expected ", wanted, ", got ", found, (same ? ": the data is not aligned for this type" : ": dtype differs")});
}

}  // namespace detail

ISTHMUS_END
