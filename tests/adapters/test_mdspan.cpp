// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <version>
// The standard's, Kokkos', or the one that NVIDIA's libraries bring, which has the same interface.
#if defined(__cpp_lib_mdspan) || __has_include(<mdspan/mdspan.hpp>) || __has_include(<experimental/mdspan>)
#define HAVE_MDSPAN 1
#elif __has_include(<cuda/std/mdspan>)
#define HAVE_MDSPAN 1
#include <cuda/std/array>
#include <cuda/std/mdspan>
#define ISTHMUS_MDSPAN_NAMESPACE ::cuda::std
#define ISTHMUS_MDSPAN_ARRAY ::cuda::std::array
#endif

#if !defined(HAVE_MDSPAN)
TEST(Mdspan, Adapter) { GTEST_SKIP() << "no implementation of mdspan was found"; }
#else
#include <memory>
#include <string>
#include <vector>

#include <isthmus/mdspan.h>

#include "support/counting.h"

using namespace isthmus;
using isthmus_test::counting;

namespace {

TEST(Mdspan, TheTypeOfTheViewDecidesTheMapping) {
    const Tensor t = counting({2, 4, 3}, 24);
    const auto any = t.view<float, 3>().value().mdspan();
    static_assert(std::is_same_v<decltype(any)::layout_type, md::layout_stride>);
    const auto rows = t.view<const float, 3, c_contiguous, extents<dyn, dyn, 3>>().value().mdspan();
    static_assert(std::is_same_v<decltype(rows)::layout_type, md::layout_right>);
    static_assert(decltype(rows)::static_extent(2) == 3);
    EXPECT_EQ(rows.data_handle(), t.data());
    EXPECT_EQ(rows.extent(1), 4);
    const Tensor turned = t.as_strided(t.data(), {3, 8}, {1, 3}, float32);
    const auto columns = turned.view<float, 2, f_contiguous>().value().mdspan();
    static_assert(std::is_same_v<decltype(columns)::layout_type, md::layout_left>);
    for (std::int64_t i = 0; i < 2; ++i)
        for (std::int64_t j = 0; j < 4; ++j)
            for (std::int64_t k = 0; k < 3; ++k) {
                const auto at = any.mapping()(i, j, k);
                EXPECT_EQ(at, rows.mapping()(i, j, k));
                EXPECT_EQ(any.data_handle()[at], static_cast<float>(12 * i + 3 * j + k));
            }
    EXPECT_EQ(columns.mapping()(2, 7), 23);
}

TEST(Mdspan, FollowsTheStridesThatAMappingMayHave) {
    const Tensor t = counting({4, 6}, 24);
    auto* data = static_cast<float*>(t.data());
    const Tensor part = t.as_strided(data + 1, {2, 2}, {12, 2}, float32);
    const auto m = part.view<const float, 2>().value().mdspan();
    EXPECT_EQ(m.data_handle()[m.mapping()(1, 1)], 15);
    const Tensor backwards = t.as_strided(data + 23, {24}, {-1}, float32);
    EXPECT_THROW((void)(backwards.view<float, 1>().value().mdspan()), Error);
    const Tensor repeated = t.as_strided(data, {3, 6}, {0, 1}, float32);
    EXPECT_THROW((void)(repeated.view<float, 2>().value().mdspan()), Error);
    const Tensor thin = t.as_strided(data, {1, 6}, {-7, 1}, float32);
    EXPECT_EQ((thin.view<float, 2>().value().mdspan().extent(1)), 6);
}

TEST(Mdspan, AnOwnerMakesItATensor) {
    auto memory = std::make_shared<std::vector<double>>(12, 1.5);
    const md::mdspan<double, md::extents<int, 3, static_cast<std::size_t>(-1)>, md::layout_left> m(memory->data(), 4);
    const Tensor t = from_mdspan(m, memory);
    EXPECT_EQ(memory.use_count(), 2);
    EXPECT_EQ(t.data(), memory->data());
    EXPECT_EQ(layout::to_string(t.shape()), "(3, 4)");
    EXPECT_EQ(layout::to_string(t.strides()), "(1, 3)");
    EXPECT_FALSE(t.read_only());
    const md::mdspan<const double, md::extents<int, 12>> constant(memory->data());
    EXPECT_TRUE(from_mdspan(constant, memory).read_only());
}

}  // namespace
#endif
