// Operators with as many parameters as those of libraries for attention: rotation, the forward pass, its plan.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/module.h>  // Python.h must come before any standard header
#include <isthmus/op.h>

#include <algorithm>
#include <cmath>
#include <optional>

namespace {

using isthmus::arg, isthmus::DType, isthmus::InOut, isthmus::op, isthmus::Out, isthmus::sizes, isthmus::View;

using Rows = View<const float, 2, sizes<"b d">>;
using Keys = View<const float, 2, sizes<"m d">>;
using MaybeRows = std::optional<Rows>;
using MaybeFloats = std::optional<View<const float, 1>>;
using MaybeTable = std::optional<View<const float, 2>>;
using MaybeCounts = std::optional<View<const std::int32_t, 1>>;
using MaybePages = std::optional<View<const std::int32_t, 2>>;
using MaybeNew = std::optional<InOut<float, 2, sizes<"r d">>>;
using MaybePlace = std::optional<InOut<float, 2, sizes<"b d">>>;
using MaybeInteger = std::optional<std::int64_t>;

/// Turns pairs of neighbours, or halves, by the angles of each row's position; the table has cosines, then sines.
template <class X>
void turn(const X& x, const View<const std::int64_t, 1, sizes<"n">>& positions, std::int64_t width,
          const View<const float, 2, sizes<"most angles">>& table, bool interleaved) {
    const std::int64_t half = width / 2;
    for (std::int64_t i = 0; i < x.extent(0); ++i)
        for (std::int64_t j = 0; j < half; ++j) {
            float& a = x(i, interleaved ? 2 * j : j);
            float& b = x(i, interleaved ? 2 * j + 1 : j + half);
            const float c = table(positions(i), j), s = table(positions(i), half + j), first = a;
            a = c * first - s * b;
            b = s * first + c * b;
        }
}
void rotate(View<const std::int64_t, 1, sizes<"n">> positions, InOut<float, 2, sizes<"n d">> query,
            std::optional<InOut<float, 2, sizes<"n d">>> key, std::int64_t width,
            View<const float, 2, sizes<"most angles">> table, bool interleaved) {
    turn(query, positions, width, table, interleaved);
    if (key) turn(*key, positions, width, table, interleaved);
}

/// Attention of queries to keys. Rows of `new_k` and `new_v` are doubled in place, `place` gets the result too; the
/// other tensors that may be None are counted in the last row of the parts.
void attend(Rows q, Keys k, Keys v, MaybeNew new_k, MaybeNew new_v, MaybeRows q_v, MaybePlace place,
            MaybeCounts starts_q, MaybeCounts starts_k, MaybeCounts starts_new, MaybeCounts used_q, MaybeCounts used_k,
            MaybeInteger longest_q, MaybeInteger longest_k, MaybePages pages, MaybeCounts batch_of, MaybeCounts padding,
            MaybeTable cosines, MaybeTable sines, MaybeCounts turned, MaybeFloats scale_q, MaybeFloats scale_k,
            MaybeFloats scale_v, std::optional<double> scale, bool causal, std::int64_t left, std::int64_t right,
            std::int64_t chunk, double cap, bool interleaved, MaybeCounts plan, std::int64_t splits,
            std::optional<bool> packs, std::int64_t margin, Out<float, 2, sizes<"b d">> out,
            Out<float, 1, sizes<"b">> sums, Out<float, 3, sizes<"splits b d">> parts,
            Out<float, 2, sizes<"splits b">> part_sums) {
    const std::int64_t rows = q.extent(0), width = q.extent(1);
    const double by = scale.value_or(1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(width, 1))));
    for (std::int64_t i = 0; i < rows; ++i) {
        double sum = 0;
        for (std::int64_t d = 0; d < width; ++d) out(i, d) = 0;
        for (std::int64_t j = 0; j < k.extent(0); ++j) {
            if ((causal && j > i) || (left >= 0 && i - j > left) || (right >= 0 && j - i > right)) continue;
            double score = 0;
            for (std::int64_t d = 0; d < width; ++d) score += by * q(i, d) * k(j, d);
            const double weight = std::exp(cap > 0 ? cap * std::tanh(score / cap) : score);
            sum += weight;
            for (std::int64_t d = 0; d < width; ++d) out(i, d) += static_cast<float>(weight * v(j, d));
        }
        sums(i) = static_cast<float>(std::log(sum));
        for (std::int64_t d = 0; d < width; ++d) out(i, d) /= static_cast<float>(sum);
        for (std::int64_t d = 0; q_v && d < width; ++d) out(i, d) += (*q_v)(i, d);
        for (std::int64_t d = 0; place && d < width; ++d) (*place)(i, d) = out(i, d);
    }
    for (const MaybeNew* each : {&new_k, &new_v})
        for (std::int64_t i = 0; *each && i < (*each)->extent(0); ++i)
            for (std::int64_t d = 0; d < width; ++d) (**each)(i, d) *= 2;
    std::int64_t given = 0, bit = 1;
    const auto note = [&](bool is_given) { given += is_given ? bit : 0, bit *= 2; };
    for (const MaybeCounts* each :
         {&starts_q, &starts_k, &starts_new, &used_q, &used_k, &batch_of, &padding, &turned, &plan})
        note(each->has_value());
    for (const MaybeFloats* each : {&scale_q, &scale_k, &scale_v}) note(each->has_value());
    for (const bool each :
         {pages.has_value(), cosines.has_value(), sines.has_value(), interleaved, packs.value_or(false)})
        note(each);
    given += 200000 * (longest_q.value_or(0) + 2 * longest_k.value_or(0) + 4 * chunk + 8 * margin);
    for (std::int64_t s = 0; s < splits; ++s)
        for (std::int64_t i = 0; i < rows; ++i) {
            part_sums(s, i) = s == 0 ? sums(i) : static_cast<float>(given);
            for (std::int64_t d = 0; d < width; ++d) parts(s, i, d) = s == 0 ? out(i, d) : 0;
        }
}

