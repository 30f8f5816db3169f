// SPDX-License-Identifier: Apache-2.0
// Sums over ragged arrays: the rows of segments of different lengths stand one behind
// the other in one array.
#include <isthmus/nanobind.h>
#include <isthmus/op.h>

#include <stdexcept>
#include <string>

namespace nb = nanobind;

namespace {

using isthmus::one_of, isthmus::Out, isthmus::sizes, isthmus::View;
using Rows = View<const one_of<float, double>, 2, sizes<"n d">>;
using Lengths = View<const one_of<std::int32_t, std::int64_t>, 1, sizes<"m">>;

/// Calls `f` with the number of each segment, that of its first row, and the one behind
/// its last.
template <class F>
void for_segments(Lengths lengths, std::int64_t rows, F&& f) {
    lengths.visit([&](auto length) {
        std::int64_t first = 0;
        for (std::int64_t k = 0; k < length.extent(0); first += length(k++)) {
            if (length(k) < 0 || length(k) > rows - first)
                throw std::invalid_argument("argument 'lengths': segment " +
                                            std::to_string(k) + " has " +
                                            std::to_string(length(k)) + " rows, and " +
                                            std::to_string(rows - first) + " are left");
            f(k, first, first + length(k));
        }
        if (first != rows)
            throw std::invalid_argument(
                "argument 'lengths': the segments have " + std::to_string(first) +
                " rows, and argument 'values' has " + std::to_string(rows));
    });
}

/// sums[k] is the sum of the rows of segment k.
void segment_sum(Rows values, Lengths lengths,
                 Out<one_of<float, double>, 2, sizes<"m d">> sums) {
    values.visit([&](auto x) {
        const auto y = sums.as<typename decltype(x)::value_type>().value();
        for_segments(lengths, x.extent(0),
                     [&](std::int64_t k, std::int64_t first, std::int64_t last) {
                         for (std::int64_t j = 0; j < x.extent(1); ++j) {
                             y(k, j) = 0;
                             for (std::int64_t i = first; i < last; ++i)
                                 y(k, j) += x(i, j);
                         }
                     });
    });
}

/// The gradient of the sums comes first, then all inputs: each row of a segment has the
/// segment's.
void segment_sum_gradient(View<const one_of<float, double>, 2, sizes<"m d">> sums, Rows,
                          Lengths lengths,
                          Out<one_of<float, double>, 2, sizes<"n d">> values) {
    sums.visit([&](auto g) {
        const auto dx = values.as<typename decltype(g)::value_type>().value();
        for_segments(lengths, dx.extent(0),
                     [&](std::int64_t k, std::int64_t first, std::int64_t last) {
                         for (std::int64_t i = first; i < last; ++i)
                             for (std::int64_t j = 0; j < g.extent(1); ++j)
                                 dx(i, j) = g(k, j);
                     });
    });
}

/// Where each segment begins, and where the last one ends.
isthmus::Reply starts(const isthmus::Argument<Lengths, "lengths", "starts">& lengths) {
    const auto result =
        isthmus::empty_like(lengths, {lengths->extent(0) + 1}, lengths->dtype());
    lengths->visit([&](auto length) {
        const auto start =
            result.template view<typename decltype(length)::value_type, 1>().value();
        start(0) = 0;
        for (std::int64_t k = 0; k < length.extent(0); ++k)
            start(k + 1) = start(k) + length(k);
    });
    return lengths.reply(result);
}

}  // namespace

NB_MODULE(_segments, m) {
    isthmus::op<"segments::segment_sum", segment_sum>(m, {"values", "lengths"})
        .gradient<segment_sum_gradient>();
    m.def("starts", starts, nb::arg("lengths"),
          "Where each segment begins, and where the last one ends.");
}
