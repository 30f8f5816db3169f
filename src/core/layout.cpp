// Arithmetic on shapes and strides that does not overflow silently.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/layout.h>

ISTHMUS_BEGIN

namespace layout {

/// Whether two indices lead to one element: a search for steps, not all 0, that cancel out.
class OverlapSearch {
public:
    /// Room for the dimensions that are stepped along; each has a size above 1 and a stride other than 0.
    void add(std::int64_t size, std::int64_t stride) noexcept {
        const Dimension added{
            static_cast<std::uint64_t>(size - 1),
            stride < 0 ? std::uint64_t{0} - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride)};
        int at = count_++;
        for (; at > 0 && dims_[at - 1].stride < added.stride; --at) dims_[at] = dims_[at - 1];
        dims_[at] = added;
    }
    /// Also true when the search would take too long, which happens only for layouts that nobody uses.
    bool finds() noexcept {
        reach_[count_] = 0;
        for (int i = count_ - 1; i >= 0; --i)
            if (ISTHMUS_MULTIPLY_OVERFLOWS(dims_[i].last, dims_[i].stride, reach_[i]) ||
                ISTHMUS_ADD_OVERFLOWS(reach_[i], reach_[i + 1], reach_[i]) || reach_[i] > INT64_MAX / 4)
                return true;
        for (int i = 0; i + 1 < count_; ++i)
            if (i + 2 == count_ ? last_two_cancel() : cancels_from(i)) return true;
        return false;
    }

private:
    /// `last` is the largest index; strides are sorted, the largest first.
    struct Dimension {
        std::uint64_t last, stride;
    };

    /// Steps along the last two dimensions alone cancel out at the least common multiple of their strides, or never.
    bool last_two_cancel() const noexcept {
        const Dimension &a = dims_[count_ - 2], &b = dims_[count_ - 1];
        std::uint64_t common = a.stride;  // std::gcd() would make every file include <numeric>
        for (std::uint64_t rest = b.stride; rest != 0;) {
            const std::uint64_t next = common % rest;
            common = rest;
            rest = next;
        }
        return b.stride / common <= a.last && a.stride / common <= b.last;
    }
    /// Whether some steps along `first` are undone by those that follow.
    bool cancels_from(int first) noexcept {
        const Dimension& d = dims_[first];
        for (std::uint64_t steps = 1; steps <= d.last && steps * d.stride <= reach_[first + 1]; ++steps)
            if (reaches(first + 1, static_cast<std::int64_t>(steps * d.stride))) return true;
        return false;
    }
    /// Whether steps along `first` and those that follow lead exactly as far as `distance`.
    bool reaches(int first, std::int64_t distance) noexcept {
        if (distance == 0 || --budget_ < 0) return true;
        if (first == count_) return false;
        const auto last = static_cast<std::int64_t>(dims_[first].last),
                   stride = static_cast<std::int64_t>(dims_[first].stride);
        if (first + 1 == count_)
            return distance % stride == 0 && distance / stride <= last && distance / stride >= -last;
        const auto rest = static_cast<std::int64_t>(reach_[first + 1]);
        const std::int64_t enough = distance / stride + rest / stride + 1;
        for (std::int64_t steps = enough < last ? enough : last; steps >= -last; --steps) {
            const std::int64_t left = distance - steps * stride;
            if (left > rest) return false;
            if (left >= -rest && reaches(first + 1, left)) return true;
        }
        return false;
    }

    Dimension dims_[max_ndim];
    std::uint64_t reach_[max_ndim + 1];  // how far a dimension and all after it reach together
    int count_ = 0;
    int budget_ = 1 << 16;
};

bool search_overlap(const std::int64_t* shape, const std::int64_t* strides, int ndim) noexcept {
    for (int i = 0; i < ndim; ++i)
        if (shape[i] == 0) return false;
    OverlapSearch search;
    for (int i = 0; i < ndim; ++i) {
        if (shape[i] == 1) continue;
        if (strides[i] == 0) return true;
        search.add(shape[i], strides[i]);
    }
    return search.finds();
}

