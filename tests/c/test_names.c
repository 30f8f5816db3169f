/* SPDX-License-Identifier: Apache-2.0 */
#include <dlpack/dlpack.h>
#include <stdint.h>

#include "check.h"

_Static_assert(sizeof(isthmus_dtype) == sizeof(DLDataType) && _Alignof(isthmus_dtype) >= _Alignof(uint8_t), "");
_Static_assert(offsetof(isthmus_dtype, bits) == offsetof(DLDataType, bits), "");
_Static_assert(offsetof(isthmus_dtype, lanes) == offsetof(DLDataType, lanes), "");
_Static_assert(sizeof(isthmus_device) == sizeof(DLDevice), "");
_Static_assert(offsetof(isthmus_device, id) == offsetof(DLDevice, device_id), "");

static void dtypes(void) {
    static const struct {
        isthmus_dtype dtype;
        const char* name;
    } rows[] = {
        {{kDLInt, 8, 1}, "int8"},
        {{kDLUInt, 64, 1}, "uint64"},
        {{kDLFloat, 16, 1}, "float16"},
        {{kDLFloat, 32, 4}, "float32x4"},
        {{kDLOpaqueHandle, 64, 1}, "opaque64"},
        {{kDLBfloat, 16, 1}, "bfloat16"},
        {{kDLComplex, 128, 1}, "complex128"},
        {{kDLBool, 8, 1}, "bool"},
        {{kDLFloat8_e3m4, 8, 1}, "float8_e3m4"},
        {{kDLFloat8_e4m3, 8, 1}, "float8_e4m3"},
        {{kDLFloat8_e4m3b11fnuz, 8, 65535}, "float8_e4m3b11fnuzx65535"}, /* the longest name */
        {{kDLFloat8_e4m3fn, 8, 1}, "float8_e4m3fn"},
        {{kDLFloat8_e4m3fnuz, 8, 1}, "float8_e4m3fnuz"},
        {{kDLFloat8_e5m2, 8, 1}, "float8_e5m2"},
        {{kDLFloat8_e5m2fnuz, 8, 1}, "float8_e5m2fnuz"},
        {{kDLFloat8_e8m0fnu, 8, 1}, "float8_e8m0fnu"},
        {{kDLFloat6_e2m3fn, 6, 1}, "float6_e2m3fn"},
        {{kDLFloat6_e3m2fn, 6, 1}, "float6_e3m2fn"},
        {{kDLFloat4_e2m1fn, 4, 1}, "float4_e2m1fn"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        char name[ISTHMUS_NAME_SIZE];
        isthmus_dtype parsed = {255, 0, 0};
        CHECK_OK(isthmus_dtype_name(rows[i].dtype, name, sizeof name));
        CHECK(strcmp(name, rows[i].name) == 0);
        CHECK_OK(isthmus_dtype_parse(rows[i].name, &parsed));
        CHECK(memcmp(&parsed, &rows[i].dtype, sizeof parsed) == 0);
    }
    char name[ISTHMUS_NAME_SIZE] = "untouched";
    isthmus_dtype parsed = {1, 2, 3};
    CHECK_FAILS(isthmus_dtype_name((isthmus_dtype){18, 8, 1}, name, sizeof name), ISTHMUS_BAD_DTYPE,
                "code 18, bits 8, lanes 1");
    CHECK_FAILS(isthmus_dtype_name(float32, name, 7), ISTHMUS_BAD_ARGUMENT, "7 bytes; expected 8 for \"float32\"");
    CHECK_FAILS(isthmus_dtype_name(float32, name, 0), ISTHMUS_BAD_ARGUMENT, "'size'");
    CHECK(strcmp(name, "untouched") == 0);
    CHECK_OK(isthmus_dtype_name(float32, name, 8));
    CHECK_FAILS(isthmus_dtype_parse("float33", &parsed), ISTHMUS_BAD_DTYPE, "no dtype is called \"float33\"");
    CHECK_FAILS(isthmus_dtype_parse("", &parsed), ISTHMUS_BAD_DTYPE, "\"\"");
    CHECK(parsed.code == 1 && parsed.bits == 2 && parsed.lanes == 3);
    CHECK_FAILS(isthmus_dtype_name(float32, NULL, 8), ISTHMUS_BAD_ARGUMENT, "'buffer'");
    CHECK_FAILS(isthmus_dtype_parse(NULL, &parsed), ISTHMUS_BAD_ARGUMENT, "'name'");
    CHECK_FAILS(isthmus_dtype_parse("float32", NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
}

static void devices(void) {
    static const struct {
        int32_t type;
        const char* name;
    } rows[] = {
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
    char name[ISTHMUS_NAME_SIZE];
    isthmus_device parsed;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
        char wanted[64];
        const isthmus_device device = {rows[i].type, INT32_MAX};
        snprintf(wanted, sizeof wanted, "%s:%d", rows[i].name, INT32_MAX);
        CHECK_OK(isthmus_device_name(device, name, sizeof name));
        CHECK(strcmp(name, wanted) == 0);
        CHECK_OK(isthmus_device_parse(wanted, &parsed));
        CHECK(parsed.type == rows[i].type && parsed.id == INT32_MAX);
        CHECK_OK(isthmus_device_parse(rows[i].name, &parsed));
        CHECK(parsed.type == rows[i].type && parsed.id == 0);
    }
    CHECK_OK(isthmus_device_name(cpu, name, sizeof name));
    CHECK(strcmp(name, "cpu") == 0);
    CHECK_FAILS(isthmus_device_name((isthmus_device){6, 0}, name, sizeof name), ISTHMUS_BAD_DEVICE, "type 6, id 0");
    CHECK_FAILS(isthmus_device_name(cpu, name, 3), ISTHMUS_BAD_ARGUMENT, "3 bytes; expected 4");
    CHECK_FAILS(isthmus_device_parse("gpu:0", &parsed), ISTHMUS_BAD_DEVICE, "no device is called \"gpu:0\"");
    CHECK_FAILS(isthmus_device_name(cpu, NULL, 8), ISTHMUS_BAD_ARGUMENT, "'buffer'");
    CHECK_FAILS(isthmus_device_parse(NULL, &parsed), ISTHMUS_BAD_ARGUMENT, "'name'");
    CHECK_FAILS(isthmus_device_parse("cpu", NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
}

int main(void) {
    dtypes();
    devices();
    return check_report();
}
