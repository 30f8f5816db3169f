// Preloaded into a process of its own: an allocator whose n-th allocation fails, once or from then on.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <new>

extern "C" {
// glibc's own names behind the public ones.
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);
// AddressSanitizer's, where it is loaded as well: its allocator is the one that is then made to fail.
__attribute__((weak)) void* __interceptor_malloc(std::size_t);
__attribute__((weak)) void* __interceptor_calloc(std::size_t, std::size_t);
__attribute__((weak)) void* __interceptor_realloc(void*, std::size_t);
__attribute__((weak)) void* __interceptor_memalign(std::size_t, std::size_t);
__attribute__((weak)) void __interceptor_free(void*);
}

namespace {

constexpr int most_frames = 48;

struct Failing {
    long until;  ///< allocations before the one that fails; -1 while none is to fail
    bool lasting;
    bool armed;
    long seen;
    int frames;
    void* frame[most_frames];
};
// No allocation may be needed to reach it.
__attribute__((tls_model("initial-exec"))) thread_local Failing failing{-1, false, false, 0, 0, {}};
std::atomic<long> live{0};

bool refuse() {
    Failing& f = failing;
    if (!f.armed) return false;
    const long place = f.seen++;
    if (f.until < 0 || place < f.until || (place > f.until && !f.lasting)) return false;
    if (place == f.until) {
        f.armed = false;  // backtrace() may allocate
        f.frames = backtrace(f.frame, most_frames);
        f.armed = true;
    }
    errno = ENOMEM;
    return true;
}
void* counted(void* memory) {
    if (memory != nullptr) live.fetch_add(1, std::memory_order_relaxed);
    return memory;
}
void* aligned(std::size_t alignment, std::size_t size) {
    if (refuse()) return nullptr;
    return counted(__interceptor_memalign != nullptr ? __interceptor_memalign(alignment, size)
                                                     : __libc_memalign(alignment, size));
}

/// The functions of a stack, innermost first, as far as symbols name them.
long describe(void* const* frame, int first, int frames, char* out, long size) {
    long used = 0;
    for (int i = first; i < frames; ++i) {
        Dl_info info{};
        const bool known = dladdr(frame[i], &info) != 0 && info.dli_fname != nullptr;
        const char* file = known ? info.dli_fname : "?";
        for (const char* c = file; *c != '\0'; ++c)
            if (*c == '/') file = c + 1;
        const int written =
            std::snprintf(out + used, static_cast<std::size_t>(size - used), "%s!%s+0x%lx\n", file,
                          info.dli_sname != nullptr ? info.dli_sname : "?",
                          static_cast<unsigned long>(static_cast<char*>(frame[i]) -
                                                     static_cast<char*>(known ? info.dli_fbase : nullptr)));
        if (written < 0 || used + written >= size) break;
        used += written;
    }
    return used;
}

int deaths_file = -1;
char deaths_text[32000];

void tell_of_death(int signal) {
    Failing& f = failing;
    f.armed = false;
    void* frame[most_frames];
    const int frames = backtrace(frame, most_frames);
    constexpr long size = sizeof deaths_text;
    long used = std::snprintf(deaths_text, size, "failed in:\n");
    used += describe(f.frame, 2, f.frames, deaths_text + used, size / 2);
    used += std::snprintf(deaths_text + used, static_cast<std::size_t>(size - used), "died in:\n");
    used += describe(frame, 2, frames, deaths_text + used, size - used);
    [[maybe_unused]] const auto written = write(deaths_file, deaths_text, static_cast<std::size_t>(used));
    raise(signal);  // by the default action now
}

}  // namespace

extern "C" {

void* malloc(std::size_t size) {
    if (refuse()) return nullptr;
    return counted(__interceptor_malloc != nullptr ? __interceptor_malloc(size) : __libc_malloc(size));
}
void* calloc(std::size_t count, std::size_t size) {
    if (refuse()) return nullptr;
    return counted(__interceptor_calloc != nullptr ? __interceptor_calloc(count, size) : __libc_calloc(count, size));
}
void* realloc(void* old, std::size_t size) {
    if (refuse()) return nullptr;
    void* grown = __interceptor_realloc != nullptr ? __interceptor_realloc(old, size) : __libc_realloc(old, size);
    return old == nullptr ? counted(grown) : grown;
}
void* memalign(std::size_t alignment, std::size_t size) { return aligned(alignment, size); }
void* aligned_alloc(std::size_t alignment, std::size_t size) { return aligned(alignment, size); }
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
    void* memory = aligned(alignment, size);
    if (memory == nullptr) return ENOMEM;
    *out = memory;
    return 0;
}
void free(void* memory) {
    if (memory == nullptr) return;
    live.fetch_sub(1, std::memory_order_relaxed);
    __interceptor_free != nullptr ? __interceptor_free(memory) : __libc_free(memory);
}

/// Calls `function(argument)`, in which the n-th allocation of this thread (from 0 on) fails, and all later ones if it
/// is lasting. A negative n lets none fail.
void* failing_call(void* (*function)(void*), void* argument, long n, int lasting) {
    if (failing.frames == 0) failing.frames = backtrace(failing.frame, 1);  // loads libgcc
    failing = Failing{n, lasting != 0, true, 0, 0, {}};
    void* result = function(argument);
    failing.armed = false;
    return result;
}
/// Of the last such call: how many allocations it made or tried.
long failing_seen() { return failing.seen; }
/// Blocks that are allocated in this process.
long failing_live() { return live.load(std::memory_order_relaxed); }
/// Where its first failure was: the functions, innermost first, as far as symbols name them.
long failing_place(char* out, long size) { return describe(failing.frame, 2, failing.frames, out, size); }
/// Has the process write to this file where its last failure was, and where it is, when it dies of a signal.
void failing_tell_of_death(int file) {
    deaths_file = file;
    struct sigaction action{};
    action.sa_handler = tell_of_death;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM, SIGPROF})
        sigaction(signal, &action, nullptr);
}
}

// AddressSanitizer's operator new does not come through malloc.
static void* fresh(std::size_t size) {
    void* memory = malloc(size != 0 ? size : 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
static void* fresh(std::size_t size, std::align_val_t alignment) {
    void* memory = aligned(static_cast<std::size_t>(alignment), size != 0 ? size : 1);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
}
void* operator new(std::size_t size) { return fresh(size); }
void* operator new[](std::size_t size) { return fresh(size); }
void* operator new(std::size_t size, std::align_val_t alignment) { return fresh(size, alignment); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return fresh(size, alignment); }
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return malloc(size != 0 ? size : 1); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return malloc(size != 0 ? size : 1); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return aligned(static_cast<std::size_t>(alignment), size != 0 ? size : 1);
}
void* operator new[](std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
    return aligned(static_cast<std::size_t>(alignment), size != 0 ? size : 1);
}
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, std::size_t) noexcept { free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { free(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { free(memory); }
