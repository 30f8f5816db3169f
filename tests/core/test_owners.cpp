// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/tensor.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <ucontext.h>
#endif

#include <gtest/gtest.h>

#include <isthmus/isthmus.h>

#include "support/allocations.h"
#include "support/owners.h"

using isthmus::Device;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::Tensor;
using isthmus_test::CountedOwner;
using isthmus_test::Counts;
using isthmus_test::eight_floats;
using isthmus_test::FailsAfterMove;
using isthmus_test::wrap_eight_floats;

namespace {

using Dims = std::vector<std::int64_t>;

TEST(Owners, ACallableIsCalledAndDestroyedOnce) {
    Counts counts;
    {
        const Tensor t = wrap_eight_floats(CountedOwner(counts));
        const Tensor copy = t;
        EXPECT_EQ(copy.use_count(), 2u);
    }
    EXPECT_EQ(counts.called, 1);
    EXPECT_EQ(counts.destroyed, 1);
}

int function_calls = 0;
TEST(Owners, Functions) {
    {
        const Tensor t = wrap_eight_floats(+[] { ++function_calls; });
    }
    EXPECT_EQ(function_calls, 1);
    {
        const Tensor t = wrap_eight_floats(std::function<void()>([] { ++function_calls; }));
    }
    EXPECT_EQ(function_calls, 2);
    void (*none)() = nullptr;
    {
        const Tensor t = wrap_eight_floats(none);
    }
    {
        const Tensor t = wrap_eight_floats(std::function<void()>());
    }
    SUCCEED() << "neither a NULL function nor an empty one takes the process down";
}

TEST(Owners, OneThatThrowsIsStillDestroyed) {
    Counts counts;
    {
        const Tensor t = wrap_eight_floats([owner = std::make_shared<CountedOwner>(counts)] {
            if (owner) throw std::runtime_error("no");
        });
    }
    EXPECT_EQ(counts.destroyed, 1);
}

TEST(Owners, ASharedPointerIsHeld) {
    auto owner = std::make_shared<int>(0);
    {
        const Tensor t = wrap_eight_floats(owner);
        EXPECT_EQ(owner.use_count(), 2);
    }
    EXPECT_EQ(owner.use_count(), 1);
}

struct Image {
    int height, width;
    std::vector<std::uint8_t> pixels;
};
struct Inline {
    std::array<float, 4> values;
    Counts* counts = nullptr;
    Inline(std::array<float, 4> values, Counts& counts) : values(values), counts(&counts) {}
    Inline(Inline&& other) noexcept : values(other.values), counts(std::exchange(other.counts, nullptr)) {
        other.values = {};
    }
    ~Inline() {
        if (counts) counts->destroyed++;
    }
    // Callable for a reason of its own, as matrix classes are.
    template <class... I>
    float operator()(I...) {
        if (counts) counts->called++;
        return values[0];
    }
};
struct Refused {
    std::shared_ptr<CountedOwner> owner;
    int how;
};

}  // namespace
template <>
struct isthmus::tensor_traits<Image> {
    static TensorSpec describe(Image& x) { return {x.pixels.data(), isthmus::uint8, {x.height, x.width, 3}}; }
};
template <>
struct isthmus::tensor_traits<Inline> {
    static TensorSpec describe(Inline& x) { return {x.values.data(), isthmus::float32, {2, 2}}; }
};
template <>
struct isthmus::tensor_traits<Refused> {
    static TensorSpec describe(Refused& x) {
        if (x.how == 0) throw std::logic_error("describe");
        if (x.how == 1) return {eight_floats, isthmus::float32, {-1}};
        return {static_cast<void*>(nullptr), isthmus::float32, {1}};
    }
};
namespace {

TEST(Owners, AVectorKeepsItsMemory) {
    std::vector<float> elements{1, 2, 3, 4, 5, 6};
    const float* data = elements.data();
    const Tensor t = Tensor::own(std::move(elements), {2, 3});
    EXPECT_EQ(t.data(), data);
    EXPECT_FALSE(t.read_only());
    EXPECT_EQ((t.view<float, 2>().value()(1, 2)), 6);
    EXPECT_EQ(Tensor::own(std::vector<double>(5)).numel(), 5);
    EXPECT_EQ(Tensor::own(std::vector<double>()).numel(), 0);
}

TEST(Owners, AShapeThatIsNotTheContainersIsRefused) {
    for (const Dims& shape : {Dims{5}, Dims{7}, Dims{2, 4}, Dims{}, Dims{-2, -3}, Dims{INT64_MAX, 3}}) try {
            (void)Tensor::own(std::vector<float>(6), shape);
            FAIL() << isthmus::layout::to_string(shape);
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::bad_layout);
            EXPECT_NE(std::string(e.what()).find("6 elements"), std::string::npos) << e.what();
        }
}

