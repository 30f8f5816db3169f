// Device: where the memory is.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

#include <isthmus/core/config.h>
#include <isthmus/core/text.h>

ISTHMUS_BEGIN

/// Where the memory is: a DLPack device type and an index. Layout-compatible with `DLDevice` (DLPack 1.3, dlpack.h).
struct Device {
    std::int32_t type;  ///< DLPack's device type: kDLCPU, kDLCUDA, …
    std::int32_t id;    ///< which of the devices of that type; 0 for the CPU

    /// The CPU.
    constexpr Device() noexcept : type(kDLCPU), id(0) {}
    /// A device type of DLPack and an index.
    constexpr Device(int type_, int id_) noexcept : type(type_), id(id_) {}
    /// The same device as DLPack's struct.
    constexpr Device(DLDevice d) noexcept : type(d.device_type), id(d.device_id) {}
    /// DLPack's own struct, for a C function that takes one.
    constexpr operator DLDevice() const noexcept { return DLDevice{static_cast<DLDeviceType>(type), id}; }

    /// Host memory.
    static constexpr Device cpu() noexcept { return {kDLCPU, 0}; }
    /// A device of this type; the first one if no index is given.
    static constexpr Device cuda(int id = 0) noexcept { return {kDLCUDA, id}; }
    /// As cuda(), for AMD's ROCm.
    static constexpr Device rocm(int id = 0) noexcept { return {kDLROCM, id}; }
    /// As cuda(), for Apple's Metal.
    static constexpr Device metal(int id = 0) noexcept { return {kDLMetal, id}; }

    /// The host may read and write the memory through its address (pinned memory included).
    constexpr bool is_host() const noexcept { return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost; }
    /// `data` is a handle of the driver, not an address, so nothing may be added to it (dlpack.h, DLTensor::data).
    constexpr bool is_opaque() const noexcept {
        return type == kDLOpenCL || type == kDLVulkan || type == kDLMetal || type == kDLWebGPU;
    }

    /// "cpu", "cuda:0", "rocm:1", "cuda_managed:0". The index is left out for the CPU's index 0.
    std::string name() const;
    /// The name of the type alone: "cuda". "device<N>" for a type this DLPack version does not define.
    std::string type_name() const;
    /// Whether DLPack 1.3 defines the type, and the index is 0 or more.
    constexpr bool is_valid() const noexcept;
    /// The device called `name` (as name() writes it; a missing index is 0); false when there is none.
    static bool parse(std::string_view name, Device& out) noexcept;

    friend constexpr bool operator==(Device a, Device b) noexcept {
        return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b);
    }
};

/// No stream is known, or none is named.
inline constexpr std::int64_t no_stream = INT64_MIN;

static_assert(sizeof(Device) == sizeof(DLDevice) && alignof(Device) == alignof(DLDevice));

namespace detail {

/// As Device::type_name() writes it.
Piece name_of_device_type(int type) noexcept;

struct DeviceType {
    int type;
    std::string_view name;
};
inline constexpr DeviceType device_types[] = {
    {kDLCPU, "cpu"},
    {kDLCUDA, "cuda"},
    {kDLCUDAHost, "cuda_host"},
    {kDLOpenCL, "opencl"},
    {kDLVulkan, "vulkan"},
    {kDLMetal, "metal"},
    {kDLVPI, "vpi"},
    {kDLROCM, "rocm"},
    {kDLROCMHost, "rocm_host"},
    {kDLExtDev, "ext_dev"},
    {kDLCUDAManaged, "cuda_managed"},
    {kDLOneAPI, "oneapi"},
    {kDLWebGPU, "webgpu"},
    {kDLHexagon, "hexagon"},
    {kDLMAIA, "maia"},
    {kDLTrn, "trn"},
};

/// The name of a device type, "" for one that this DLPack version does not define. (Not a pointer to a row: with
/// -fsanitize=undefined GCC does not accept one as a constant.)
constexpr std::string_view device_type_name(int type) noexcept {
    for (const auto& row : device_types)
        if (row.type == type) return row.name;
    return {};
}

}  // namespace detail

constexpr bool Device::is_valid() const noexcept {
    return id >= 0 && (type == kDLCPU || !detail::device_type_name(type).empty());
}

ISTHMUS_END
