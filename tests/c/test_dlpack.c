/* SPDX-License-Identifier: Apache-2.0 */
#include <dlpack/dlpack.h>

#include "check.h"

static float memory[6] = {0, 1, 2, 3, 4, 5};
static int64_t shape[2] = {2, 3}, strides[2] = {3, 1};
static int deleted = 0;

static void delete_versioned(DLManagedTensorVersioned* self) {
    (void)self;
    ++deleted;
}
static void delete_legacy(DLManagedTensor* self) {
    (void)self;
    ++deleted;
}

static DLTensor describe(void) {
    const DLTensor t = {.data = memory,
                        .device = {kDLCPU, 0},
                        .ndim = 2,
                        .dtype = {kDLFloat, 32, 1},
                        .shape = shape,
                        .strides = strides};
    return t;
}
static DLManagedTensorVersioned versioned(void) {
    const DLManagedTensorVersioned m = {.version = {1, 3}, .deleter = delete_versioned, .dl_tensor = describe()};
    return m;
}

static void import(void) {
    isthmus_tensor* tensor = NULL;
    isthmus_tensor_info info;
    deleted = 0;
    DLManagedTensorVersioned managed = versioned();
    managed.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    CHECK_OK(isthmus_from_dlpack(&managed, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.data == memory && info.flags == ISTHMUS_FLAG_READ_ONLY);
    CHECK(deleted == 0);
    CHECK_OK(isthmus_release(tensor));
    CHECK(deleted == 1);

    DLManagedTensor legacy = {.dl_tensor = describe(), .deleter = delete_legacy};
    CHECK_OK(isthmus_from_dlpack_legacy(&legacy, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.data == memory && info.flags == 0);
    CHECK_OK(isthmus_release(tensor));
    CHECK(deleted == 2);
}

/* A managed tensor that is refused is deleted, once, before the call returns. */
static void refused_import(void) {
    isthmus_tensor* out = NULL;
    int expected = 0;
    deleted = 0;
    DLManagedTensorVersioned managed = versioned();
    managed.version.major = 2;
    CHECK_FAILS(isthmus_from_dlpack(&managed, &out), ISTHMUS_UNSUPPORTED_VERSION,
                "DLPack version 2.3; expected major version 1");
    CHECK(deleted == ++expected);
    managed = versioned();
    managed.flags = 1u << 20;
    CHECK_FAILS(isthmus_from_dlpack(&managed, &out), ISTHMUS_UNSUPPORTED_VERSION, "flags 0x100000");
    CHECK(deleted == ++expected);
    managed = versioned();
    managed.dl_tensor.data = NULL;
    CHECK_FAILS(isthmus_from_dlpack(&managed, &out), ISTHMUS_NULL_DATA, "NULL");
    CHECK(deleted == ++expected);
    managed = versioned();
    CHECK_FAILS(isthmus_from_dlpack(&managed, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK(deleted == ++expected);
    DLManagedTensor legacy = {.dl_tensor = describe(), .deleter = delete_legacy};
    legacy.dl_tensor.ndim = -1;
    CHECK_FAILS(isthmus_from_dlpack_legacy(&legacy, &out), ISTHMUS_BAD_LAYOUT, "ndim is -1");
    CHECK(deleted == ++expected);
    CHECK_FAILS(isthmus_from_dlpack(NULL, &out), ISTHMUS_BAD_CAPSULE, "NULL");
    CHECK_FAILS(isthmus_from_dlpack_legacy(NULL, &out), ISTHMUS_BAD_CAPSULE, "NULL");
    CHECK(out == NULL);
}

static void export(void) {
    int released = 0;
    isthmus_tensor* tensor = NULL;
    CHECK_OK(isthmus_wrap(memory, shape, strides, 2, float32, cpu, 0, count_release, &released, &tensor));
    DLManagedTensorVersioned* managed = NULL;
    DLManagedTensor* legacy = NULL;
    CHECK_OK(isthmus_to_dlpack(tensor, &managed));
    CHECK_OK(isthmus_to_dlpack_legacy(tensor, &legacy));
    CHECK_OK(isthmus_release(tensor));
    CHECK(managed->version.major == 1 && managed->version.minor == 3 && managed->flags == 0);
    CHECK(managed->dl_tensor.data == memory && legacy->dl_tensor.data == memory);
    CHECK(managed->dl_tensor.shape[1] == 3 && legacy->dl_tensor.strides[0] == 3);
    legacy->deleter(legacy);
    CHECK(released == 0);
    managed->deleter(managed);
    CHECK(released == 1);
}

static void export_of_flags(void) {
    isthmus_tensor* tensor = NULL;
    DLManagedTensorVersioned* managed = NULL;
    DLManagedTensor* legacy = NULL;
    CHECK_OK(isthmus_wrap(memory, shape, NULL, 2, float32, cpu, ISTHMUS_FLAG_READ_ONLY, NULL, NULL, &tensor));
    CHECK_FAILS(isthmus_to_dlpack_legacy(tensor, &legacy), ISTHMUS_READ_ONLY, "read-only");
    CHECK_OK(isthmus_to_dlpack(tensor, &managed));
    CHECK(managed->flags == DLPACK_FLAG_BITMASK_READ_ONLY);
    managed->deleter(managed);
    CHECK_OK(isthmus_release(tensor));
    CHECK_OK(isthmus_wrap(memory, shape, NULL, 2, float4, cpu, ISTHMUS_FLAG_PADDED, NULL, NULL, &tensor));
    CHECK_FAILS(isthmus_to_dlpack_legacy(tensor, &legacy), ISTHMUS_BAD_DTYPE, "padded elements of float4_e2m1fn");
    CHECK_OK(isthmus_to_dlpack(tensor, &managed));
    CHECK(managed->flags == DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
    managed->deleter(managed);
    CHECK_OK(isthmus_release(tensor));
    CHECK(legacy == NULL);
}

static void round_trip(void) {
    for (int tensor_first = 0; tensor_first < 2; ++tensor_first) {
        int released = 0;
        isthmus_tensor *tensor = NULL, *back = NULL;
        DLManagedTensorVersioned* managed = NULL;
        isthmus_tensor_info info;
        CHECK_OK(isthmus_wrap(memory, shape, NULL, 2, float32, cpu, 0, count_release, &released, &tensor));
        CHECK_OK(isthmus_to_dlpack(tensor, &managed));
        CHECK_OK(isthmus_from_dlpack(managed, &back));
        CHECK_OK(isthmus_release(tensor_first ? tensor : back));
        CHECK(released == 0);
        CHECK_OK(isthmus_describe(tensor_first ? back : tensor, &info));
        CHECK(info.data == memory && ((float*)info.data)[5] == 5);
        CHECK_OK(isthmus_release(tensor_first ? back : tensor));
        CHECK(released == 1);
    }
}

static void null_arguments(void) {
    isthmus_tensor* tensor = NULL;
    DLManagedTensorVersioned* managed = NULL;
    DLManagedTensor* legacy = NULL;
    CHECK_FAILS(isthmus_to_dlpack(NULL, &managed), ISTHMUS_BAD_ARGUMENT, "'tensor'");
    CHECK_FAILS(isthmus_to_dlpack_legacy(NULL, &legacy), ISTHMUS_BAD_ARGUMENT, "'tensor'");
    CHECK_OK(isthmus_empty(NULL, 0, float32, &tensor));
    CHECK_FAILS(isthmus_to_dlpack(tensor, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK_FAILS(isthmus_to_dlpack_legacy(tensor, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK_OK(isthmus_release(tensor));
}

int main(void) {
    import();
    refused_import();
    export();
    export_of_flags();
    round_trip();
    null_arguments();
    return check_report();
}
