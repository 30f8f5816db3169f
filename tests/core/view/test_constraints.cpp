// SPDX-License-Identifier: Apache-2.0
// What a view type may ask of a tensor, and what it says when it does not get it.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

#include "support/counting.h"

using namespace isthmus;
using isthmus_test::counting;

namespace {

template <class V>
std::string refusal(const Tensor& t) {
    auto view = t.view<V>();
    return view ? "(taken)" : view.error().what();
}

TEST(Constraints, FloatingIsWhatTheTableOfCodesSays) {
    for (int code = 0; code < 256; ++code)
        for (int bits = 1; bits < 256; ++bits) {
            const isthmus::DType dtype{code, bits};
            if (!dtype.is_valid()) continue;
            EXPECT_EQ(floating::accepts(dtype), dtype.name().find("float") != std::string::npos) << dtype.name();
        }
    EXPECT_FALSE(floating::accepts(isthmus::DType(255, 32)));
    EXPECT_FALSE(floating::accepts(isthmus::DType(kDLFloat, 32, 4)));
}

TEST(Constraints, TheWordsOfATypeAreAConstant) {
    static_assert(View<const std::uint8_t, 3, sizes<"h w 3">, c_contiguous>::words() ==
                  "uint8[h, w, 3] C-contiguous on cpu");
    static_assert(View<float, 2>::words() == "float32[:, :] on cpu");
    static_assert(View<float, 3, extents<dyn, dyn, 3>>::words() == "float32[:, :, 3] on cpu");
    static_assert(View<const one_of<float, double>, dynamic_rank>::words() == "float32|float64[...] on cpu");
    static_assert(View<floating, dynamic_rank, rank_between<1, 3>, on_cuda>::words() ==
                  "floating[1 to 3 dimensions] on cuda");
    static_assert(View<any_dtype, dynamic_rank, rank_between<2>, on_any_device>::words() ==
                  "any dtype[2 or more dimensions] on any device");
    static_assert(View<float, 0>::words() == "float32[] on cpu");
    static_assert(View<float, dynamic_rank, sizes<"b... e k...">>::words() == "float32[b..., e, k...] on cpu");
    static_assert(View<bool, 1, inner_contiguous, aligned<64>>::words() ==
                  "bool[:] with contiguous rows aligned to 64 bytes on cpu");
}

TEST(Constraints, WhatIsAWordForSizes) {
    using namespace isthmus::detail;
    static_assert(are_size_words("h w 3") && are_size_words(": n_2 :"));
    static_assert(is_size_word("123456789012345678") && !is_size_word("1234567890123456789"), "it would overflow");
    static_assert(!is_size_word("3d") && !is_size_word("a-b") && !is_size_word("?"));
    static_assert(!are_size_words("h a- 3") && !are_size_words("h w 3d"));
    static_assert(are_size_words("h a-b 3") && are_size_words("k c/(h*w) 2*(h+1)-w"));
    static_assert(!are_size_words("(n") && !are_size_words("n)") && !are_size_words("n**2") && !are_size_words("2n*k"));
    static_assert(!are_size_words("n%m") && !are_size_words("(n)m") && !are_size_words("n?2"), "no such operations");
    static_assert(!is_formula_word("n") && !is_formula_word("b...") && is_formula_word("2*n"));
    static_assert(count_formulas("n b... 2*n <=n") == 2);
    static_assert(has_formula(Wanted<const float, 2, sizes<"n 2*n">>::requirement));
    static_assert(!has_formula(Wanted<const float, 2, sizes<"n n+1">>::requirement));
    static_assert(read_size("b...").more == a_run && read_size("b...").name == "b");
    static_assert(read_size(":").size == dyn && read_size(":").name.empty(), "any size, and no name");
    static_assert(read_size("h").size == dyn && read_size("h").name == "h");
    static_assert(read_size("480").size == 480 && read_size("480").name.empty());
}

TEST(Constraints, AnUnconstrainedViewIsAsBefore) {
    static_assert(std::is_same_v<View<float, 2>, View<float, 2>>);
    static_assert(sizeof(View<float, 2, c_contiguous, sizes<"n d">>) == sizeof(View<float, 2>));
    const Tensor t = counting({2, 3}, 6);
    const View<float, 2, c_contiguous> strict = t.view<float, 2, c_contiguous>().value();
    const View<const float, 2> loose = strict;
    EXPECT_EQ(loose(1, 2), 5);
    static_assert(!std::is_convertible_v<View<float, 2>, View<float, 2, c_contiguous>>);
    static_assert(!std::is_convertible_v<View<const float, 2, c_contiguous>, View<float, 2>>);
    static_assert(!std::is_convertible_v<View<float, 2, on_cuda>, View<float, 2>>);
}

TEST(Constraints, Sizes) {
    const Tensor t = counting({2, 4, 3}, 24);
    EXPECT_EQ((refusal<View<float, 3, extents<dyn, dyn, 3>>>(t)), "(taken)");
    EXPECT_EQ((refusal<View<float, 3, sizes<"h, w, 3">>>(t)), "(taken)");
    EXPECT_EQ((refusal<View<const float, 3, extents<dyn, dyn, 4>>>(t)),
              "expected float32[:, :, 4] on cpu, got float32[2, 4, 3] on cpu: dimension 2 has size 3, expected 4");
    EXPECT_EQ(
        (refusal<View<const float, 3, sizes<"n : n">>>(t)),
        "expected float32[n, :, n] on cpu, got float32[2, 4, 3] on cpu: n is 2 in dimension 0 and 3 in dimension 2");
    EXPECT_EQ((refusal<View<float, 2, sizes<"n n">>>(counting({3, 3}, 9))), "(taken)");
    EXPECT_EQ((refusal<View<float, 0, sizes<"">>>(counting({}, 1))), "(taken)");
}

TEST(Constraints, SizesAndHowManyMore) {
    static_assert(View<const float, 2, sizes<"n+1 m-20">>::words() == "float32[n+1, m-20] on cpu");
    EXPECT_EQ((refusal<View<float, 2, sizes<"n+1 n">>>(counting({3, 2}, 6))), "(taken)");
    EXPECT_EQ((refusal<View<float, 2, sizes<"n-1 n+2">>>(counting({1, 4}, 4))), "(taken)");
    EXPECT_EQ((refusal<View<const float, 2, sizes<"n+1 n">>>(counting({2, 2}, 4))),
              "expected float32[n+1, n] on cpu, got float32[2, 2] on cpu: n is 1 in dimension 0 and 2 in dimension 1");
    EXPECT_EQ((refusal<View<const float, 1, sizes<"n+3">>>(counting({2}, 2))),
              "expected float32[n+3] on cpu, got float32[2] on cpu: dimension 0 has size 2, expected 3 or more");
    const Tensor ends = counting({4}, 4), values = counting({4}, 4);
    isthmus::Match match("f");
    EXPECT_TRUE((match.view<View<const float, 1, sizes<"n+1">>>("ends", ends)));
    EXPECT_EQ(match["n"], 3);
    EXPECT_STREQ((match.view<View<const float, 1, sizes<"n">>>("values", values).error().what()),
                 "f(): argument 'values': expected float32[n] on cpu, got float32[4] on cpu: n is 4 here and 3 in "
                 "argument 'ends'");
    isthmus::Match again("f");
    const auto n1 = ends.view<View<const float, 1, sizes<"n+1">>>().value();
    const auto n = values.view<View<const float, 1, sizes<"n">>>().value();
    EXPECT_TRUE(again.agree("ends", n1));
    EXPECT_STREQ(again.agree("values", n).error().what(),
                 "f(): argument 'values': expected float32[n] on cpu: n is 4 here and 3 in argument 'ends'");
}

TEST(Constraints, Layouts) {
    const Tensor t = counting({4, 6}, 24);
    const Tensor turned = t.as_strided(t.data(), {6, 4}, {1, 6}, float32);
    const Tensor part = t.as_strided(t.data(), {4, 3}, {6, 1}, float32);
    const Tensor skipping = t.as_strided(t.data(), {4, 3}, {6, 2}, float32);
    EXPECT_EQ((refusal<View<float, 2, c_contiguous>>(t)), "(taken)");
    EXPECT_EQ((refusal<View<float, 2, f_contiguous>>(turned)), "(taken)");
    EXPECT_EQ((refusal<View<float, 2, inner_contiguous>>(part)), "(taken)");
    EXPECT_EQ(
        (refusal<View<const float, 2, c_contiguous>>(turned)),
        "expected float32[:, :] C-contiguous on cpu, got float32[6, 4] on cpu: strides (1, 6) are not C-contiguous");
    EXPECT_EQ(
        (refusal<View<const float, 2, f_contiguous>>(t)),
        "expected float32[:, :] F-contiguous on cpu, got float32[4, 6] on cpu: strides (6, 1) are not F-contiguous");
    EXPECT_EQ((refusal<View<const float, 2, inner_contiguous>>(skipping)),
              "expected float32[:, :] with contiguous rows on cpu, got float32[4, 3] on cpu: strides (6, 2) leave gaps "
              "within a row");
    // Strides that are never used do not count.
    EXPECT_EQ((refusal<View<float, 2, inner_contiguous>>(t.as_strided(t.data(), {4, 1}, {1, 9}, float32))), "(taken)");
    EXPECT_EQ((refusal<View<float, 2, inner_contiguous>>(t.as_strided(t.data(), {0, 3}, {1, 9}, float32))), "(taken)");
}

TEST(Constraints, DevicesAndAlignment) {
    float memory[8] = {};
    const Tensor device = Tensor::wrap(memory, {2}, {}, float32, Device::cuda(1), nullptr);
    const auto v = device.view<float, 1, on_cuda>();
    ASSERT_TRUE(v);
    EXPECT_EQ(v->data(), memory);
    static_assert(!std::is_invocable_v<View<float, 1, on_cuda>, int>, "the host must not read device memory");
    EXPECT_TRUE((device.view<float, 1, on_any_device>()));
    EXPECT_EQ((refusal<View<const float, 1, on<kDLROCM>>>(device)),
              "expected float32[:] on rocm, got float32[2] on cuda:1: device differs");
    EXPECT_EQ((refusal<View<const float, 1>>(device)),
              "expected float32[:] on cpu, got float32[2] on cuda:1: the host must not touch this memory");
    const Tensor t = Tensor::empty({4}, float32);
    EXPECT_TRUE((t.view<float, 1, aligned<64>>()));
    const Tensor off = t.as_strided(static_cast<float*>(t.data()) + 1, {3}, {1}, float32);
    EXPECT_NE((refusal<View<const float, 1, aligned<64>>>(off)).find("is not aligned to 64 bytes"), std::string::npos);
}

TEST(Constraints, SetsOfDtypes) {
    const Tensor f = counting({2, 3}, 6);
    const Tensor i = Tensor::own(std::vector<std::int16_t>{1, 2, 3});
    const auto v = f.view<View<const one_of<double, float>, 2>>();
    ASSERT_TRUE(v);
    EXPECT_EQ(v->dtype(), float32);
    EXPECT_EQ(v->visit([](auto typed) { return static_cast<double>(typed(1, 2)); }), 5.0);
    EXPECT_EQ((v->as<float>().value()(1, 1)), 4);
    const auto first = f.view<View<const one_of<float, double>, 2>>().value();
    EXPECT_EQ(first.visit([](auto typed) { return static_cast<double>(typed(1, 2)); }), 5.0)
        << "as the first of the set";
    EXPECT_STREQ(v->as<double>().error().what(), "expected float64, got float32: dtype differs");
    EXPECT_TRUE((f.view<floating, 2>()));
    EXPECT_TRUE((i.view<integral, 1>()));
    EXPECT_TRUE((i.view<any_dtype, 1>()));
    EXPECT_EQ((refusal<View<const one_of<float, double>, 1>>(i)),
              "expected float32|float64[:] on cpu, got int16[3] on cpu: dtype differs");
    EXPECT_EQ((refusal<View<const floating, 1>>(i)), "expected floating[:] on cpu, got int16[3] on cpu: dtype differs");
    EXPECT_EQ((refusal<View<complex_valued, 2>>(f.as_read_only())),
              "expected writable complex[:, :] on cpu, got read-only float32[2, 3] on cpu: dtype differs");
    EXPECT_EQ((refusal<View<floating, 2>>(f.as_read_only())),
              "expected writable floating[:, :] on cpu, got read-only float32[2, 3] on cpu: the memory is read-only");
    // Elements that share bytes have no addresses.
    unsigned char packed[4] = {};
    const Tensor nibbles = Tensor::wrap(packed, {4}, {}, float4_e2m1fn, Device::cpu(), nullptr);
    EXPECT_NE((refusal<View<any_dtype, 1>>(nibbles)).find("packed"), std::string::npos);
}

TEST(Constraints, AnyRank) {
    const Tensor t = counting({2, 3}, 6);
    const auto v = t.view<float, dynamic_rank>().value();
    EXPECT_EQ(v.ndim(), 2);
    EXPECT_EQ(v.size(), 6);
    EXPECT_EQ(v(1, 2), 5);
    const auto row = v.select(1);
    EXPECT_EQ(row.ndim(), 1);
    EXPECT_EQ(row(2), 5);
    EXPECT_EQ((refusal<View<float, dynamic_rank, rank_between<1, 2>>>(t)), "(taken)");
    EXPECT_EQ((refusal<View<const float, dynamic_rank, rank_between<3>>>(t)),
              "expected float32[3 or more dimensions] on cpu, got float32[2, 3] on cpu: number of dimensions differs");
}

template <class V>
std::vector<std::vector<float>> rows_of(const V& view) {
    std::vector<std::vector<float>> rows;
    for (auto row : view.rows()) rows.emplace_back(row.begin(), row.end());
    return rows;
}

TEST(Rows, InRowMajorOrderWhateverTheOuterStrides) {
    const Tensor t = counting({2, 2, 3}, 12);
    const std::vector<std::vector<float>> all = {{0, 1, 2}, {3, 4, 5}, {6, 7, 8}, {9, 10, 11}};
    EXPECT_EQ((rows_of(t.view<const float, 3, c_contiguous>().value())), all);
    EXPECT_EQ((rows_of(t.view<const float, dynamic_rank>().value())), all);
    auto* data = static_cast<float*>(t.data());
    const Tensor other = t.as_strided(data + 3, {2, 2, 2}, {-3, 6, 1}, float32);
    EXPECT_EQ((rows_of(other.view<const float, 3, inner_contiguous>().value())),
              (std::vector<std::vector<float>>{{3, 4}, {9, 10}, {0, 1}, {6, 7}}));
    const Tensor flat = counting({3}, 3);
    EXPECT_EQ((rows_of(flat.view<const float, 1>().value())), (std::vector<std::vector<float>>{{0, 1, 2}}));
}

TEST(Rows, OfNothingAndOfOne) {
    const Tensor one = counting({}, 1), none = counting({0, 3}, 0), thin = counting({2, 0}, 0);
    EXPECT_EQ((rows_of(one.view<const float, 0>().value())), (std::vector<std::vector<float>>{{0}}));
    EXPECT_EQ((rows_of(none.view<const float, 2>().value())), (std::vector<std::vector<float>>{}));
    EXPECT_EQ((rows_of(thin.view<const float, 2>().value())), (std::vector<std::vector<float>>{{}, {}}));
    EXPECT_TRUE((View<float, 2>().empty()));
    EXPECT_TRUE((View<float, dynamic_rank>().empty()));
}

TEST(Rows, OfAnyInnerStride) {
    const Tensor t = counting({2, 4}, 8);
    auto* data = static_cast<float*>(t.data());
    const Tensor skipping = t.as_strided(data, {2, 2}, {4, 2}, float32);
    const Tensor turned = t.as_strided(data, {4, 2}, {1, 4}, float32);
    const Tensor backwards = t.as_strided(data + 7, {2, 4}, {-4, -1}, float32);
    EXPECT_EQ((rows_of(skipping.view<const float, 2>().value())), (std::vector<std::vector<float>>{{0, 2}, {4, 6}}));
    EXPECT_EQ((rows_of(turned.view<const float, dynamic_rank>().value())),
              (std::vector<std::vector<float>>{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
    EXPECT_EQ((rows_of(backwards.view<const float, 2>().value())),
              (std::vector<std::vector<float>>{{7, 6, 5, 4}, {3, 2, 1, 0}}));
    for (auto row : skipping.view<float, 2>().value().rows())
        for (float& x : row) x = -1;
    EXPECT_EQ(data[0] + data[2] + data[4] + data[6], -4);
    EXPECT_EQ(data[1], 1);
}

TEST(Rows, OfAnEmptyViewWhateverItsStrides) {
    const Tensor t = counting({2, 4}, 8);
    const Tensor none = t.as_strided(t.data(), {0, 2}, {4, 2}, float32),
                 thin = t.as_strided(t.data(), {2, 0}, {4, 2}, float32);
    int count = 0;
    for (std::span<float> row : none.view<float, 2>().value().rows()) count += 1 + static_cast<int>(row.size());
    EXPECT_EQ(count, 0);
    for (std::span<float> row : thin.view<float, 2>().value().rows()) count += 1 + static_cast<int>(row.size());
    EXPECT_EQ(count, 2);
    EXPECT_TRUE((none.view<float, 2>().value().span().empty()));
}

TEST(Rows, ASpanNeedsNeighbouringElements) {
    const Tensor t = counting({2, 4}, 8);
    const Tensor skipping = t.as_strided(t.data(), {2, 2}, {4, 2}, float32);
    try {
        for (std::span<float> row : skipping.view<float, 2>().value().rows()) FAIL() << row.size();
        FAIL();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::bad_layout);
        EXPECT_STREQ(e.what(), "span(): found strides (2,) for shape (2,); expected contiguous memory");
    }
    for (std::span<float> row : t.view<float, 2>().value().rows()) EXPECT_EQ(row.size(), 4u);
}

using Points = View<const float, 2, sizes<"n d">>;
using Others = View<const float, 2, sizes<"m d">>;

TEST(Match, NamesAgreeBetweenTheArguments) {
    const Tensor a = counting({5, 3}, 15), b = counting({7, 3}, 21), c = counting({5, 4}, 20);
    Match match("distances");
    ASSERT_TRUE(match.view<Points>("a", a));
    ASSERT_TRUE(match.view<Others>("b", b));
    EXPECT_EQ(match["d"], 3);
    EXPECT_EQ(match["m"], 7);
    EXPECT_EQ(match["x"], -1);
    auto wrong = match.view<Others>("c", c);
    ASSERT_FALSE(wrong);
    EXPECT_STREQ(
        wrong.error().what(),
        "distances(): argument 'c': expected float32[m, d] on cpu, got float32[5, 4] on cpu: m is 5 here and 7 in "
        "argument 'b'");
    EXPECT_EQ(wrong.error().code(), ErrorCode::bad_layout);
}

TEST(Match, SaysTheWholeSentence) {
    const Tensor t = counting({2, 2, 3}, 12);
    EXPECT_STREQ(
        (Match("blur").view<View<const std::uint8_t, 3, sizes<"h w 3">, c_contiguous>>("image", t).error().what()),
        "blur(): argument 'image': expected uint8[h, w, 3] C-contiguous on cpu, got float32[2, 2, 3] on cpu: dtype "
        "differs");
}

TEST(Match, ViewsMadeOneByOneCanBeComparedLater) {
    const Tensor a = counting({5, 3}, 15), b = counting({7, 4}, 28);
    Match match("distances");
    EXPECT_TRUE(match.agree("a", a.view<Points>().value()));
    const auto result = match.agree("b", b.view<Others>().value());
    ASSERT_FALSE(result);
    EXPECT_STREQ(Result<void>(result).error().what(),
                 "distances(): argument 'b': expected float32[m, d] on cpu: d is 4 here and 3 in argument 'a'");
}

TEST(Match, WhatWasRefusedBindsNothing) {
    using Square = View<const float, 2, isthmus::sizes<"n n">>;
    using Pair = View<const float, 2, isthmus::sizes<"n 2">>;
    const Tensor oblong = counting({5, 3}, 15), square = counting({4, 4}, 16), pairs = counting({4, 2}, 8);
    Match match("f");
    EXPECT_FALSE(match.view<Square>("a", oblong)) << "n would be 5";
    EXPECT_EQ(match["n"], -1);
    EXPECT_FALSE(match.view<Pair>("a", oblong)) << "the size after the name does not fit";
    EXPECT_EQ(match["n"], -1);
    EXPECT_TRUE(match.view<Square>("a", square)) << "the next overload";
    EXPECT_EQ(match["n"], 4);
    EXPECT_FALSE(match.view<Pair>("b", oblong));
    EXPECT_TRUE(match.view<Pair>("b", pairs));
    EXPECT_EQ(match["n"], 4) << "what was bound before stays";
}

TEST(Match, AViewThatDisagreesBindsNothing) {
    using Rows = View<const float, 2, isthmus::sizes<"m d">>;
    const Tensor a = counting({5, 3}, 15), b = counting({7, 4}, 28), c = counting({8, 3}, 24);
    Match match("f");
    EXPECT_TRUE(match.agree("a", a.view<Points>().value()));
    EXPECT_FALSE(match.agree("b", b.view<Rows>().value()));
    EXPECT_EQ(match["m"], -1);
    EXPECT_TRUE(match.agree("b", c.view<Rows>().value()));
    EXPECT_EQ(match["m"], 8);
}

TEST(Match, ASizeWithoutANameNeedNotAgree) {
    using Rows = View<const float, 2, isthmus::sizes<": d">>;
    const Tensor a = counting({5, 3}, 15), b = counting({7, 3}, 21);
    Match match("distances");
    EXPECT_TRUE(match.agree("a", a.view<Rows>().value()));
    EXPECT_TRUE(match.agree("b", b.view<Rows>().value()));
}

TEST(Match, OneNameTooManyIsSaid) {
    isthmus::detail::SizeNames names;
    std::vector<std::string> words;
    for (int i = 0; i <= names.most; ++i) words.push_back("n" + std::to_string(i));
    for (int i = 0; i < names.most; ++i)
        EXPECT_EQ(names.contradiction(isthmus::detail::TextRef(words[i]), i, "x", 0), nullptr);
    EXPECT_NE(names.contradiction(isthmus::detail::TextRef(words[names.most]), 1, "x", 0), nullptr)
        << "there is no room for it";
    EXPECT_EQ(names.count, names.most);

    const Tensor t = counting({5, 3}, 15);
    const auto error = isthmus::detail::explain_mismatch(
        t.block()->dl, 0, View<const float, 2, isthmus::sizes<"rows columns">>::requirement, names, "x");
    EXPECT_NE(std::string(error.what()).find("this call names more than " + std::to_string(names.most) + " sizes"),
              std::string::npos)
        << error.what();
}

TEST(Match, OneNameTooManyIsSaidOfAViewToo) {
    using First = View<const float, 64,
                       isthmus::sizes<"a0 a1 a2 a3 a4 a5 a6 a7 a8 a9 a10 a11 a12 a13 a14 a15 "
                                      "a16 a17 a18 a19 a20 a21 a22 a23 a24 a25 a26 a27 a28 a29 a30 a31 "
                                      "a32 a33 a34 a35 a36 a37 a38 a39 a40 a41 a42 a43 a44 a45 a46 a47 "
                                      "a48 a49 a50 a51 a52 a53 a54 a55 a56 a57 a58 a59 a60 a61 a62 a63">>;
    using Second = View<const float, 64,
                        isthmus::sizes<"b0 b1 b2 b3 b4 b5 b6 b7 b8 b9 b10 b11 b12 b13 b14 b15 "
                                       "b16 b17 b18 b19 b20 b21 b22 b23 b24 b25 b26 b27 b28 b29 b30 b31 "
                                       "b32 b33 b34 b35 b36 b37 b38 b39 b40 b41 b42 b43 b44 b45 b46 b47 "
                                       "b48 b49 b50 b51 b52 b53 b54 b55 b56 b57 b58 b59 b60 b61 b62 b63">>;
    using Third = View<const float, 1, isthmus::sizes<"n">>;
    const std::vector<std::int64_t> ones(64, 1);
    const Tensor full = Tensor::empty(ones, isthmus::float32), row = Tensor::empty({5}, isthmus::float32);
    Match match("f");
    ASSERT_TRUE(match.agree("x", full.view<First>().value()));
    ASSERT_TRUE(match.agree("y", full.view<Second>().value()));
    const auto refused = match.agree("z", row.view<Third>().value());
    ASSERT_FALSE(refused);
    EXPECT_STREQ(refused.error().what(),
                 "f(): argument 'z': expected float32[n] on cpu: this call names more than 128 sizes");
}

}  // namespace
