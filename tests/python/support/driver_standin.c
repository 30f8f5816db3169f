// A stand-in for a GPU's driver (CUDA's; -DHIP: ROCm's) on the host's memory, with a log of the calls.
// SPDX-License-Identifier: Apache-2.0
#include "driver_standin.h"

// ---- devices and contexts

int API(cuInit, hipInit)(unsigned flags) { return flags == 0 ? success : invalid_value; }
int API(cuDeviceGetCount, hipGetDeviceCount)(int* count) { return *count = devices, success; }
#if defined(HIP)
int hipGetDevice(int* device) { return *device = current(), success; }
int hipSetDevice(int device) {
    if (device < 0 || device >= devices) return 101;
    set_current(device);
    return success;
}
#else
int cuDeviceGet(int* device, int ordinal) {
    *device = ordinal;
    return ordinal >= 0 && ordinal < devices ? success : 101;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
    if (device < 0 || device >= devices) return 101;
    *context = &contexts[device];
    return success;
}
int cuDevicePrimaryCtxRelease_v2(int device) { return device >= 0 && device < devices ? success : 101; }
int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
    *flags = 0;
    *active = 1;
    return device >= 0 && device < devices ? success : 101;
}
int cuCtxGetCurrent(void** context) { return *context = current() < 0 ? NULL : &contexts[current()], success; }
int cuCtxGetDevice(int* device) {
    *device = current();
    return current() < 0 ? no_context : success;
}
int cuCtxSetCurrent(void* context) {
    return set_current(context == NULL ? -1 : (int)((int*)context - contexts)), success;
}
int cuCtxPushCurrent_v2(void* context) {
    if (context == NULL || depth == 16) return invalid_value;
    stack[depth++] = (int)((int*)context - contexts);
    return success;
}
int cuCtxPopCurrent_v2(void** context) {
    if (depth == 0 || current() < 0) return no_context;
    if (context != NULL) *context = &contexts[current()];
    depth -= 1;
    return success;
}
int cuStreamGetCtx(void* handle, void** context) {
    Stream* stream = find_stream(handle);
    if (stream == NULL) return invalid_handle;
    *context = &contexts[device_of(stream)];
    return success;
}
#endif

// ---- memory

static int allocate(void** out, size_t size, int type) {
    if (current() < 0) return no_context;
    enter();
    const int status = unsafe();
    for (int i = 0; i < most && status == success; ++i)
        if (memories[i].start == NULL) {
            memories[i] = (Memory){calloc(1, size), size, current(), type};
            return *out = memories[i].start, end(success, "MemAlloc", *out, NULL);
        }
    return end(status, "MemAlloc", NULL, NULL);
}
static int give_back(void* start) {
    enter();
    for (int i = 0; i < most; ++i)
        if (start != NULL && memories[i].start == start) {
            free(start);
            memories[i].start = NULL;
            return leave(success);
        }
    return leave(invalid_value);
}
int API(cuMemAlloc_v2, hipMalloc)(void** out, size_t size) { return allocate(out, size, 2); }
int API(cuMemAllocManaged, hipMallocManaged)(void** out, size_t size, unsigned flags) {
    return (void)flags, allocate(out, size, 2);
}
int API(cuMemHostAlloc, hipHostMalloc)(void** out, size_t size, unsigned flags) {
    return (void)flags, allocate(out, size, 1);
}
int API(cuMemFree_v2, hipFree)(void* start) { return give_back(start); }
int API(cuMemFreeHost, hipHostFree)(void* start) { return give_back(start); }

int API(cuPointerGetAttribute, hipPointerGetAttribute)(void* out, int attribute, void* address) {
    for (int i = 0; i < most; ++i) {
        const Memory* m = &memories[i];
        if (m->start == NULL || (char*)address < m->start || (char*)address >= m->start + m->size) continue;
        if (attribute == 1) return *(void**)out = &contexts[m->device], success;
        if (attribute == 2) return *(unsigned*)out = (unsigned)m->type, success;
        if (attribute == 9) return *(int*)out = m->device, success;
        break;
    }
    return invalid_value;
}