TEST(Owners, PointersToArrays) {
    auto unique = std::make_unique<int[]>(6);
    unique[4] = 44;
    const int* data = unique.get();
    const Tensor t = Tensor::own(std::move(unique), {2, 3});
    EXPECT_EQ(t.data(), data);
    EXPECT_EQ(t.dtype(), isthmus::int32);
    EXPECT_EQ((t.view<int, 2>().value()(1, 1)), 44);
    EXPECT_TRUE(Tensor::own(std::unique_ptr<const int[]>(new int[1]{}), {1}).read_only());
    EXPECT_THROW(Tensor::own(std::unique_ptr<int[]>(), {1}), Error);
    const std::shared_ptr<double[]> shared(new double[2]{});
    const Tensor s = Tensor::own(std::shared_ptr<double[]>(shared), {2});
    EXPECT_EQ(shared.use_count(), 2);
}

template <class T>
struct CountingAllocator : std::allocator<T> {
    template <class U>
    struct rebind {
        using other = CountingAllocator<U>;
    };
};
struct LoggingVector : std::vector<float> {
    using std::vector<float>::vector;
    LoggingVector(LoggingVector&&) noexcept = default;
    ~LoggingVector() { ++function_calls; }
};

// Such an owner is given back in place, without what code of others needs around it: a wrong yes would be a leak of
// that.
TEST(Owners, WhatOnlyFreesMemoryIsKnownByItsType) {
    using isthmus::detail::only_frees;
    static_assert(only_frees<std::vector<float>>() && only_frees<std::string>() && only_frees<std::array<int, 3>>());
    static_assert(only_frees<std::unique_ptr<float[]>>() && only_frees<std::nullptr_t>());
    static_assert(!only_frees<LoggingVector>() && !only_frees<std::vector<float, CountingAllocator<float>>>());
    static_assert(!only_frees<std::unique_ptr<float[], std::function<void(float*)>>>());
    static_assert(!only_frees<std::shared_ptr<float[]>>() && !only_frees<std::shared_ptr<int>>() &&
                  !only_frees<Tensor>());
    const auto given_back_in_place = [](const Tensor& t) { return t.block()->ops->release_shared != nullptr; };
    EXPECT_TRUE(given_back_in_place(Tensor::own(std::vector<float>(20), {4, 5})));
    EXPECT_TRUE(given_back_in_place(Tensor::own(std::array<float, 4>{}, {2, 2})));
    EXPECT_FALSE(given_back_in_place(wrap_eight_floats([] { ++function_calls; })))
        << "it is called, and has nothing to destroy";
    const int before = function_calls;
    EXPECT_FALSE(given_back_in_place(Tensor::own(LoggingVector(6))));
    EXPECT_GT(function_calls, before);
}

TEST(Owners, WhatOnlyFreesMemoryMayHaveManyDimensions) {
    for (std::size_t ndim : {1u, 8u, 9u, 64u}) {
        Dims shape(ndim, 1);
        shape.back() = 6;
        const Tensor t = Tensor::own(std::vector<float>{1, 2, 3, 4, 5, 6}, shape);
        EXPECT_EQ(t.ndim(), static_cast<int>(ndim));
        EXPECT_EQ(t.shape().back(), 6);
        EXPECT_EQ(t.strides().back(), 1);
        EXPECT_EQ(static_cast<float*>(t.data())[5], 6);
    }
}

