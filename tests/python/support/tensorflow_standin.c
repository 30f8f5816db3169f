// A stand-in for TensorFlow's eager C functions, whose answers tests set; a handle is the object itself.
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <stdlib.h>

int PyGILState_Check(void);

const char* answer_device = "/job:localhost/replica:0/task:0/device:CPU:0";
void* answer_pointer;
int answer_type = 1, answer_ndim = 1, answer_exact = 1;
int64_t answer_dims[64];
int is_null_handle;
int calls, calls_with_gil, statuses_made, statuses_deleted;

static void note_call(void) {
    ++calls;
    calls_with_gil += PyGILState_Check();
}

_Bool _Z22EagerTensor_CheckExactPK7_object(const void* object) {
    (void)object;
    return answer_exact != 0;
}
void* _Z18EagerTensor_HandlePK7_object(const void* object) { return is_null_handle ? NULL : (void*)object; }
void* TF_NewStatus(void) {
    ++statuses_made;
    return malloc(8);
}
void TF_DeleteStatus(void* status) {
    ++statuses_deleted;
    free(status);
}
const char* TFE_TensorHandleBackingDeviceName(void* handle, void* status) {
    (void)handle, (void)status;
    return answer_device;
}
int TFE_TensorHandleDataType(void* handle) {
    (void)handle;
    return answer_type;
}
int TFE_TensorHandleNumDims(void* handle, void* status) {
    (void)handle, (void)status;
    note_call();
    return answer_ndim;
}
int64_t TFE_TensorHandleDim(void* handle, int i, void* status) {
    (void)handle, (void)status;
    note_call();
    return answer_dims[i];
}
void* TFE_TensorHandleDevicePointer(void* handle, void* status) {
    (void)handle, (void)status;
    note_call();
    return answer_pointer;
}