// ---- streams

int API(cuStreamCreate, hipStreamCreateWithFlags)(void** out, unsigned flags) {
    if (current() < 0) return no_context;
    enter();
    for (int i = 0; i < most; ++i)
        if (!streams[i].used) {
            streams[i] = (Stream){1, current(), flags != 1, 0, NULL, 0};
            return *out = &streams[i], end(success, "StreamCreate", *out, NULL);
        }
    return leave(invalid_value);
}
int API(cuStreamDestroy_v2, hipStreamDestroy)(void* handle) {
    enter();
    Stream* stream = find_stream(handle);
    if (stream != NULL) stream->used = 0;
    return end(stream != NULL ? success : invalid_handle, "StreamDestroy", handle, NULL);
}
int API(cuStreamQuery, hipStreamQuery)(void* handle) {
    enter();
    Stream* stream = find_stream(handle);
    int status = stream == NULL ? invalid_handle : unsafe();
    if (status == success && stream->capture != NULL) status = invalidate(stream->capture, capture_unsupported);
    if (status == success) status = join_legacy(stream);
    if (status == success && (stream->behind & unfinished) != 0) status = not_ready;
    return end(status, "StreamQuery", handle, NULL);
}
int API(cuStreamSynchronize, hipStreamSynchronize)(void* handle) {
    enter();
    Stream* stream = find_stream(handle);
    int status = stream == NULL ? invalid_handle : unsafe();
    if (status == success && stream->capture != NULL) status = invalidate(stream->capture, capture_unsupported);
    if (status == success) status = join_legacy(stream);
    if (status == success) unfinished &= ~stream->behind;
    return end(status, "StreamSynchronize", handle, NULL);
}
int API(cuCtxSynchronize, hipDeviceSynchronize)(void) {
    enter();
    const int status = unsafe();
    if (status == success) unfinished = 0;
    return end(status, "Synchronize", NULL, NULL);
}

// ---- events

int API(cuEventCreate, hipEventCreateWithFlags)(void** out, unsigned flags) {
    enter();
    if (current() < 0) return end(no_context, "EventCreate", NULL, NULL);
    if (fails("EventCreate")) return end(invalid_value, "EventCreate", NULL, NULL);
    for (int i = 0; i < most; ++i)
        if (!events[i].used) {
            events[i] = (Event){1, current(), 0, NULL, NULL};
            return *out = &events[i], end(success, "EventCreate", *out, (void*)(uintptr_t)flags);
        }
    return leave(invalid_value);
}
int API(cuEventDestroy_v2, hipEventDestroy)(void* handle) {
    enter();
    Event* event = find_event(handle);
    if (event != NULL) event->used = 0;
    return end(event != NULL ? success : invalid_handle, "EventDestroy", handle, NULL);
}
int API(cuEventRecord, hipEventRecord)(void* handle, void* to) {
    enter();
    Event* event = find_event(handle);
    Stream* stream = find_stream(to);
    int status = event == NULL || stream == NULL || event->device != device_of(stream) ? invalid_handle : success;
    if (status == success && fails("EventRecord")) status = invalid_value;
    if (status == success) status = join_legacy(stream);
    if (status == success) {
        event->behind = stream->behind;
        event->capture = stream->capture;
        event->stream = stream;
    }
    return end(status, "EventRecord", handle, to);
}
int API(cuStreamWaitEvent, hipStreamWaitEvent)(void* to, void* handle, unsigned flags) {
    (void)flags;
    enter();
    Event* event = find_event(handle);
    Stream* stream = find_stream(to);
    int status = event == NULL || stream == NULL ? invalid_handle : success;
    if (status == success && fails("StreamWaitEvent")) status = invalid_value;
    return end(status == success ? wait(stream, event) : status, "StreamWaitEvent", to, handle);
}
static int host_wait(void* handle, const char* name, int finish) {
    enter();
    Event* event = find_event(handle);
    int status = event == NULL ? invalid_handle : unsafe();
    if (status == success && event->capture != NULL) status = invalidate(event->capture, captured_event);
    if (status == success && finish) unfinished &= ~event->behind;
    if (status == success && (event->behind & unfinished) != 0) status = not_ready;
    return end(status, name, handle, NULL);
}
int API(cuEventSynchronize, hipEventSynchronize)(void* handle) { return host_wait(handle, "EventSynchronize", 1); }
int API(cuEventQuery, hipEventQuery)(void* handle) { return host_wait(handle, "EventQuery", 0); }

