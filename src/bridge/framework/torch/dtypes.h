// torch's dtypes and devices, and what DLPack calls them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/core/dtype.h>
#include "../../../core/libraries.h"

ISTHMUS_BEGIN

namespace detail {

/// A dtype that both sides have. The numbers are at::ScalarType's; saved files contain them, so they do not change
/// (torch/headeronly/core/ScalarType.h).
struct TorchDType {
    int number;
    DType dtype;
};
inline constexpr TorchDType torch_dtypes[] = {
    {0, uint8},
    {1, int8},
    {2, int16},
    {3, int32},
    {4, int64},
    {5, float16},
    {6, float32},
    {7, float64},
    {8, complex32},
    {9, complex64},
    {10, complex128},
    {11, boolean},
    {15, bfloat16},
    {23, float8_e5m2},
    {24, float8_e4m3fn},
    {25, float8_e5m2fnuz},
    {26, float8_e4m3fnuz},
    {27, uint16},
    {28, uint32},
    {29, uint64},
    {44, float8_e8m0fnu},
    {45, DType(kDLFloat4_e2m1fn, 4, 2)},
};

/// The same table by torch's number and by DLPack's code and width.
struct TorchDTypes {
    static constexpr unsigned slot_count = 64;
    DLDataType by_number[slot_count]{};  ///< bits 0 if DLPack has no counterpart
    std::int16_t numbers[256]{};         ///< -1 if torch has none

    static constexpr unsigned slot(DType dtype) noexcept {
        return (dtype.code * 8u + static_cast<unsigned>(std::countr_zero(dtype.bit_count | 0x80u))) % 256u;
    }
    constexpr TorchDTypes() {
        for (auto& number : numbers) number = -1;
        for (const TorchDType& row : torch_dtypes) {
            by_number[row.number] = row.dtype;
            numbers[slot(row.dtype)] = static_cast<std::int16_t>(row.number);
        }
    }
    /// bits() is 0 if DLPack has no counterpart.
    constexpr DType dtype_of(int number) const noexcept {
        return static_cast<unsigned>(number) < slot_count ? DType(by_number[number]) : DType(DLDataType{0, 0, 0});
    }
    /// -1 if torch has none.
    constexpr int number_of(DType dtype) const noexcept {
        const int number = numbers[slot(dtype)];
        return number >= 0 && DType(by_number[number]) == dtype ? number : -1;
    }
};
inline constexpr TorchDTypes torch_dtype_table{};

constexpr bool torch_rows_do_not_collide() {
    for (const TorchDType& row : torch_dtypes)
        if (torch_dtype_table.dtype_of(row.number) != row.dtype || torch_dtype_table.number_of(row.dtype) != row.number)
            return false;
    return true;
}
static_assert(torch_rows_do_not_collide(), "isthmus: two dtypes of torch share a number, or a place by code and width");

/// The device type of torch's "cuda" in this process: a ROCm build of torch uses the same name.
inline DLDeviceType torch_gpu_type() noexcept {
    static const bool rocm = find_library(ISTHMUS_LIBRARY("torch_hip")) != nullptr;
    return rocm ? kDLROCM : kDLCUDA;
}

}  // namespace detail

ISTHMUS_END
