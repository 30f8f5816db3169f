/* SPDX-License-Identifier: Apache-2.0 */
#include <dlpack/dlpack.h>
#include <stdint.h>

#include "check.h"

static float memory[6] = {0, 1, 2, 3, 4, 5};
static const int64_t shape[2] = {2, 3}, strides[2] = {3, 1};

/* As little as a blob needs. */
static isthmus_blob smallest(void) {
    isthmus_blob blob;
    memset(&blob, 0, sizeof blob);
    blob.ptr = memory;
    blob.shape = shape;
    blob.ndim = 2;
    strcpy(blob.dtype_name, "float32");
    return blob;
}

static void defaults(void) {
    isthmus_blob blob = smallest();
    isthmus_tensor* tensor = NULL;
    isthmus_tensor_info info;
    CHECK_OK(isthmus_from_blob(&blob, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.data == memory && info.strides[0] == 3 && info.flags == 0);
    CHECK(info.device.type == kDLCPU && info.device.id == 0);
    CHECK(memcmp(&info.dtype, &float32, sizeof float32) == 0);
    CHECK_OK(isthmus_release(tensor));

    blob.dtype_name[0] = '\0';
    blob.dtype = float32;
    strcpy(blob.device_name, "cuda:3");
    CHECK_OK(isthmus_from_blob(&blob, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.device.type == kDLCUDA && info.device.id == 3);
    CHECK_OK(isthmus_release(tensor));

    blob.device_name[0] = '\0';
    blob.device = (isthmus_device){kDLROCM, 1};
    CHECK_OK(isthmus_from_blob(&blob, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.device.type == kDLROCM && info.device.id == 1);
    CHECK_OK(isthmus_release(tensor));
}

static void there_and_back(void) {
    int released = 0;
    isthmus_tensor *tensor = NULL, *back = NULL;
    isthmus_tensor_info info;
    isthmus_blob blob = smallest(), out;
    blob.strides = strides;
    blob.element_size = 4;
    blob.flags = ISTHMUS_FLAG_READ_ONLY;
    blob.owner = &released;
    blob.release = count_release;
    CHECK_OK(isthmus_from_blob(&blob, &tensor));
    CHECK_OK(isthmus_to_blob(tensor, &out));
    CHECK_OK(isthmus_release(tensor));
    CHECK(released == 0);
    CHECK(out.ptr == memory && out.ndim == 2 && out.shape[1] == 3 && out.strides[0] == 3);
    CHECK(out.element_size == 4 && out.flags == ISTHMUS_FLAG_READ_ONLY);
    CHECK(strcmp(out.dtype_name, "float32") == 0 && out.dtype.bits == 32);
    CHECK(strcmp(out.device_name, "cpu") == 0 && out.device.type == kDLCPU);
    CHECK_OK(isthmus_from_blob(&out, &back)); /* what comes out goes in, its owner with it */
    CHECK_OK(isthmus_describe(back, &info));
    CHECK(info.data == memory);
    CHECK(released == 0);
    CHECK_OK(isthmus_release(back));
    CHECK(released == 1);

    CHECK_OK(isthmus_empty(shape, 2, float32, &tensor));
    CHECK_OK(isthmus_to_blob(tensor, &out));
    CHECK_OK(isthmus_release(tensor));
    ((float*)out.ptr)[5] = 1; /* alive until the blob's owner is given back */
    out.release(out.owner);
}

static void padded(void) {
    isthmus_blob blob = smallest(), out;
    isthmus_tensor* tensor = NULL;
    const int64_t turned[2] = {1, 2};
    strcpy(blob.dtype_name, "float4_e2m1fn");
    blob.strides = turned;
    CHECK_FAILS(isthmus_from_blob(&blob, &tensor), ISTHMUS_BAD_LAYOUT, "packed float4_e2m1fn");
    blob.flags = ISTHMUS_FLAG_PADDED;
    CHECK_OK(isthmus_from_blob(&blob, &tensor));
    CHECK_OK(isthmus_to_blob(tensor, &out));
    CHECK(out.flags == ISTHMUS_FLAG_PADDED && out.element_size == 1);
    out.release(out.owner);
    CHECK_OK(isthmus_release(tensor));
}

static void refused(void) {
    static const int64_t negative[2] = {2, -3}, huge[2] = {INT64_MAX, 8}, far[2] = {INT64_MAX, 1};
    int released = 0, expected = 0;
    isthmus_tensor* out = NULL;
#define REFUSED(change, status, words)                              \
    do {                                                            \
        isthmus_blob blob = smallest();                             \
        blob.owner = &released;                                     \
        blob.release = count_release;                               \
        change;                                                     \
        CHECK_FAILS(isthmus_from_blob(&blob, &out), status, words); \
        CHECK(released == ++expected);                              \
    } while (0)
    REFUSED(blob.ptr = NULL, ISTHMUS_NULL_DATA, "NULL with 6 elements");
    REFUSED(blob.shape = NULL, ISTHMUS_BAD_LAYOUT, "'shape': NULL");
    REFUSED(blob.ndim = -1, ISTHMUS_BAD_LAYOUT, "'ndim': -1");
    REFUSED(blob.ndim = 1000, ISTHMUS_BAD_LAYOUT, "'ndim': 1000");
    REFUSED(blob.shape = negative, ISTHMUS_BAD_LAYOUT, "negative size");
    REFUSED(blob.shape = huge, ISTHMUS_OVERFLOW, "more bytes");
    REFUSED(blob.strides = far, ISTHMUS_OVERFLOW, "address space");
    REFUSED(blob.dtype_name[0] = '\0', ISTHMUS_BAD_DTYPE, "bits 0");
    REFUSED(strcpy(blob.dtype_name, "float31"), ISTHMUS_BAD_DTYPE, "'dtype_name': no dtype is called \"float31\"");
    REFUSED(blob.dtype = ((isthmus_dtype){2, 64, 1}), ISTHMUS_BAD_DTYPE,
            "'dtype': float64, but dtype_name is \"float32\"");
    /* A name without a NUL ends with its array, whatever lies behind. */
    REFUSED((memset(blob.dtype_name, 'x', ISTHMUS_NAME_SIZE), strcpy(blob.device_name, "cpu")), ISTHMUS_BAD_DTYPE,
            "no dtype is called \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"");
    REFUSED(blob.element_size = 8, ISTHMUS_BAD_DTYPE, "'element_size': 8 bytes; expected 4");
    REFUSED(blob.element_size = -4, ISTHMUS_BAD_DTYPE, "'element_size': -4");
    REFUSED(strcpy(blob.device_name, "gpu"), ISTHMUS_BAD_DEVICE, "'device_name': no device is called \"gpu\"");
    REFUSED((blob.device = (isthmus_device){2, 1}, strcpy(blob.device_name, "cuda:0")), ISTHMUS_BAD_DEVICE,
            "cuda:1, but device_name is \"cuda:0\"");
    REFUSED(blob.device = ((isthmus_device){99, 0}), ISTHMUS_BAD_DEVICE, "type 99");
    REFUSED(blob.flags = 2, ISTHMUS_BAD_ARGUMENT, "'flags': 2");
    REFUSED(blob.ptr = (char*)memory + 2, ISTHMUS_NEEDS_COPY, "not aligned");
    CHECK(out == NULL);

    isthmus_blob blob = smallest();
    blob.owner = &released;
    blob.release = count_release;
    CHECK_FAILS(isthmus_from_blob(&blob, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK(released == ++expected);
    CHECK_FAILS(isthmus_from_blob(NULL, &out), ISTHMUS_BAD_ARGUMENT, "'blob'");
    CHECK_FAILS(isthmus_to_blob(NULL, &blob), ISTHMUS_BAD_ARGUMENT, "'tensor'");
    CHECK_OK(isthmus_empty(NULL, 0, float32, &out));
    CHECK_FAILS(isthmus_to_blob(out, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK_OK(isthmus_release(out));
}

static int deleted = 0;
static void delete_managed(DLManagedTensorVersioned* self) {
    (void)self;
    ++deleted;
}

/* A pointer cannot say "8 bytes into this handle". */
static void offset_from_a_handle(void) {
    int64_t sizes[1] = {4};
    isthmus_tensor* tensor = NULL;
    isthmus_tensor_info info;
    isthmus_blob out;
    DLManagedTensorVersioned managed = {.version = {1, 3}, .deleter = delete_managed};
    managed.dl_tensor = (DLTensor){.data = memory,
                                   .device = {kDLMetal, 0},
                                   .ndim = 1,
                                   .dtype = {kDLFloat, 32, 1},
                                   .shape = sizes,
                                   .byte_offset = 8};
    CHECK_OK(isthmus_from_dlpack(&managed, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.data == memory && info.byte_offset == 8);
    CHECK_FAILS(isthmus_to_blob(tensor, &out), ISTHMUS_BAD_DEVICE, "8 bytes into a handle of metal:0");
    CHECK_OK(isthmus_release(tensor));
    CHECK(deleted == 1);
}

int main(void) {
    defaults();
    there_and_back();
    padded();
    refused();
    offset_from_a_handle();
    return check_report();
}
