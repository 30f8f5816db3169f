// Preloaded: torch's current CUDA stream is the one that a test names (c10/cuda/CUDAStream.h).
// SPDX-License-Identifier: Apache-2.0
#include <stddef.h>
#include <string.h>

struct CudaStream {  // c10::cuda::CUDAStream: a c10::Stream, which is a c10::Device and a number
    signed char device_type, device_index;
    long long id;
};

static void* current = NULL;
static int asked = 0;

void standin_set_torch_stream(void* stream) { current = stream; }
int standin_asked_for_torch_stream(void) { return asked; }

// c10::cuda::getCurrentCUDAStream(c10::DeviceIndex)
struct CudaStream _ZN3c104cuda20getCurrentCUDAStreamEa(signed char index) {
    const struct CudaStream stream = {1, index < 0 ? 0 : index, 0};
    asked += 1;
    return stream;
}
// c10::cuda::CUDAStream::stream() const
void* _ZNK3c104cuda10CUDAStream6streamEv(const struct CudaStream* stream) {
    (void)stream;
    return current;
}
// What torch asks of c10 and of the CUDA runtime when it sets itself up and takes memory that is not its own: there is
// one device, and every address is on it.
signed char _ZN3c104cuda12device_countEv(void) { return 1; }
signed char _ZN3c104cuda28device_count_ensure_non_zeroEv(void) { return 1; }
int cudaGetDeviceCount(int* count) { return *count = 1, 0; }
int cudaGetDevice(int* device) { return *device = 0, 0; }
int cudaSetDevice(int device) { return device == 0 ? 0 : 101; }
int cudaGetDeviceProperties(void* properties, int device) { return memset(properties, 0, 512), device == 0 ? 0 : 101; }
int cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -1, 0; }
struct PointerAttributes {  // cudaPointerAttributes
    int type, device;
    void *of_device, *of_host;
};
int cudaPointerGetAttributes(struct PointerAttributes* out, const void* address) {
    *out = (struct PointerAttributes){2, 0, (void*)address, NULL};  // cudaMemoryTypeDevice
    return 0;
}