TEST(Owners, ElementsThatCannotBeAreRefused) {
    struct Case {
        Dims shape;
        bool none;
        ErrorCode code;
        const char* words;
    };
    for (const auto& [shape, none, code, words] : {
             Case{{-1}, false, ErrorCode::bad_layout, "negative size"},
             Case{{INT64_MAX, 2}, false, ErrorCode::overflow, "64-bit size"},
             Case{{INT64_MAX / 2}, false, ErrorCode::overflow, "64-bit size"},
             Case{{3}, true, ErrorCode::null_data, "data is NULL"},
             Case{Dims(65, 1), false, ErrorCode::bad_layout, "65 dimensions"},
         })
        try {
            (void)Tensor::own(std::unique_ptr<double[]>(none ? nullptr : new double[3]), shape);
            FAIL() << words;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), code) << e.what();
            EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
        }
    EXPECT_EQ(Tensor::own(std::unique_ptr<double[]>(), {0, 5}).strides()[0], 5);

    struct Leave {
        void operator()(double*) const noexcept {}
    };
    const auto own_at = [](std::uintptr_t address) {
        return Tensor::own(std::unique_ptr<double[], Leave>(reinterpret_cast<double*>(address)), {4});
    };
    const auto at = reinterpret_cast<std::uintptr_t>(&eight_floats[0]) & ~std::uintptr_t{7};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(own_at(at).data()), at);
    for (const auto& [address, code] :
         {std::pair(at + 1, ErrorCode::needs_copy), std::pair(UINTPTR_MAX - 4103, ErrorCode::overflow)})
        try {
            (void)own_at(address);
            FAIL() << address;
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), code) << e.what();
        }
}

// The elements lie in the object: they are where it ends up, not where it came from.
TEST(Owners, StorageInsideTheObject) {
    const Tensor a = Tensor::own(std::array<float, 4>{1, 2, 3, 4}, {2, 2});
    EXPECT_EQ((a.view<float, 2>().value()(1, 1)), 4);
    Counts counts;
    {
        const Tensor t = Tensor::own(Inline({5, 6, 7, 8}, counts));
        EXPECT_EQ((t.view<float, 2>().value()(0, 1)), 6);
    }
    EXPECT_EQ(counts.destroyed, 1);
    EXPECT_EQ(counts.called, 0) << "an object given to own() is not a deleter, even if it can be called";
}

TEST(Owners, TraitsDescribeAnyType) {
    Image image{4, 5, std::vector<std::uint8_t>(60, 9)};
    const void* data = image.pixels.data();
    const Tensor t = Tensor::own(std::move(image));
    EXPECT_EQ(t.data(), data);
    EXPECT_EQ(t.ndim(), 3);
    EXPECT_EQ(t.dtype(), isthmus::uint8);
}

TEST(Owners, AKeeperWithASpan) {
    auto keeper = std::make_shared<std::vector<float>>(6, 2.f);
    {
        const Tensor t = Tensor::own(keeper, std::span<float>(*keeper), {3, 2});
        EXPECT_EQ(t.data(), keeper->data());
        EXPECT_EQ(keeper.use_count(), 2);
        const Tensor part = Tensor::own(keeper, std::span<const float>(*keeper).subspan(2, 2), {2});
        EXPECT_TRUE(part.read_only());
        EXPECT_EQ(part.data(), keeper->data() + 2);
    }
    EXPECT_EQ(keeper.use_count(), 1);
    EXPECT_THROW(Tensor::own(keeper, std::span<float>(*keeper), {7}), Error);
    EXPECT_EQ(keeper.use_count(), 1) << "a refused keeper is let go";
}

struct alignas(256) OverAligned {
    float values[4];
    Counts* counts;
    explicit OverAligned(Counts& counts) : values{1, 2, 3, 4}, counts(&counts) {}
    OverAligned(OverAligned&& other) noexcept : counts(std::exchange(other.counts, nullptr)) {
        std::copy(other.values, other.values + 4, values);
    }
    ~OverAligned() {
        if (counts == nullptr) return;
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % 256, 0u);
        counts->destroyed++;
    }
};

TEST(Owners, OverAligned) {
    Counts counts;
    {
        const Tensor t = wrap_eight_floats(OverAligned(counts));
    }
    EXPECT_EQ(counts.destroyed, 1);
}