// ---- captures

int API(cuStreamBeginCapture_v2, hipStreamBeginCapture)(void* handle, int mode) {
    enter();
    Stream* stream = find_stream(handle);
    if (stream == NULL || is_legacy(stream) || stream->capture != NULL)
        return end(capture_unsupported, "StreamBeginCapture", handle, NULL);
    Capture* capture = captures;
    while (capture->alive || capture->invalid) ++capture;
    *capture = (Capture){1, 0, mode, pthread_self(), stream};
    stream->capture = capture;
    return end(success, "StreamBeginCapture", handle, NULL);
}
int API(cuStreamEndCapture, hipStreamEndCapture)(void* handle, void** graph) {
    enter();
    Stream* stream = find_stream(handle);
    Capture* capture = stream != NULL ? stream->capture : NULL;
    if (capture == NULL || capture->origin != stream) return end(capture_unmatched, "StreamEndCapture", handle, NULL);
    int status = capture->invalid ? capture_invalidated : success;
    for (int i = 0; i < most; ++i)
        if (streams[i].used && streams[i].capture == capture) {
            if (streams[i].forked && status == success) status = capture_unjoined;
            streams[i].capture = NULL;
            streams[i].forked = 0;
        }
    capture->alive = 0;
    capture->invalid = 1;  // the entry is not used again: old events still point to it
    *graph = NULL;
    return end(status, "StreamEndCapture", handle, NULL);
}
int API(cuStreamIsCapturing, hipStreamIsCapturing)(void* handle, int* status) {
    enter();
    return leave(capture_of(handle, status, NULL));
}
int API(cuStreamGetCaptureInfo, hipStreamGetCaptureInfo)(void* handle, int* status, unsigned long long* id) {
    enter();
    return leave(capture_of(handle, status, id));
}
int API(cuStreamGetCaptureInfo_v2, hipStreamGetCaptureInfo_v2)(void* handle, int* status, unsigned long long* id,
                                                               void** graph, const void*** nodes, size_t* count) {
    if (graph != NULL) *graph = NULL;
    if (nodes != NULL) *nodes = NULL;
    if (count != NULL) *count = 0;
    enter();
    return leave(capture_of(handle, status, id));
}
int API(cuThreadExchangeStreamCaptureMode, hipThreadExchangeStreamCaptureMode)(int* mode) {
    const int before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return success;
}

// ---- for the tests alone

/// Puts work on a stream that lasts until standin_finish(); its number, or -1.
int standin_start(void* handle) {
    enter();
    Stream* stream = find_stream(handle);
    if (stream == NULL || join_legacy(stream) != success || made_work == 64) return leave(-1);
    const uint64_t bit = (uint64_t)1 << made_work;
    stream->behind |= bit;
    unfinished |= bit;
    return leave(made_work++);
}
void standin_finish(int work) { unfinished &= ~((uint64_t)1 << work); }
/// The calls since the last clear, a line each: name, arguments, status.
const char* standin_log(void) { return text[length] = '\0', text; }
void standin_clear(void) { text[length = 0] = '\0', fault_count = 0; }
int standin_faults(void) { return fault_count; }
int standin_living_events(void) {
    int count = 0;
    for (int i = 0; i < most; ++i) count += events[i].used;
    return count;
}
/// The next call of this name fails.
void standin_fail(const char* name) { snprintf(failing, sizeof failing, "%s", name); }
