// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#if defined(__GLIBC__)
#include <dlfcn.h>
#include <unistd.h>
#endif

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include <isthmus/core/live.h>
#include <isthmus/isthmus.h>

#include "src/core/observer.h"
#include "src/core/symbols.h"

#include "support/allocations.h"
#include "support/owners.h"

namespace {

using isthmus::Tensor;
using isthmus_test::Counts;
using isthmus_test::FailsAfterMove;

class Live : public ::testing::Test {
protected:
    void SetUp() override { ASSERT_FALSE(isthmus::live_tracking()); }
    void TearDown() override { isthmus::live_tracking(false); }
};

TEST_F(Live, OffItIsEmpty) {
    const Tensor t = Tensor::empty({2}, isthmus::float32);
    EXPECT_TRUE(isthmus::live().empty());
}

TEST_F(Live, WithoutMemoryForItsEntryATensorIsMadeAllTheSame) {
    if (!isthmus_test::fail_next_allocation()) GTEST_SKIP() << "this allocator cannot be made to fail";
    EXPECT_EQ(std::malloc(1), nullptr);
    static float memory[4];
    Counts counts;
    isthmus::live_tracking(true);
    int unlisted = 0;
    for (int at = 1; at <= 4; ++at) {
        try {
            const Tensor t =
                Tensor::wrap(memory, {4}, {}, isthmus::float32, isthmus::Device::cpu(), FailsAfterMove(counts, at));
            EXPECT_EQ(t.data(), memory);
            unlisted += isthmus::live().empty();
        } catch (const isthmus::Error& e) {
            EXPECT_EQ(e.code(), isthmus::ErrorCode::out_of_memory);
        }
        EXPECT_TRUE(isthmus::live().empty());
    }
    EXPECT_EQ(unlisted, 1);
}

TEST_F(Live, ATensorThatIsMadeWhileItIsSwitchedOffIsNotListed) {
    isthmus::live_tracking(true);
    // Called between the entry's making and its insertion, where another thread may switch off just as well.
    isthmus::detail::words_of_block.store([](const isthmus::detail::Block*, bool) noexcept {
        isthmus::live_tracking(false);
        return isthmus::detail::BlockWords{};
    });
    const Tensor t = Tensor::empty({2}, isthmus::float32);
    isthmus::detail::words_of_block.store(nullptr);
    isthmus::live_tracking(true);
    EXPECT_TRUE(isthmus::live().empty());
}

TEST_F(Live, ListsATensorUntilItsLastHandleIsGone) {
    isthmus::live_tracking(true);
    EXPECT_TRUE(isthmus::live_tracking());
    {
        const Tensor t = Tensor::empty({2, 3}, isthmus::float32);
        const Tensor shared = t;
        const auto live = isthmus::live();
        ASSERT_EQ(live.size(), 1U);
        EXPECT_EQ(live[0].data, t.data());
        EXPECT_EQ(live[0].nbytes, 24);
        EXPECT_EQ(live[0].shape, (std::vector<std::int64_t>{2, 3}));
        EXPECT_EQ(live[0].dtype, isthmus::float32);
        EXPECT_EQ(live[0].device, isthmus::Device::cpu());
        EXPECT_EQ(live[0].handles, 2U);
        EXPECT_EQ(live[0].producer, "C++");
        EXPECT_EQ(live[0].consumer, "C++");
        EXPECT_FALSE(live[0].read_only);
        EXPECT_FALSE(live[0].borrowed);
        EXPECT_GE(live[0].age, 0);
        EXPECT_TRUE(live[0].cpp_place.empty());
    }
    EXPECT_TRUE(isthmus::live().empty());
}

TEST_F(Live, AnExportIsAHandle) {
    isthmus::live_tracking(true);
    Tensor t = Tensor::own(std::vector<float>(4));
    DLManagedTensorVersioned* managed = t.to_dlpack();
    t = Tensor();
    ASSERT_EQ(isthmus::live().size(), 1U);
    managed->deleter(managed);
    EXPECT_TRUE(isthmus::live().empty());
}

TEST_F(Live, ABlobWithoutOwnerIsMarked) {
    isthmus::live_tracking(true);
    float elements[4] = {};
    isthmus::Blob blob;
    blob.ptr = elements;
    blob.shape = {4};
    blob.dtype = isthmus::float32;
    const Tensor borrowed = isthmus::from_blob(blob).value();
    ASSERT_EQ(isthmus::live().size(), 1U);
    EXPECT_TRUE(isthmus::live()[0].borrowed);
    isthmus::live_tracking(false);
    isthmus::live_tracking(true);
    const Tensor owned = isthmus::from_blob(blob, [] {}).value();
    ASSERT_EQ(isthmus::live().size(), 1U);
    EXPECT_FALSE(isthmus::live()[0].borrowed);
}

TEST_F(Live, TracingTellsTheCalls) {
    void* frames[1];
    if (isthmus::detail::find_callers(frames, 1) == 0) GTEST_SKIP() << "this C library does not tell who called";
    isthmus::live_tracking(true, true);
    const Tensor t = Tensor::empty({2}, isthmus::float32);
    const auto live = isthmus::live();
    ASSERT_EQ(live.size(), 1U);
    EXPECT_NE(live[0].cpp_place.find("isthmus_core_tests"), std::string::npos) << live[0].cpp_place;
}

TEST_F(Live, CallsOfNoKnownFileAreLeftOut) {
    const auto own = reinterpret_cast<void*>(&isthmus::detail::describe_frames);
    isthmus::detail::CodePlace known;
    if (!isthmus::detail::find_code_place(own, known))
        GTEST_SKIP() << "a static program does not tell where its code is";
    const std::unique_ptr<char> nowhere(new char);  // as a frame of code that was made at run time
    const void* const frames[] = {nowhere.get(), own, nowhere.get()};
    isthmus::detail::CodePlaces places;
    const std::string text = isthmus::detail::describe_frames(places, frames, 3);
    EXPECT_EQ(text, isthmus::detail::describe_frames(places, frames + 1, 1));
    EXPECT_NE(text.find("isthmus_core_tests"), std::string::npos) << text;
    EXPECT_EQ(text.find(" < "), std::string::npos) << text;
}

#if defined(__GLIBC__)
TEST_F(Live, TheInterpretersOwnCallsEndTheTrace) {
    const auto own = reinterpret_cast<void*>(&isthmus::detail::describe_frames);
    Dl_info maths{};
    ASSERT_NE(dladdr(dlsym(RTLD_DEFAULT, "cos"), &maths), 0);
    const auto folder = std::filesystem::path(testing::TempDir()) / ("isthmus_live_" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    for (const char* name : {"libpython3.so", "python3.so"}) {  // any library, under the name of the interpreter's
        std::filesystem::copy_file(std::filesystem::canonical(maths.dli_fname), folder / name);
        void* library = dlopen((folder / name).c_str(), RTLD_NOW);
        ASSERT_NE(library, nullptr) << dlerror();
        const void* const frames[] = {own, dlsym(library, "cos"), own};
        isthmus::detail::CodePlaces places;
        EXPECT_EQ(isthmus::detail::describe_frames(places, frames, 3),
                  isthmus::detail::describe_frames(places, frames, 1))
            << name;
        dlclose(library);
    }
    std::filesystem::remove_all(folder);
}
#endif

TEST_F(Live, ForgetsWhenSwitchedOff) {
    isthmus::live_tracking(true);
    Tensor t = Tensor::empty({2}, isthmus::float32);
    isthmus::live_tracking(false);
    isthmus::live_tracking(true);
    EXPECT_TRUE(isthmus::live().empty());
    t = Tensor::empty({3}, isthmus::float32);
    EXPECT_EQ(isthmus::live().size(), 1U);
}

TEST_F(Live, EveryThreadIsListed) {
    isthmus::live_tracking(true);
    const auto work = [] {
        for (int i = 0; i < 1000; ++i) {
            const Tensor t = Tensor::empty({2}, isthmus::float32);
            if (i % 100 == 0) {
                EXPECT_FALSE(isthmus::live().empty());
            }
        }
    };
    std::thread one(work), two(work);
    one.join();
    two.join();
    EXPECT_TRUE(isthmus::live().empty());
}

TEST_F(Live, TheOwnerIsReleasedAfterTheEntryIsGone) {
    isthmus::live_tracking(true);
    std::size_t listed = 99;
    float element = 0;
    {
        const Tensor t = Tensor::wrap(&element, {1}, {}, isthmus::float32, isthmus::Device::cpu(),
                                      [&] { listed = isthmus::live().size(); });
    }
    EXPECT_EQ(listed, 0U);
}

}  // namespace
