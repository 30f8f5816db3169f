// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/tensor.h>

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/counting.h"
#include "support/errors.h"

using isthmus::Device;
using isthmus::Error;
using isthmus::ErrorCode;
using isthmus::float32;
using isthmus::Tensor;
using isthmus_test::counting;
using isthmus_test::expect_error;

namespace {

using Ints = std::vector<std::int64_t>;

Ints list(std::span<const std::int64_t> values) { return {values.begin(), values.end()}; }

/// The elements in row-major order, each found by its own index.
std::vector<float> elements(const Tensor& t) {
    std::vector<float> out;
    Ints index(static_cast<std::size_t>(t.ndim()));
    for (std::int64_t n = 0; n < t.numel(); ++n) {
        std::int64_t rest = n, offset = 0;
        for (std::size_t d = index.size(); d-- > 0;) {
            offset += rest % t.shape()[d] * t.strides()[d];
            rest /= t.shape()[d];
        }
        out.push_back(static_cast<const float*>(t.data())[offset]);
    }
    return out;
}

TEST(Parts, ShareTheMemoryAndItsOwner) {
    Tensor t = counting({2, 3, 4}, 24);
    const Tensor part = t.select(0, 1);
    EXPECT_EQ(part.data(), static_cast<float*>(t.data()) + 12);
    t = Tensor();
    EXPECT_EQ(elements(part)[11], 23);
    EXPECT_TRUE(part.as_read_only().slice(0, 1).read_only());
    EXPECT_FALSE(part.slice(0, 1).read_only());
}

TEST(Parts, Select) {
    const Tensor t = counting({2, 3, 4}, 24);
    EXPECT_EQ(elements(t.select(1, 2)), (std::vector<float>{8, 9, 10, 11, 20, 21, 22, 23}));
    EXPECT_EQ(elements(t.select(-1, -4)), (std::vector<float>{0, 4, 8, 12, 16, 20}));
    EXPECT_EQ(elements(counting({3}, 3).select(0, 2)), (std::vector<float>{2}));
    expect_error(ErrorCode::bad_argument, "select(): found dimension 3; expected one of 3",
                 [&] { return t.select(3, 0); });
    expect_error(ErrorCode::bad_argument, "select(): found dimension -4; expected one of 3",
                 [&] { return t.select(-4, 0); });
    expect_error(ErrorCode::bad_argument, "select(): index 4 is out of bounds for dimension 2 of size 4",
                 [&] { return t.select(-1, 4); });
    expect_error(ErrorCode::bad_argument, "select(): index -3 is out of bounds for dimension 0 of size 2",
                 [&] { return t.select(0, -3); });
    EXPECT_EQ(counting({0, 3}, 0).select(1, 2).numel(), 0);
}

/// What Python takes of range(size) by [start:stop:step].
Ints python_slice(std::int64_t size, std::int64_t start, std::int64_t stop, std::int64_t step) {
    Ints out;
    for (std::int64_t i = 0; i < size; ++i) {
        const std::int64_t first = start < 0 ? std::max<std::int64_t>(start + size, 0) : start;
        const std::int64_t last = stop < 0 ? stop + size : stop;
        if (i >= first && i < last && (i - first) % step == 0) out.push_back(i);
    }
    return out;
}

TEST(Parts, SliceIsPythons) {
    const Tensor t = counting({7}, 7);
    for (std::int64_t start = -9; start <= 9; ++start)
        for (std::int64_t stop = -9; stop <= 9; ++stop)
            for (std::int64_t step = 1; step <= 9; ++step) {
                const auto found = elements(t.slice(0, start, stop, step));
                EXPECT_EQ(Ints(found.begin(), found.end()), python_slice(7, start, stop, step))
                    << start << ":" << stop << ":" << step;
            }
    EXPECT_EQ(elements(t.slice(0, 5)), (std::vector<float>{5, 6}));
    EXPECT_EQ(elements(t.slice(0, INT64_MIN, INT64_MAX, INT64_MAX)), (std::vector<float>{0}));
    EXPECT_EQ(t.slice(0, INT64_MAX, INT64_MIN).numel(), 0);
    EXPECT_EQ(elements(counting({4, 3}, 12).slice(0, 1, 4, 2).slice(-1, 0, 2)), (std::vector<float>{3, 4, 9, 10}));
    expect_error(ErrorCode::bad_argument, "slice(): found step 0; expected 1 or more",
                 [&] { return t.slice(0, 0, 1, 0); });
    expect_error(ErrorCode::bad_argument, "slice(): found dimension 1; expected one of 1",
                 [&] { return t.slice(1, 0); });
}

TEST(Parts, Transpose) {
    const Tensor t = counting({2, 3, 4}, 24);
    EXPECT_EQ(list(t.transpose().shape()), (Ints{4, 3, 2}));
    EXPECT_EQ(list(t.transpose().strides()), (Ints{1, 4, 12}));
    EXPECT_EQ(list(t.transpose({1, -1, 0}).shape()), (Ints{3, 4, 2}));
    EXPECT_EQ(list(t.transpose({1, -1, 0}).strides()), (Ints{4, 1, 12}));
    EXPECT_EQ(elements(counting({}, 1).transpose()), (std::vector<float>{0}));
    expect_error(ErrorCode::bad_argument, "transpose(): axes (0, 0, 1) are not the 3 dimensions, each once",
                 [&] { return t.transpose({0, 0, 1}); });
    expect_error(ErrorCode::bad_argument, "transpose(): axes (1, 0) are not the 3 dimensions, each once",
                 [&] { return t.transpose({1, 0}); });
    expect_error(ErrorCode::bad_argument, "transpose(): axes (0, 3, 1) are not the 3 dimensions, each once",
                 [&] { return t.transpose({0, 3, 1}); });
    const std::int64_t far = std::int64_t{1} << 40;
    expect_error(ErrorCode::bad_argument, "transpose(): axes (1099511627776, 0, 1) are not the 3 dimensions, each once",
                 [&] { return t.transpose({far, 0, 1}); });
}

TEST(Parts, Reshape) {
    const Tensor t = counting({2, 6}, 12);
    EXPECT_EQ(list(t.reshape({3, -1}).shape()), (Ints{3, 4}));
    EXPECT_EQ(list(t.reshape({-1}).strides()), (Ints{1}));
    EXPECT_EQ(elements(t.reshape({2, 2, 3})), elements(t));
    EXPECT_EQ(elements(counting({1, 1}, 1).reshape({})), (std::vector<float>{0}));
    EXPECT_EQ(list(counting({0, 3}, 0).reshape({3, -1}).shape()), (Ints{3, 0}));
    const auto refused = [&](const Ints& shape) {
        expect_error(
            ErrorCode::bad_layout,
            ("reshape(): shape " + isthmus::layout::to_string(shape) + " does not hold the 12 elements of shape (2, 6)")
                .c_str(),
            [&] { return t.reshape(shape); });
    };
    refused({5, -1});
    refused({-1, -1});
    refused({2, 5});
    refused({-2, -6});
    refused({0, -1});
    refused({INT64_MAX, 3});
    refused({});
    refused({0});
    expect_error(
        ErrorCode::bad_layout,
        "reshape(): strides (1, 6) of shape (6, 2) have shape (12,) only in a copy; write contiguous() of a Tensor, "
        "or copy_of()",
        [&] { return t.transpose().reshape({12}); });
    EXPECT_EQ(elements(t.transpose().contiguous().reshape({12})), elements(t.transpose()));
}

TEST(Parts, ReshapeTakesNoDimensionForASizeOfOne) {
    // Columns with gaps between them, and numbers in front that no loop may take for a further dimension.
    const std::int64_t sizes[] = {5, 2, 3}, strides[] = {77, 6, 2}, wanted[] = {1, 6, 1};
    std::int64_t out[3] = {};
    isthmus::detail::reshape_strides(sizes + 1, strides + 1, 2, wanted, 3, out);
    EXPECT_EQ(list(out), (Ints{2, 2, 1}));
    const Tensor t = counting({2, 6}, 12).slice(1, 0, INT64_MAX, 2);
    EXPECT_EQ(elements(t.reshape({1, 6, 1})), elements(t));
}

TEST(Parts, BroadcastTo) {
    const Tensor t = counting({3, 1}, 3);
    const Tensor wide = t.broadcast_to({2, 3, 2});
    EXPECT_EQ(elements(wide), (std::vector<float>{0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2}));
    EXPECT_EQ(list(wide.strides()), (Ints{0, 1, 0}));
    EXPECT_FALSE((wide.view<float, 3>())) << "elements overlap";
    EXPECT_TRUE((wide.view<const float, 3>()));
    EXPECT_EQ(t.broadcast_to({3, 0}).numel(), 0);
    const auto refused = [&](const Ints& shape) {
        expect_error(
            ErrorCode::bad_layout,
            ("broadcast_to(): shape (3, 1) does not broadcast to " + isthmus::layout::to_string(shape)).c_str(),
            [&] { return t.broadcast_to(shape); });
    };
    refused({3});
    refused({2, 2});
    refused({3, -1});
    refused({INT64_MAX, 3, 2});
}

TEST(Parts, ContiguousCopiesOnlyWhatIsNot) {
    const Tensor t = counting({2, 3}, 6);
    EXPECT_EQ(t.contiguous().data(), t.data());
    const Tensor turned = t.transpose().contiguous();
    EXPECT_NE(turned.data(), t.data());
    EXPECT_TRUE(turned.is_contiguous());
    EXPECT_TRUE(turned.is_copied());
    EXPECT_EQ(elements(turned), elements(t.transpose()));
    float memory[4] = {};
    const Tensor far = Tensor::wrap(memory, {2, 2}, {1, 2}, float32, Device::cuda(), nullptr);
    expect_error(ErrorCode::bad_device,
                 "the tensor is on cuda:0; only its framework can copy that: expected host memory",
                 [&] { return far.contiguous(); });
    EXPECT_EQ(far.select(1, 1).data(), memory + 2) << "a part of device memory is an address";
}

TEST(Parts, WhereDataIsAHandleThePartHasAnOffset) {
    int handle = 0;
    const Tensor t = Tensor::wrap(&handle, {4, 3}, {}, float32, Device(kDLOpenCL, 0), nullptr);
    const Tensor part = t.slice(0, 2).select(1, 1);
    EXPECT_EQ(part.data(), &handle);
    EXPECT_EQ(part.descriptor().byte_offset, 7 * sizeof(float));
}

TEST(Parts, OfPackedElementsBeginWithAByte) {
    unsigned char memory[6] = {};
    const Tensor t = Tensor::wrap(memory, {3, 4}, {}, isthmus::float4_e2m1fn, Device::cpu(), nullptr);
    EXPECT_EQ(t.select(0, 1).data(), memory + 2);
    EXPECT_EQ(t.slice(0, 1, 3).nbytes(), 4);
    expect_error(ErrorCode::bad_layout,
                 "element 1 of packed float4_e2m1fn begins within a byte; expected a part that begins with one",
                 [&] { return t.reshape({12}).slice(0, 1); });
    EXPECT_THROW((void)t.transpose(), Error);
    EXPECT_THROW((void)t.slice(1, 0, 2), Error);
}

TEST(Parts, NothingOverflowsWhereThereIsNothing) {
    const Tensor t =
        Tensor::wrap(static_cast<void*>(nullptr), {0, 4}, {INT64_MAX, INT64_MAX}, float32, Device::cpu(), nullptr);
    EXPECT_EQ(t.select(1, 3).numel(), 0);
    EXPECT_EQ(t.slice(1, 3).numel(), 0);
    EXPECT_EQ(t.slice(0, 0).reshape({4, 0, 7}).numel(), 0);
    EXPECT_EQ(t.transpose().numel(), 0);
}

/// The strides that `shape` would have over these addresses, where they lie evenly.
bool lie_evenly(const Ints& addresses, const Ints& shape) {
    for (std::int64_t n = 0; n < static_cast<std::int64_t>(addresses.size()); ++n) {
        std::int64_t rest = n, step = 1, expected = addresses[0];
        for (std::size_t d = shape.size(); d-- > 0;) {
            const std::int64_t index = rest % shape[d];
            if (index != 0) expected += index * (addresses[static_cast<std::size_t>(step)] - addresses[0]);
            rest /= shape[d];
            step *= shape[d];
        }
        if (expected != addresses[static_cast<std::size_t>(n)]) return false;
    }
    return true;
}

// Every reshape of small tensors of many layouts: it is given where it can be, and refused where only a copy has it.
TEST(Parts, ReshapeSharesWhereverItCan) {
    std::mt19937 random(7);
    const Ints shapes[] = {{24},      {1, 24, 1}, {2, 12},      {12, 2},     {3, 8},
                           {2, 3, 4}, {4, 1, 6},  {2, 2, 2, 3}, {6, 1, 1, 4}};
    const Tensor base = counting({7, 7, 7, 7}, 2401);
    int given = 0, refused = 0;
    for (int round = 0; round < 400; ++round) {
        Tensor t = base;
        for (int d = 0; d < 4; ++d)
            t = t.slice(d, 0, Ints{1, 2, 3, 4, 6}[random() % 5], 1 + random() % 2 * (random() % 2));
        if (random() % 2) t = counting(t.shape(), static_cast<std::size_t>(t.numel()));
        if (random() % 2) t = t.transpose();
        if (t.numel() != 24) continue;
        Ints addresses;
        for (float at : elements(t)) addresses.push_back(static_cast<std::int64_t>(at));
        for (const Ints& shape : shapes) {
            Tensor found;
            try {
                found = t.reshape(shape);
            } catch (const Error&) {
            }
            ASSERT_EQ(static_cast<bool>(found), lie_evenly(addresses, shape))
                << isthmus::layout::to_string(t.shape()) << isthmus::layout::to_string(t.strides()) << " as "
                << isthmus::layout::to_string(shape);
            if (found) {
                EXPECT_EQ(elements(found), elements(t));
            }
            ++(found ? given : refused);
        }
    }
    EXPECT_GT(given, 50);
    EXPECT_GT(refused, 50);
}

}  // namespace
