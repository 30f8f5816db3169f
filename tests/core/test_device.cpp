// SPDX-License-Identifier: Apache-2.0
#include <isthmus/core/device.h>

#include <gtest/gtest.h>

using isthmus::Device;

namespace {

struct NamedDevice {
    int type;
    const char* name;
    bool host;
    bool opaque;
};

// Every device type of DLPack 1.3, written out here a second time on purpose.
const NamedDevice all_devices[] = {
    {kDLCPU, "cpu", true, false},
    {kDLCUDA, "cuda", false, false},
    {kDLCUDAHost, "cuda_host", true, false},
    {kDLOpenCL, "opencl", false, true},
    {kDLVulkan, "vulkan", false, true},
    {kDLMetal, "metal", false, true},
    {kDLVPI, "vpi", false, false},
    {kDLROCM, "rocm", false, false},
    {kDLROCMHost, "rocm_host", true, false},
    {kDLExtDev, "ext_dev", false, false},
    {kDLCUDAManaged, "cuda_managed", false, false},
    {kDLOneAPI, "oneapi", false, false},
    {kDLWebGPU, "webgpu", false, true},
    {kDLHexagon, "hexagon", false, false},
    {kDLMAIA, "maia", false, false},
    {kDLTrn, "trn", false, false},
};

TEST(Device, EveryDLPackDeviceHasItsNameBothWays) {
    for (const auto& row : all_devices)
        for (int id : {0, 1, 7, 255, INT32_MAX}) {
            const Device device{row.type, id};
            const std::string name = row.type == kDLCPU && id == 0 ? "cpu" : row.name + (":" + std::to_string(id));
            EXPECT_EQ(device.name(), name);
            EXPECT_EQ(device.type_name(), row.name);
            EXPECT_TRUE(device.is_valid()) << name;
            EXPECT_EQ(device.is_host(), row.host) << name;
            EXPECT_EQ(device.is_opaque(), row.opaque) << name;
            Device parsed{-1, -1};
            ASSERT_TRUE(Device::parse(name, parsed)) << name;
            EXPECT_EQ(parsed, device) << name;
        }
}

TEST(Device, AMissingIndexIsZero) {
    Device parsed{-1, -1};
    ASSERT_TRUE(Device::parse("cuda", parsed));
    EXPECT_EQ(parsed, Device::cuda(0));
    ASSERT_TRUE(Device::parse("cpu:0", parsed));
    EXPECT_EQ(parsed, Device::cpu());
}

TEST(Device, ParseRefusesEverythingElseAndLeavesTheOutputAlone) {
    for (const char* name : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "cuda:0:0", ":0", "CUDA:0", "cuda 0",
                             "cuda:2147483648", "cuda:99999999999"}) {
        Device out = Device::metal(3);
        EXPECT_FALSE(Device::parse(name, out)) << name;
        EXPECT_EQ(out, Device::metal(3)) << name;
    }
}

TEST(Device, UnknownTypesAndNegativeIndicesAreInvalid) {
    for (int type : {-1, 0, 5, 6, 19, 1000}) EXPECT_FALSE(Device(type, 0).is_valid()) << type;
    EXPECT_FALSE(Device(kDLCUDA, -1).is_valid());
    EXPECT_FALSE(Device(kDLCPU, -1).is_valid());
    EXPECT_EQ(Device(6, 1).name(), "device<6>:1");
}

TEST(Device, ConvertsToDLDeviceAndBack) {
    const DLDevice dl = Device::rocm(2);
    EXPECT_EQ(dl.device_type, kDLROCM);
    EXPECT_EQ(dl.device_id, 2);
    EXPECT_EQ(Device(dl), Device::rocm(2));
    EXPECT_EQ(Device(), Device::cpu());
    EXPECT_NE(Device::cuda(0), Device::cuda(1));
}

}  // namespace
