// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/owned_block.h>

#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

#include "support/allocations.h"
#include "support/owners.h"

using isthmus::Device;
using isthmus::Error;
using isthmus::Tensor;
using isthmus_test::eight_floats;
using isthmus_test::wrap_eight_floats;

namespace {

/// An owner that may have other references, and what was made of it.
struct SharedOwner {
    bool others = false;
    int released = 0, counted_down = 0;

    static void release(void* self) { ++static_cast<SharedOwner*>(self)->released; }
    static bool release_shared(void* self) noexcept {
        auto* owner = static_cast<SharedOwner*>(self);
        if (owner->others) ++owner->counted_down;
        return owner->others;
    }
    void end_block_with(const isthmus::detail::OwnerOps& ops) {
        isthmus::detail::Block* block = isthmus::detail::allocate_block(0);
        ASSERT_NE(block, nullptr);
        block->owner = this;
        block->ops = &ops;
        isthmus::detail::drop(block);
    }
};
constexpr isthmus::detail::OwnerOps shared_owner_ops{.release = SharedOwner::release,
                                                     .release_shared = SharedOwner::release_shared};

TEST(OwnedBlock, AnOwnerThatOthersShareIsOnlyCountedDown) {
    SharedOwner owner{.others = true};
    owner.end_block_with(shared_owner_ops);
    EXPECT_EQ(owner.counted_down, 1);
    EXPECT_EQ(owner.released, 0);
}

TEST(OwnedBlock, AnOwnerThatNobodySharesIsReleased) {
    SharedOwner owner{.others = false};
    owner.end_block_with(shared_owner_ops);
    EXPECT_EQ(owner.counted_down, 0);
    EXPECT_EQ(owner.released, 1);
}

TEST(OwnedBlock, AFieldBeyondTheSizeOfTheOperationsIsNotRead) {
    SharedOwner owner{.others = true};
    isthmus::detail::OwnerOps older = shared_owner_ops;
    older.size = offsetof(isthmus::detail::OwnerOps, release_shared);
    owner.end_block_with(older);
    EXPECT_EQ(owner.counted_down, 0);
    EXPECT_EQ(owner.released, 1);
}

/// As a layer above brings one: a reference of its own kind, and the table for it.
struct WithOps {
    SharedOwner* held;

