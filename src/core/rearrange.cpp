// The arithmetic behind slice(), select(), reshape(), transpose() and broadcast_to().
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/device.h>
#include <isthmus/core/rearrange.h>

ISTHMUS_BEGIN

namespace detail {

Error rearrange_error(const char* call, std::string_view text, ErrorCode code) {
    return make_error(code, ErrorKind::value, {call, "(): ", text});
}

int dimension_of(const char* call, int dimension, int ndim) {
    const int found = dimension < 0 ? dimension + ndim : dimension;
    if (ISTHMUS_UNLIKELY(found < 0 || found >= ndim))
        throw rearrange_error(call, concat({"found dimension ", dimension, "; expected one of ", ndim}),
                              ErrorCode::bad_argument);
    return found;
}

std::int64_t index_of(const char* call, std::int64_t index, int dimension, std::int64_t size) {
    const std::int64_t found = index < 0 ? index + size : index;
    if (ISTHMUS_UNLIKELY(found < 0 || found >= size))
        throw rearrange_error(
            call, concat({"index ", index, " is out of bounds for dimension ", dimension, " of size ", size}),
            ErrorCode::bad_argument);
    return found;
}

Slice::Slice(std::int64_t size_before, std::int64_t stride_before, std::int64_t start, std::int64_t stop,
             std::int64_t step)
    : stride(stride_before) {
    if (ISTHMUS_UNLIKELY(step < 1))
        throw rearrange_error("slice", concat({"found step ", step, "; expected 1 or more"}), ErrorCode::bad_argument);
    const auto bound = [size_before](std::int64_t at) {
        if (at < 0) at = at < -size_before ? 0 : at + size_before;
        return at < size_before ? at : size_before;
    };
    const std::int64_t first = bound(start), last = bound(stop);
    if (first >= last) return;
    size = 1 + (last - first - 1) / step;
    offset = first;  // in steps: the caller multiplies if there are elements
    // Where another dimension leaves no elements, the stride may be any number, and is never used.
    if (std::int64_t between = stride; size > 1 && layout::multiply(between, step)) stride = between;
}

void move_first_element(DLTensor& t, std::int64_t offset, bool padded) {
    const DType dtype = t.dtype;
    std::int64_t bytes = offset * dtype.itemsize();
    if (dtype.is_subbyte() && !padded) {
        const std::int64_t bits = offset * dtype.element_bits();
        if (bits % 8 != 0)
            throw make_error(ErrorCode::bad_layout, ErrorKind::value,
                             {"element ", offset, " of packed ", dtype,
                              " begins within a byte; expected a part that begins with one"});
        bytes = bits / 8;
    }
    if (Device(t.device).is_opaque())
        t.byte_offset += static_cast<std::uint64_t>(bytes);
    else if (bytes != 0)
        t.data = static_cast<char*>(t.data) + bytes;
}
void resolve_shape(const std::int64_t* shape, int ndim, const std::int64_t* wanted, int wanted_ndim,
                   std::int64_t* out) {
    std::int64_t numel = 1, known = 1;
    for (int i = 0; i < ndim; ++i) numel *= shape[i];
    int open = -1;
    bool good = wanted_ndim <= max_ndim;
    for (int i = 0; good && i < wanted_ndim; ++i) {
        out[i] = wanted[i];
        if (wanted[i] == -1 && open < 0)
            open = i;
        else
            good = wanted[i] >= 0 && layout::multiply(known, wanted[i]);
    }
    std::int64_t counted = 0;
    if (good && open >= 0) {
        good = known != 0 && numel % known == 0;
        if (good) out[open] = numel / known;
    } else {  // the strides also count what stands beside a size of 0
        good = good && known == numel && layout::numel(out, wanted_ndim, counted);
    }
    if (!good)
        throw rearrange_error("reshape", concat({"shape ", sizes_text(wanted, wanted_ndim), " does not hold the ",
                                                 numel, " elements of shape ", sizes_text(shape, ndim)}));
}

void reshape_strides(const std::int64_t* shape, const std::int64_t* strides, int ndim, const std::int64_t* wanted,
                     int wanted_ndim, std::int64_t* out) {
    if (layout::is_contiguous(shape, strides, ndim)) {
        (void)layout::row_major(wanted, wanted_ndim, out);
        return;
    }
    // From the last dimension backwards: each run of old dimensions without gaps between them is divided among new
    // ones.
    std::int64_t run = 1, step = 1;
    int next = ndim - 1;
    for (int d = wanted_ndim - 1; d >= 0; --d) {
        out[d] = step;
        if (wanted[d] == 1) continue;
        if (run == 1) {
            while (shape[next] == 1) --next;
            run = shape[next];
            step = strides[next--];
            for (; next >= 0; --next) {
                std::int64_t behind = step;
                if (shape[next] != 1 && (!layout::multiply(behind, run) || strides[next] != behind)) break;
                run *= shape[next];
            }
            out[d] = step;
        }
        if (run % wanted[d] != 0)
            throw rearrange_error("reshape",
                                  concat({"strides ", sizes_text(strides, ndim), " of shape ", sizes_text(shape, ndim),
                                          " have shape ", sizes_text(wanted, wanted_ndim),
                                          " only in a copy; write contiguous() of a Tensor, or copy_of()"}));
        run /= wanted[d];
        if (run != 1) step *= wanted[d];
    }
}

void broadcast_strides(const std::int64_t* shape, const std::int64_t* strides, int ndim, const std::int64_t* wanted,
                       int wanted_ndim, std::int64_t* out) {
    const int added = wanted_ndim - ndim;
    std::int64_t numel = 0;
    bool good = added >= 0 && wanted_ndim <= max_ndim && layout::numel(wanted, wanted_ndim, numel);
    for (int i = 0; good && i < wanted_ndim; ++i) {
        const int from = i - added;
        const bool same = from >= 0 && shape[from] == wanted[i];
        good = same || from < 0 || shape[from] == 1;
        out[i] = same ? strides[from] : 0;
    }
    if (!good)
        throw rearrange_error("broadcast_to", concat({"shape ", sizes_text(shape, ndim), " does not broadcast to ",
                                                      sizes_text(wanted, wanted_ndim)}));
}

void resolve_axes(std::span<const std::int64_t> axes, int ndim, int* out) {
    bool used[max_ndim] = {};
    bool good = axes.empty() || static_cast<int>(axes.size()) == ndim;
    for (int i = 0; good && i < ndim; ++i) {
        std::int64_t axis = axes.empty() ? ndim - 1 - i : axes[static_cast<std::size_t>(i)];
        if (axis < 0) axis += ndim;
        good = axis >= 0 && axis < ndim && !std::exchange(used[axis], true);
        out[i] = static_cast<int>(axis);
    }
    if (!good)
        throw rearrange_error("transpose",
                              concat({"axes ", sizes_text(axes.data(), static_cast<int>(axes.size())), " are not the ",
                                      ndim, " dimensions, each once"}),
                              ErrorCode::bad_argument);
}

}  // namespace detail

ISTHMUS_END