/// How the work of a forward pass is divided: the first row of each part of each sequence, and the last one.
void schedule(std::int64_t batch, std::int64_t longest_q, std::int64_t longest_k, std::int64_t heads,
              std::int64_t heads_k, std::int64_t width, std::int64_t width_v, DType dtype,
              View<const std::int32_t, 1, sizes<"b">> used_k, MaybeCounts starts_q, MaybeCounts starts_k,
              MaybeCounts starts_new, MaybeCounts used_q, MaybeCounts padding, MaybeInteger page,
              std::int64_t longest_new, bool causal, std::int64_t left, std::int64_t right, std::int64_t chunk,
              bool capped, std::int64_t splits, std::optional<bool> packs, std::int64_t margin,
              Out<std::int32_t, 1, sizes<"b*splits+1">> first) {
    (void)(batch + longest_q + longest_k + heads + heads_k + width + width_v + longest_new + left + right + chunk);
    (void)(causal || capped || starts_q || starts_k || starts_new || used_q || padding || page || packs);
    std::int32_t at = static_cast<std::int32_t>(margin);
    const auto unit = static_cast<std::int32_t>(dtype.itemsize());
    for (std::int64_t i = 0; i < used_k.extent(0); ++i)
        for (std::int64_t s = 0; s < splits; ++s) {
            first(i * splits + s) = at;
            const auto parts = static_cast<std::int32_t>(splits), part = static_cast<std::int32_t>(s);
            at += (used_k(i) + parts - 1 - part) / parts * unit;
        }
    first(used_k.extent(0) * splits) = at;
}

}  // namespace

ISTHMUS_MODULE(isthmus_operators_attention_test_ext, m, isthmus::free_threaded) {
    (void)(op<"attention::rotate", rotate>(m, {"positions", "query", "key", "width", "table", "interleaved"}) &&
           op<"attention::attend", attend>(m, {"q",
                                               "k",
                                               "v",
                                               "new_k",
                                               "new_v",
                                               "q_v",
                                               "place",
                                               "starts_q",
                                               "starts_k",
                                               "starts_new",
                                               "used_q",
                                               "used_k",
                                               "longest_q",
                                               "longest_k",
                                               "pages",
                                               "batch_of",
                                               "padding",
                                               "cosines",
                                               "sines",
                                               "turned",
                                               "scale_q",
                                               "scale_k",
                                               "scale_v",
                                               "scale",
                                               arg("causal") = false,
                                               arg("left") = -1,
                                               arg("right") = -1,
                                               arg("chunk") = 0,
                                               arg("cap") = 0.0,
                                               arg("interleaved") = false,
                                               "plan",
                                               arg("splits") = 1,
                                               "packs",
                                               arg("margin") = 0}) &&
           op<"attention::schedule", schedule>(m, {"batch",
                                                   "longest_q",
                                                   "longest_k",
                                                   "heads",
                                                   "heads_k",
                                                   "width",
                                                   "width_v",
                                                   "dtype",
                                                   "used_k",
                                                   "starts_q",
                                                   "starts_k",
                                                   "starts_new",
                                                   "used_q",
                                                   "padding",
                                                   "page",
                                                   arg("longest_new") = 0,
                                                   arg("causal") = false,
                                                   arg("left") = -1,
                                                   arg("right") = -1,
                                                   arg("chunk") = 0,
                                                   arg("capped") = false,
                                                   arg("splits") = 1,
                                                   "packs",
                                                   arg("margin") = 0}));
}
