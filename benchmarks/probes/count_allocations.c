// SPDX-License-Identifier: Apache-2.0
// Preloaded into a Python that takes all its memory from malloc (PYTHONMALLOC=malloc): counts every allocation, of
// Python objects too.
#include <errno.h>
#include <stddef.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void* __libc_memalign(size_t, size_t);

static long count;

long isthmus_bench_allocations(void) { return __atomic_load_n(&count, __ATOMIC_RELAXED); }

static void one(void) { __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED); }

void* malloc(size_t size) {
    one();
    return __libc_malloc(size);
}
void* calloc(size_t n, size_t size) {
    one();
    return __libc_calloc(n, size);
}
void* realloc(void* p, size_t size) {
    one();
    return __libc_realloc(p, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
    one();
    return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
    one();
    *out = __libc_memalign(alignment, size);
    return *out == NULL ? ENOMEM : 0;
}
