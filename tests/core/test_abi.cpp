// The layout of what extensions with one ISTHMUS_ABI share: a change of it raises the number (docs/abi.md).
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>

#include <gtest/gtest.h>

#include <isthmus/core/block.h>
#include <isthmus/core/error.h>

#include "src/core/observer.h"

namespace {

using isthmus::detail::Block;
using isthmus::detail::LiveRecord;
using isthmus::detail::Observer;
using isthmus::detail::ObserverHub;
using isthmus::detail::ObserverLink;
using isthmus::detail::OwnerOps;

static_assert(ISTHMUS_ABI == 2, "these figures are those of ABI 2");
static_assert(sizeof(void*) == 8, "frozen for 64-bit systems");

TEST(Abi, Block) {
    EXPECT_EQ(sizeof(Block), 96u);
    EXPECT_EQ(offsetof(Block, dl), 0u);
    EXPECT_EQ(offsetof(Block, refs), 48u);
    EXPECT_EQ(offsetof(Block, wrapper_aliases), 52u);
    EXPECT_EQ(offsetof(Block, flags), 56u);
    EXPECT_EQ(offsetof(Block, ops), 64u);
    EXPECT_EQ(offsetof(Block, owner), 72u);
    EXPECT_EQ(offsetof(Block, wrapper), 80u);
    EXPECT_EQ(offsetof(Block, stream), 88u);
}

TEST(Abi, OwnerOps) {
    EXPECT_GE(sizeof(OwnerOps), 48u);  // it may grow at its end
    EXPECT_EQ(offsetof(OwnerOps, size), 0u);
    EXPECT_EQ(offsetof(OwnerOps, framework), 4u);
    EXPECT_EQ(offsetof(OwnerOps, release), 8u);
    EXPECT_EQ(offsetof(OwnerOps, source), 16u);
    EXPECT_EQ(offsetof(OwnerOps, array), 24u);
    EXPECT_EQ(offsetof(OwnerOps, native), 32u);
    EXPECT_EQ(offsetof(OwnerOps, producer), 40u);
    EXPECT_EQ(offsetof(OwnerOps, release_shared), 48u);
    EXPECT_EQ(offsetof(OwnerOps, owns_memory), 56u);
    EXPECT_EQ(isthmus::detail::no_owner_ops.size, sizeof(OwnerOps));
}

TEST(Abi, Observers) {
    EXPECT_EQ(sizeof(Observer), 48u);
    EXPECT_EQ(sizeof(ObserverHub), 16u);
    EXPECT_EQ(sizeof(ObserverLink), sizeof(void*) * 3);
    EXPECT_EQ(sizeof(LiveRecord), 64u);
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

TEST(Abi, NumbersOfErrors) {
    EXPECT_EQ(static_cast<int>(isthmus::ErrorCode::not_a_tensor), 1);
    EXPECT_EQ(static_cast<int>(isthmus::ErrorCode::out_of_memory), 19);
}

}  // namespace