    explicit WithOps(SharedOwner& owner) : held(&owner) {}
    WithOps(WithOps&& other) noexcept : held(other.release()) {}
    ~WithOps() {
        if (held != nullptr) SharedOwner::release(held);
    }
    SharedOwner* release() noexcept { return std::exchange(held, nullptr); }
    static const isthmus::detail::OwnerOps& owner_ops() noexcept { return shared_owner_ops; }
};

TEST(OwnedBlock, AnOwnerMayBringATableOfItsOwn) {
    SharedOwner owner;
    {
        const Tensor t = wrap_eight_floats(WithOps(owner));
        EXPECT_EQ(t.block()->ops, &shared_owner_ops);
        EXPECT_EQ(t.block()->owner, &owner);
        EXPECT_EQ((t.view<float, 1>().value()(3)), 3);
        EXPECT_EQ(owner.released, 0);
    }
    EXPECT_EQ(owner.released, 1);
    EXPECT_THROW(Tensor::wrap(eight_floats, {-8}, {}, isthmus::float32, Device::cpu(), WithOps(owner)), Error);
    EXPECT_EQ(owner.released, 2) << "a refused description gives it back";
    {
        const Tensor t = Tensor::own(WithOps(owner), std::span<float>(eight_floats, 4), {2, 2});
        EXPECT_EQ(owner.released, 2);
    }
    EXPECT_EQ(owner.released, 3);
    if (!isthmus_test::fail_next_allocation()) return;
    EXPECT_THROW(wrap_eight_floats(WithOps(owner)), Error);
    EXPECT_EQ(owner.released, 4) << "so does a lack of memory";
}

bool is_unowned(const Tensor& t) { return (t.flags() & isthmus::detail::unowned_flag) != 0; }
bool owns_memory(const Tensor& t) { return isthmus::detail::owns_memory(t.block()); }

TEST(OwnedBlock, MemoryThatNothingKeepsIsMarked) {
    void (*none)() = nullptr;
    EXPECT_TRUE(is_unowned(wrap_eight_floats(nullptr)));
    EXPECT_TRUE(is_unowned(wrap_eight_floats(none)));
    EXPECT_TRUE(is_unowned(wrap_eight_floats(nullptr).as_read_only()));
    EXPECT_FALSE(is_unowned(wrap_eight_floats(std::make_shared<int>(0))));
    EXPECT_FALSE(is_unowned(wrap_eight_floats(+[] {})));
    EXPECT_FALSE(is_unowned(wrap_eight_floats([] {}))) << "it may give back what it reaches in another way";
    EXPECT_FALSE(is_unowned(Tensor::own(std::vector<float>(3))));
}

TEST(OwnedBlock, AnOwnerThatHasTheElementsIsKnown) {
    EXPECT_TRUE(owns_memory(Tensor::own(std::vector<float>(3))));
    EXPECT_TRUE(owns_memory(Tensor::own(std::vector<float>(3)).as_read_only()));
    EXPECT_TRUE(owns_memory(Tensor::empty({2}, isthmus::float32)));
    EXPECT_TRUE(owns_memory(Tensor::from_dlpack(Tensor::empty({2}, isthmus::float32).to_dlpack()).value()));
    EXPECT_FALSE(owns_memory(wrap_eight_floats(nullptr)));
    EXPECT_FALSE(owns_memory(wrap_eight_floats(nullptr).as_read_only()));
    EXPECT_FALSE(owns_memory(wrap_eight_floats(std::make_shared<int>(0))));
}

TEST(OwnedBlock, ATableThatDoesNotKnowTheFieldSaysNothingOfIt) {
    const Tensor own = Tensor::own(std::vector<float>(3));
    isthmus::detail::OwnerOps older = *own.block()->ops;
    older.size = offsetof(isthmus::detail::OwnerOps, owns_memory);
    const auto* now = std::exchange(own.block()->ops, &older);
    EXPECT_FALSE(owns_memory(own));
    own.block()->ops = now;
}

TEST(OwnedBlock, PrivatePagesAreMadeByAnOwnerThatCan) {
    using isthmus::detail::Block;
    const Tensor own = Tensor::own(std::vector<float>(3));
    EXPECT_EQ(isthmus::detail::private_pages(own.block()), nullptr);
    isthmus::detail::OwnerOps ops = *own.block()->ops;
    ops.private_pages = [](void*, const Block* block) noexcept { return const_cast<Block*>(block); };
    const auto* now = std::exchange(own.block()->ops, &ops);
    EXPECT_EQ(isthmus::detail::private_pages(own.block()), own.block());
    ops.size = offsetof(isthmus::detail::OwnerOps, private_pages);
    EXPECT_EQ(isthmus::detail::private_pages(own.block()), nullptr) << "of a table that does not know the field";
    own.block()->ops = now;
}

// What was exported may hold more than the block: it must stay until the import of it is gone.
TEST(OwnedBlock, AnImportOfMemoryWithoutAnOwnerHoldsWhatWasExported) {
    const Tensor unowned = wrap_eight_floats(nullptr);
    {
        const Tensor back = Tensor::from_dlpack(unowned.to_dlpack()).value();
        EXPECT_EQ(back.data(), unowned.data());
        EXPECT_EQ(unowned.use_count(), 2u) << "the export";
        const Tensor again = Tensor::from_dlpack(back.to_dlpack()).value();
        EXPECT_EQ(back.use_count(), 2u) << "an alias of the import: no chain";
    }
    EXPECT_EQ(unowned.use_count(), 1u);
}

}  // namespace
