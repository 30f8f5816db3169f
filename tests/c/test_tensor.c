/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "check.h"

static float memory[6] = {0, 1, 2, 3, 4, 5};
static const int64_t shape[2] = {2, 3};

static void empty_memory(void) {
    isthmus_tensor* tensor = NULL;
    isthmus_tensor_info info;
    CHECK_OK(isthmus_empty(shape, 2, float32, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK((uintptr_t)info.data % 64 == 0);
    CHECK(info.ndim == 2 && info.shape[0] == 2 && info.shape[1] == 3 && info.strides[0] == 3 && info.strides[1] == 1);
    CHECK(info.numel == 6 && info.nbytes == 24 && info.itemsize == 4 && info.byte_offset == 0);
    CHECK(info.dtype.code == 2 && info.dtype.bits == 32 && info.dtype.lanes == 1);
    CHECK(info.device.type == 1 && info.device.id == 0);
    CHECK(info.flags == 0 && info.is_contiguous == 1 && info.reserved == 0);
    memset(info.data, 1, 24);
    CHECK_OK(isthmus_release(tensor));

    CHECK_OK(isthmus_empty(NULL, 0, float32, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.ndim == 0 && info.numel == 1);
    CHECK_OK(isthmus_release(tensor));

    const int64_t negative[1] = {-1}, huge[2] = {INT64_MAX, 2};
    isthmus_tensor* untouched = NULL;
    CHECK_FAILS(isthmus_empty(negative, 1, float32, &untouched), ISTHMUS_BAD_LAYOUT, "(-1,) has a negative size");
    CHECK_FAILS(isthmus_empty(huge, 2, float32, &untouched), ISTHMUS_OVERFLOW, "more bytes");
    CHECK_FAILS(isthmus_empty(shape, -1, float32, &untouched), ISTHMUS_BAD_LAYOUT, "'ndim': -1");
    CHECK_FAILS(isthmus_empty(shape, 65, float32, &untouched), ISTHMUS_BAD_LAYOUT, "'ndim': 65");
    CHECK_FAILS(isthmus_empty(NULL, 2, float32, &untouched), ISTHMUS_BAD_LAYOUT, "'shape': NULL; expected 2 sizes");
    CHECK_FAILS(isthmus_empty(shape, 2, (isthmus_dtype){99, 8, 1}, &untouched), ISTHMUS_BAD_DTYPE, "'dtype'");
    CHECK_FAILS(isthmus_empty(shape, 2, float32, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK(untouched == NULL);
}

static void wrapped_memory(void) {
    int released = 0;
    isthmus_tensor* tensor = NULL;
    isthmus_tensor_info info;
    const int64_t turned[2] = {1, 2};
    CHECK_OK(isthmus_wrap(memory, shape, turned, 2, float32, cpu, ISTHMUS_FLAG_READ_ONLY, count_release, &released,
                          &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.data == memory);
    CHECK(info.strides[0] == 1 && info.strides[1] == 2 && info.is_contiguous == 0);
    CHECK(info.flags == ISTHMUS_FLAG_READ_ONLY);
    CHECK(info.shape != shape); /* the caller's arrays are not kept */

    CHECK_OK(isthmus_retain(tensor));
    CHECK_OK(isthmus_release(tensor));
    CHECK(released == 0);
    CHECK_OK(isthmus_release(tensor));
    CHECK(released == 1);

    CHECK_OK(isthmus_wrap(memory, shape, NULL, 2, float4, cpu, ISTHMUS_FLAG_PADDED, NULL, NULL, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.flags == ISTHMUS_FLAG_PADDED && info.nbytes == 6 && info.itemsize == 1);
    CHECK_OK(isthmus_release(tensor));

    CHECK_OK(isthmus_wrap(memory, shape, NULL, 2, float32, (isthmus_device){2, 1}, 0, NULL, NULL, &tensor));
    CHECK_OK(isthmus_describe(tensor, &info));
    CHECK(info.device.type == 2 && info.device.id == 1);
    CHECK_OK(isthmus_release(tensor));
}

/* The owner is the library's from the call on: a refused one has been released when the call returns. */
static void refused_memory(void) {
    static const int64_t negative[2] = {2, -3}, huge[2] = {INT64_MAX, 8}, far[2] = {INT64_MAX, 1};
    const isthmus_dtype bad_dtype = {2, 31, 1};
    const isthmus_device bad_device = {6, 0};
    int released = 0, expected = 0;
    isthmus_tensor* out = NULL;
#define REFUSED(data, sizes, steps, ndim, dtype, device, flags, status, words)                                        \
    CHECK_FAILS(isthmus_wrap(data, sizes, steps, ndim, dtype, device, flags, count_release, &released, &out), status, \
                words);                                                                                               \
    CHECK(released == ++expected)
    REFUSED(NULL, shape, NULL, 2, float32, cpu, 0, ISTHMUS_NULL_DATA, "NULL with 6 elements");
    REFUSED(memory, NULL, NULL, 2, float32, cpu, 0, ISTHMUS_BAD_LAYOUT, "'shape': NULL");
    REFUSED(memory, shape, NULL, -1, float32, cpu, 0, ISTHMUS_BAD_LAYOUT, "'ndim': -1");
    REFUSED(memory, shape, NULL, 65, float32, cpu, 0, ISTHMUS_BAD_LAYOUT, "'ndim': 65; expected 0 to 64");
    REFUSED(memory, negative, NULL, 2, float32, cpu, 0, ISTHMUS_BAD_LAYOUT, "negative size in dimension 1");
    REFUSED(memory, huge, NULL, 2, float32, cpu, 0, ISTHMUS_OVERFLOW, "more bytes");
    REFUSED(memory, shape, far, 2, float32, cpu, 0, ISTHMUS_OVERFLOW, "leave the address space");
    REFUSED(memory, shape, NULL, 2, bad_dtype, cpu, 0, ISTHMUS_BAD_DTYPE, "bits 31");
    REFUSED(memory, shape, NULL, 2, float32, bad_device, 0, ISTHMUS_BAD_DEVICE, "type 6");
    REFUSED(memory, shape, NULL, 2, float32, cpu, 2, ISTHMUS_BAD_ARGUMENT, "'flags': 2");
    REFUSED(memory, shape, NULL, 2, float32, cpu, 0x80000000u, ISTHMUS_BAD_ARGUMENT, "'flags'");
    REFUSED((char*)memory + 1, shape, NULL, 2, float32, cpu, 0, ISTHMUS_NEEDS_COPY, "not aligned");
    CHECK(out == NULL);
    CHECK_FAILS(isthmus_wrap(memory, shape, NULL, 2, float32, cpu, 0, count_release, &released, NULL),
                ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK(released == ++expected);
    CHECK_FAILS(isthmus_wrap(NULL, shape, NULL, 2, float32, cpu, 0, NULL, NULL, &out), ISTHMUS_NULL_DATA, "NULL");
}

static void read_only_twin(void) {
    int released = 0;
    isthmus_tensor *tensor = NULL, *twin = NULL;
    isthmus_tensor_info info;
    CHECK_OK(isthmus_wrap(memory, shape, NULL, 2, float32, cpu, 0, count_release, &released, &tensor));
    CHECK_OK(isthmus_as_read_only(tensor, &twin));
    CHECK_OK(isthmus_release(tensor));
    CHECK(released == 0);
    CHECK_OK(isthmus_describe(twin, &info));
    CHECK(info.flags == ISTHMUS_FLAG_READ_ONLY && info.data == memory);
    isthmus_tensor* same = NULL;
    CHECK_OK(isthmus_as_read_only(twin, &same)); /* a reference of its own, also when it is the same tensor */
    CHECK_OK(isthmus_release(same));
    CHECK(released == 0);
    CHECK_OK(isthmus_release(twin));
    CHECK(released == 1);
}

static void null_arguments(void) {
    isthmus_tensor_info info;
    isthmus_tensor* out = NULL;
    CHECK_FAILS(isthmus_describe(NULL, &info), ISTHMUS_BAD_ARGUMENT, "argument 'tensor': NULL");
    CHECK_FAILS(isthmus_retain(NULL), ISTHMUS_BAD_ARGUMENT, "'tensor'");
    CHECK_FAILS(isthmus_release(NULL), ISTHMUS_BAD_ARGUMENT, "'tensor'");
    CHECK_FAILS(isthmus_as_read_only(NULL, &out), ISTHMUS_BAD_ARGUMENT, "'tensor'");
    CHECK_OK(isthmus_empty(NULL, 0, float32, &out));
    CHECK_FAILS(isthmus_describe(out, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK_FAILS(isthmus_as_read_only(out, NULL), ISTHMUS_BAD_ARGUMENT, "'out'");
    CHECK_OK(isthmus_release(out));
}

int main(void) {
    empty_memory();
    wrapped_memory();
    refused_memory();
    read_only_twin();
    null_arguments();
    return check_report();
}