TEST(Owners, MoreThanEightDimensions) {
    Counts counts;
    for (std::size_t ndim : {7u, 8u, 9u, 64u}) {
        const Tensor t = Tensor::wrap(eight_floats, Dims(ndim, 1), Dims(ndim, 3), isthmus::float32, Device::cpu(),
                                      CountedOwner(counts));
        EXPECT_EQ(t.ndim(), static_cast<int>(ndim));
        EXPECT_EQ(t.strides().back(), 3);
    }
    EXPECT_EQ(counts.destroyed, 4);
    EXPECT_EQ(counts.called, 4);
}

TEST(Owners, ARefusedDescriptionReleasesTheOwnerOnce) {
    Counts counts;
    EXPECT_THROW(Tensor::wrap(eight_floats, {-8}, {}, isthmus::float32, Device::cpu(), CountedOwner(counts)), Error);
    EXPECT_EQ(counts.called, 1);
    EXPECT_EQ(counts.destroyed, 1);
    EXPECT_THROW(Tensor::wrap(eight_floats, Dims(65, 1), {}, isthmus::float32, Device::cpu(), CountedOwner(counts)),
                 Error);
    EXPECT_THROW(Tensor::wrap(eight_floats, {8}, {1, 1}, isthmus::float32, Device::cpu(), CountedOwner(counts)), Error);
    EXPECT_EQ(counts.called, 3);
    EXPECT_EQ(counts.destroyed, 3);
    for (int how : {0, 1, 2})
        EXPECT_ANY_THROW(Tensor::own(Refused{std::make_shared<CountedOwner>(counts), how})) << how;
    EXPECT_EQ(counts.called, 3);
    EXPECT_EQ(counts.destroyed, 6);
}

TEST(Owners, WithoutMemoryTheOwnerIsReleasedOnce) {
    Counts counts;
    CountedOwner owner(counts);
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "this allocator cannot be made to fail";
    try {
        (void)wrap_eight_floats(std::move(owner));
        FAIL();
    } catch (const Error& e) {
        EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
    }
    EXPECT_EQ(counts.called, 1);
    EXPECT_EQ(counts.destroyed, 1);
}

TEST(Owners, WithoutMemoryForManyDimensionsTheOwnerIsReleasedOnce) {
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "this allocator cannot be made to fail";
    EXPECT_EQ(std::malloc(1), nullptr);
    int failures = 0;
    for (int at = 1; at <= 4; ++at) {
        Counts counts;
        try {
            (void)Tensor::wrap(eight_floats, Dims(20, 1), {}, isthmus::float32, Device::cpu(),
                               FailsAfterMove(counts, at));
        } catch (const Error& e) {
            EXPECT_EQ(e.code(), ErrorCode::out_of_memory);
            failures += 1;
        }
        EXPECT_EQ(counts.called, 1) << at;
        EXPECT_EQ(counts.destroyed, 1) << at;
    }
    EXPECT_GE(failures, 2) << "the block, and the dimensions that do not fit into it";
}

TEST(Owners, WhatAReadOnlyTensorKeepsIsReadOnly) {
    const Tensor whole = wrap_eight_floats(nullptr);
    const auto part = [](Tensor owner) {
        return Tensor::wrap(eight_floats + 2, {2}, {}, isthmus::float32, Device::cpu(), std::move(owner));
    };
    EXPECT_FALSE(part(whole).read_only());
    EXPECT_TRUE(part(whole.as_read_only()).read_only());
    const Tensor read_only = part(whole.as_read_only());
    EXPECT_FALSE((read_only.view<float, 1>()));
    EXPECT_TRUE((Tensor::own(whole.as_read_only(), std::span<float>(eight_floats, 2), {2}).read_only()));
    EXPECT_FALSE(part(Tensor()).read_only());
}

int empty_calls = 0;
TEST(Owners, ALambdaThatCapturesNothingIsCalled) {
    {
        const Tensor t = wrap_eight_floats([] { ++empty_calls; });
    }
    EXPECT_EQ(empty_calls, 1);
}

