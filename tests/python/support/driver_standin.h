// What the stand-in for a GPU's driver knows of streams, events and captures, and the driver's rules for them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(HIP)
#define API(cuda, hip) hip
#else
#define API(cuda, hip) cuda
#endif

// Of CUresult and hipError_t, which agree on these (cuda.h, hip_runtime_api.h).
enum {
    success = 0,
    invalid_value = 1,
    no_context = 201,
    invalid_handle = 400,
    not_ready = 600,
    capture_unsupported = 900,
    capture_invalidated = 901,
    capture_merge = 902,
    capture_unmatched = 903,
    capture_unjoined = 904,
    capture_isolation = 905,
    capture_implicit = 906,
    captured_event = 907,
};
enum { mode_global, mode_thread_local, mode_relaxed };
enum { most = 256, devices = 2 };

typedef struct Capture {
    int alive, invalid, mode;
    pthread_t thread;
    void* origin;
} Capture;

// What a stream is behind of, and an event was recorded behind of: one bit for each piece of unfinished work.
typedef struct Stream {
    int used, device, blocking;
    uint64_t behind;
    Capture* capture;
    int forked;  // joined a capture that began elsewhere, and nobody has waited for it since
} Stream;
typedef struct Event {
    int used, device;
    uint64_t behind;
    Capture* capture;
    Stream* stream;
} Event;
typedef struct Memory {
    char* start;
    size_t size;
    int device, type;  // CU_MEMORYTYPE_HOST 1, _DEVICE 2
} Memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Stream streams[most], legacy[devices], per_thread[devices];
static Event events[most];
static Memory memories[most];
static Capture captures[most];
static int contexts[devices];  // a context is the address of its entry
static uint64_t unfinished;
static int made_work;
static char text[1 << 16];
static size_t length;
static int fault_count;
static char failing[64];

static __thread int stack[16], depth;  // current devices of this thread
static __thread int thread_mode = mode_global;
static __thread int locked;

static void enter(void) {
    if (locked++ == 0) pthread_mutex_lock(&lock);
}
static int leave(int status) {
    if (--locked == 0) pthread_mutex_unlock(&lock);
    return status;
}

static void note(const char* form, ...) {
    va_list list;
    va_start(list, form);
    if (length < sizeof text - 200) length += (size_t)vsnprintf(text + length, 200, form, list);
    va_end(list);
}

// Ends a driver call: one line of the log. A failure is a fault unless the caller may ask by it.
static int end(int status, const char* name, const void* first, const void* second) {
    if (status != success && status != not_ready) fault_count += 1;
    note("%s %p %p = %d\n", name, first, second, status);
    return leave(status);
}
static int fails(const char* name) {
    if (strcmp(failing, name) != 0) return 0;
    failing[0] = '\0';
    return 1;
}

static int current(void) { return depth > 0 ? stack[depth - 1] : API(-1, 0); }
static void set_current(int device) {
    if (depth == 0) depth = 1;
    stack[depth - 1] = device;
}

static Stream* find_stream(void* handle) {
    const uintptr_t number = (uintptr_t)handle;
    if (number <= 2) {
        if (current() < 0) return NULL;
        return number == 2 ? &per_thread[current()] : &legacy[current()];
    }
    Stream* stream = handle;
    return stream >= streams && stream < streams + most && stream->used ? stream : NULL;
}
static Event* find_event(void* handle) {
    Event* event = handle;
    return event >= events && event < events + most && event->used ? event : NULL;
}
static int is_legacy(const Stream* stream) { return stream >= legacy && stream < legacy + devices; }
static int device_of(const Stream* stream) {
    if (is_legacy(stream)) return (int)(stream - legacy);
    return stream >= per_thread && stream < per_thread + devices ? (int)(stream - per_thread) : stream->device;
}

static int invalidate(Capture* capture, int status) {
    if (capture != NULL) capture->invalid = 1;
    return status;
}
// The legacy stream waits for the blocking streams of its device, and they for it: none of them may be capturing.
static int join_legacy(Stream* stream) {
    const int device = device_of(stream);
    if (!is_legacy(stream)) {
        if (stream->blocking && stream->capture == NULL) stream->behind |= legacy[device].behind;
        return success;
    }
    int status = success;
    for (int i = 0; i < most; ++i) {
        Stream* other = &streams[i];
        if (!other->used || !other->blocking || other->device != device) continue;
        if (other->capture != NULL)
            status = invalidate(other->capture, capture_implicit);
        else
            stream->behind |= other->behind;
    }
    return status;
}
static int legacy_is_barred(int device) {
    for (int i = 0; i < most; ++i)
        if (streams[i].used && streams[i].blocking && streams[i].device == device && streams[i].capture != NULL)
            return 1;
    return 0;
}
// A call that waits on the host, or asks what the host must not know while work is only written down.
static int unsafe(void) {
    if (thread_mode == mode_relaxed) return success;
    int status = success;
    for (int i = 0; i < most; ++i) {
        Capture* c = &captures[i];
        if (!c->alive || c->mode == mode_relaxed) continue;
        const int here = pthread_equal(c->thread, pthread_self());
        if (here || (thread_mode == mode_global && c->mode == mode_global)) status = invalidate(c, capture_unsupported);
    }
    return status;
}
static int wait(Stream* stream, Event* event) {
    int status = join_legacy(stream);
    if (status != success) return status;
    if (event->capture == NULL) {
        if (stream->capture != NULL) return invalidate(stream->capture, capture_isolation);
        stream->behind |= event->behind;
        return success;
    }
    if (event->stream->forked) event->stream->forked = 0;
    if (stream->capture == event->capture) return success;
    if (stream->capture != NULL) {
        invalidate(stream->capture, 0);
        return invalidate(event->capture, capture_merge);
    }
    if (is_legacy(stream)) return invalidate(event->capture, capture_implicit);
    stream->capture = event->capture;
    stream->forked = 1;
    return success;
}
// Asking is safe, also of the legacy stream while it is barred: the answer is then an error that invalidates nothing.
static int capture_of(void* handle, int* status, unsigned long long* id) {
    Stream* stream = find_stream(handle);
    if (stream == NULL) return invalid_handle;
    if (is_legacy(stream) && legacy_is_barred(device_of(stream))) return capture_implicit;
    *status = stream->capture == NULL ? 0 : stream->capture->invalid ? 2 : 1;
    if (id != NULL) *id = stream->capture == NULL ? 0 : (unsigned long long)(stream->capture - captures) + 1;
    return success;
}