bool is_dense(const std::int64_t* shape, const std::int64_t* strides, int ndim) noexcept {
    std::int64_t step = 1;
    bool used[max_ndim] = {};
    for (int left = ndim; left > 0; --left) {
        int next = -1;
        for (int i = 0; i < ndim; ++i)  // a dimension of size 1 does not step
            if (!used[i] && (shape[i] == 1 || strides[i] == step || strides[i] == -step)) next = i;
        if (next < 0) return false;
        used[next] = true;
        if (!multiply(step, shape[next])) return false;
    }
    return true;
}

AddressRange addresses(const DLTensor& t) noexcept {
    std::int64_t first = 0, last = 0;
    if (numel(t) == 0 || !extent(t.shape, t.strides, t.ndim, DType(t.dtype).itemsize(), first, last)) return {};
    const std::uintptr_t begin = reinterpret_cast<std::uintptr_t>(t.data) + t.byte_offset;
    return {begin + static_cast<std::uintptr_t>(first), begin + static_cast<std::uintptr_t>(last) + 1};
}
bool may_share(const DLTensor& a, const DLTensor& b) noexcept {
    const AddressRange first = addresses(a), second = addresses(b);
    return first.begin < second.end && second.begin < first.end;
}

/// Whether a sum of steps, so many of each stride, lies in a range: the steps of two tensors, one of them walked
/// backwards from its last element, lead from the first element of the one to an element of the other.
class MeetingSearch {
public:
    void add(const DLTensor& t) noexcept {
        for (int i = 0; i < t.ndim; ++i)
            if (t.shape[i] > 1)
                add(static_cast<std::uint64_t>(t.shape[i] - 1),
                    detail::magnitude(t.strides[i] < 0 ? byte_stride(t, i) : -byte_stride(t, i)));
    }
    bool finds(std::int64_t low, std::int64_t high) noexcept {
        reach_[count_] = 0;
        for (int i = count_ - 1; i >= 0; --i) {
            std::int64_t reach = static_cast<std::int64_t>(dims_[i].stride);
            if (!multiply(reach, static_cast<std::int64_t>(dims_[i].last)) ||
                ISTHMUS_ADD_OVERFLOWS(reach, reach_[i + 1], reach_[i]))
                return true;
        }
        return finds_from(0, low, high);
    }

private:
    struct Dimension {
        std::uint64_t last, stride;
    };

    /// Steps of one length count together.
    void add(std::uint64_t last, std::uint64_t stride) noexcept {
        if (stride == 0) return;
        int at = 0;
        while (at < count_ && dims_[at].stride > stride) ++at;
        if (at < count_ && dims_[at].stride == stride) {
            dims_[at].last += last;
            return;
        }
        for (int i = count_++; i > at; --i) dims_[i] = dims_[i - 1];
        dims_[at] = {last, stride};
    }
    bool finds_from(int first, std::int64_t low, std::int64_t high) noexcept {
        if (high < 0 || low > reach_[first]) return false;
        if (low <= 0 || --budget_ < 0) return true;
        const auto last = static_cast<std::int64_t>(dims_[first].last),
                   stride = static_cast<std::int64_t>(dims_[first].stride);
        for (std::int64_t steps = high / stride < last ? high / stride : last; steps >= 0; --steps) {
            if (low - steps * stride > reach_[first + 1]) return false;
            if (finds_from(first + 1, low - steps * stride, high - steps * stride)) return true;
        }
        return false;
    }

    Dimension dims_[2 * max_ndim];
    std::int64_t reach_[2 * max_ndim + 1];  // how far a dimension and all after it reach together
    int count_ = 0;
    int budget_ = 1 << 16;
};

bool share_elements(const DLTensor& a, const DLTensor& b) noexcept {
    if (!may_share(a, b)) return false;
    const AddressRange of_a = addresses(a), of_b = addresses(b);
    MeetingSearch search;
    search.add(a);
    search.add(b);
    const std::int64_t size_a = DType(a.dtype).itemsize(), size_b = DType(b.dtype).itemsize();
    const std::int64_t last_b = static_cast<std::int64_t>(of_b.end - of_a.begin) - size_b;
    return search.finds(last_b - size_a + 1, last_b + size_b - 1);
}

std::string to_string(const std::int64_t* values, int ndim) {
    return detail::concat({detail::sizes_text(values, ndim)});
}
std::string to_string(std::span<const std::int64_t> values) {
    return to_string(values.data(), static_cast<int>(values.size()));
}

}  // namespace layout

ISTHMUS_END
