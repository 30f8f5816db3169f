// Which sanitizer a test was built with, as GCC says it and as Clang does.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#ifdef __has_feature
#define ISTHMUS_TEST_HAS_FEATURE(x) __has_feature(x)
#else
#define ISTHMUS_TEST_HAS_FEATURE(x) 0
#endif

#if defined(__SANITIZE_ADDRESS__) || ISTHMUS_TEST_HAS_FEATURE(address_sanitizer)
#define ISTHMUS_TEST_ASAN 1
#else
#define ISTHMUS_TEST_ASAN 0
#endif
#if defined(__SANITIZE_THREAD__) || ISTHMUS_TEST_HAS_FEATURE(thread_sanitizer)
#define ISTHMUS_TEST_TSAN 1
#else
#define ISTHMUS_TEST_TSAN 0
#endif

/// Ends a test whose forked child allocates while another thread of the parent may be allocating: AddressSanitizer does
/// not take its locks around a fork, as malloc does, and the child waits for one for ever, once in some thousand forks.
#if ISTHMUS_TEST_ASAN
#define ISTHMUS_TEST_NEEDS_MALLOC_AFTER_FORK() \
    GTEST_SKIP() << "a fork of many threads deadlocks in the sanitizer's own locks"
#else
#define ISTHMUS_TEST_NEEDS_MALLOC_AFTER_FORK() static_cast<void>(0)
#endif
