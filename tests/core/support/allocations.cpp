// SPDX-License-Identifier: Apache-2.0
#include "support/allocations.h"

#include <cerrno>
#include <cstdlib>

#include "support/sanitizers.h"

#if ISTHMUS_TEST_ASAN || ISTHMUS_TEST_TSAN
#define ISTHMUS_TEST_SANITIZER 1
// Declared here because GCC does not install the header that does.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*)(const volatile void*, std::size_t),
                                                         void (*)(const volatile void*));
#endif

namespace isthmus_test {
namespace {
thread_local std::size_t allocations = 0;
#if !defined(ISTHMUS_TEST_SANITIZER) && defined(__GLIBC__)
thread_local bool fail_next = false;
#endif
}  // namespace

std::size_t Allocations::total() noexcept { return allocations; }

#if defined(ISTHMUS_TEST_SANITIZER)

// The sanitizer has taken malloc for itself, and offers a hook in exchange.
bool counts_allocations() noexcept { return true; }
bool fail_next_allocation() noexcept { return false; }
namespace {
const int hooked = __sanitizer_install_malloc_and_free_hooks([](const volatile void*, std::size_t) { ++allocations; },
                                                             [](const volatile void*) {});
}  // namespace
}  // namespace isthmus_test

#elif !defined(__GLIBC__)

bool counts_allocations() noexcept { return false; }
bool fail_next_allocation() noexcept { return false; }
}  // namespace isthmus_test

#else

bool counts_allocations() noexcept { return true; }
bool fail_next_allocation() noexcept { return fail_next = true; }
namespace {
bool refuse() noexcept {
    ++allocations;
    if (!fail_next) return false;
    fail_next = false;
    errno = ENOMEM;
    return true;
}
}  // namespace
}  // namespace isthmus_test

// glibc's own names behind the public ones; operator new ends here too.
extern "C" {
void* __libc_malloc(std::size_t) noexcept;
void* __libc_calloc(std::size_t, std::size_t) noexcept;
void* __libc_realloc(void*, std::size_t) noexcept;
void* __libc_memalign(std::size_t, std::size_t) noexcept;

void* malloc(std::size_t size) noexcept { return isthmus_test::refuse() ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) noexcept {
    return isthmus_test::refuse() ? nullptr : __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) noexcept {
    return isthmus_test::refuse() ? nullptr : __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) noexcept {
    return isthmus_test::refuse() ? nullptr : __libc_memalign(alignment, size);
}
}

#endif
