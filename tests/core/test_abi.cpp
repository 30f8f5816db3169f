// The layout of what extensions with one ISTHMUS_ABI share: a change of it raises the number (docs/abi.md).
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

#include <gtest/gtest.h>

#include <isthmus/core/block.h>

#include "src/core/observer.h"
#include "support/rows.h"

namespace {

using isthmus::detail::ObserverHub;
using isthmus::detail::ObserverLink;
using isthmus::detail::OwnerOps;

static_assert(ISTHMUS_ABI == 2, "these figures are those of ABI 2");

TEST(Abi, OwnerOpsKnowTheirSize) { EXPECT_EQ(isthmus::detail::no_owner_ops.size, sizeof(OwnerOps)); }

/// The C++ libraries agree on these, so that they cross as they are.
TEST(Abi, ASpanIsAnAddressAndANumber) {
    static constexpr std::int64_t values[] = {1, 2, 3};
    const auto words_of = [](const auto& of) {
        static_assert(sizeof(of) == 2 * sizeof(std::size_t));
        std::array<std::uintptr_t, 2> words{};
        std::memcpy(words.data(), &of, sizeof words);
        return words;
    };
    const std::span<const std::int64_t> span(values);
    EXPECT_EQ(words_of(span), (std::array<std::uintptr_t, 2>{reinterpret_cast<std::uintptr_t>(values), 3}));
    const std::initializer_list<int> list{1, 2};
    EXPECT_EQ(words_of(list), (std::array<std::uintptr_t, 2>{reinterpret_cast<std::uintptr_t>(list.begin()), 2}));
}

TEST(Abi, Observers) {
    EXPECT_EQ(sizeof(ObserverHub), 16u);
    EXPECT_EQ(sizeof(ObserverLink), sizeof(void*) * 3);
}

TEST(Abi, FlagsAboveTheLow32AreOurs) {
    using namespace isthmus::detail;
    for (const isthmus::Flags flag : {observed_flag, unowned_flag, alias_flag, stream_flag, tracked_flag,
                                      unannounced_flag, wrapper_alias_flag, producer_flag}) {
        EXPECT_EQ(flag & isthmus::flag::dlpack_known, 0u);
        EXPECT_EQ(flag & 0xFFFFFFFFu, 0u);
    }
    EXPECT_EQ(observed_flag | unowned_flag | alias_flag | stream_flag | tracked_flag | unannounced_flag |
                  wrapper_alias_flag | producer_flag,
              isthmus::Flags{255} << 32);
}

}  // namespace
