/* Preloaded into a process of its own: counts the allocations of the thread that switched it on. */
#define _GNU_SOURCE
#include <stddef.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static __thread long counting, counted, bytes;

long allocations_begin(void) {
    counted = bytes = 0;
    counting = 1;
    return 0;
}
long allocations_end(void) {
    counting = 0;
    return counted;
}
long allocated_bytes(void) { return bytes; }

static void note(size_t size) {
    if (!counting) return;
    counted += 1;
    bytes += (long)size;
}

void* malloc(size_t size) {
    note(size);
    return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
    note(count * size);
    return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
    note(size);
    return __libc_realloc(old, size);
}
void* memalign(size_t alignment, size_t size) {
    note(size);
    return __libc_memalign(alignment, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
    note(size);
    return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
    note(size);
    *out = __libc_memalign(alignment, size);
    return *out == NULL ? 12 : 0;
}