TEST(Owners, ATensorOwnsATensor) {
    Counts counts;
    Tensor inner = wrap_eight_floats(CountedOwner(counts));
    Tensor outer = Tensor::wrap(eight_floats + 2, {2}, {}, isthmus::float32, Device::cpu(), inner);
    inner = Tensor();
    EXPECT_EQ(counts.destroyed, 0);
    outer = Tensor();
    EXPECT_EQ(counts.destroyed, 1);
    EXPECT_EQ(counts.called, 1);
}

TEST(Owners, SelfAssignmentKeepsTheOwner) {
    Counts counts;
    Tensor t = wrap_eight_floats(CountedOwner(counts));
    auto& same = t;
    t = same;
    EXPECT_EQ(counts.destroyed, 0);
    t = wrap_eight_floats(nullptr);
    EXPECT_EQ(counts.destroyed, 1);
}

// Every handle, view and export of one tensor dropped by whichever thread comes last.
TEST(Owners, ReleasedExactlyOnceFromManyThreads) {
    for (int round = 0; round < 200; ++round) {
        Counts counts;
        {
            std::vector<std::thread> threads;
            Tensor t = wrap_eight_floats(CountedOwner(counts));
            for (int i = 0; i < 4; ++i)
                threads.emplace_back([mine = t, i] {
                    for (int j = 0; j < 20; ++j) {
                        const Tensor copy = mine;
                        auto* managed = i % 2 == 0 ? copy.to_dlpack() : copy.as_read_only().to_dlpack();
                        managed->deleter(managed);
                    }
                });
            t = Tensor();
            for (auto& thread : threads) thread.join();
        }
        ASSERT_EQ(counts.called, 1);
        ASSERT_EQ(counts.destroyed, 1);
    }
}

TEST(Owners, TheLastDropSeesWhatTheOthersWrote) {
    for (int round = 0; round < 200; ++round) {
        auto elements = std::make_shared<std::vector<float>>(4, 0.f);
        float sum = 0;
        Tensor t = Tensor::wrap(elements->data(), {4}, {}, isthmus::float32, Device::cpu(), [elements, &sum] {
            for (float x : *elements) sum += x;
        });
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i)
            threads.emplace_back([mine = t, i]() mutable {
                static_cast<float*>(mine.data())[i] = 1;
                mine = Tensor();
            });
        t = Tensor();
        for (auto& thread : threads) thread.join();
        ASSERT_EQ(sum, 4);
    }
}

#if defined(__linux__)

/// A fiber that ends a tensor and is left in the middle of its deleter.
struct Suspended {
    ucontext_t fiber{}, back{};
    std::unique_ptr<char[]> stack = std::make_unique<char[]>(std::size_t{1} << 16);
    bool released = false;

    static inline Suspended* beginning = nullptr;
    static void run() {
        Suspended* self = beginning;
        Tensor t = wrap_eight_floats([self] {
            swapcontext(&self->fiber, &self->back);
            self->released = true;
        });
        t = {};
    }
    void begin() {
        beginning = this;
        getcontext(&fiber);
        fiber.uc_stack.ss_sp = stack.get();
        fiber.uc_stack.ss_size = std::size_t{1} << 16;
        fiber.uc_link = &back;
        makecontext(&fiber, run, 0);
        swapcontext(&back, &fiber);
    }
    void resume() { swapcontext(&back, &fiber); }
};

TEST(Owners, ReleasesThatAreLeftSuspendedDelayNoOther) {
    std::array<Suspended, 16> fibers;  // as many as lie in each other
    for (Suspended& fiber : fibers) fiber.begin();
    const auto releases_at_once = [] {
        const auto released = std::make_shared<bool>(false);
        Tensor t = wrap_eight_floats([released] { *released = true; });
        for (int i = 0; i < 1000; ++i) t = wrap_eight_floats([inner = std::move(t)] {});
        t = {};
        return *released;
    };
    EXPECT_TRUE(releases_at_once());
    for (std::size_t i = 0; i < fibers.size(); ++i) {  // in another order than that in which they began
        Suspended& fiber = fibers[(i * 7) % fibers.size()];
        EXPECT_FALSE(fiber.released);
        fiber.resume();
        EXPECT_TRUE(fiber.released);
        EXPECT_TRUE(releases_at_once());
    }
}

#endif

}  // namespace
