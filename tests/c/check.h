/* SPDX-License-Identifier: Apache-2.0
 * What a test program in C needs: checks that go on after a failure, and an exit code that remembers it. */
#ifndef ISTHMUS_TESTS_CHECK_H
#define ISTHMUS_TESTS_CHECK_H

#include <stdio.h>
#include <string.h>

#include <isthmus/c/isthmus.h>

static int check_count = 0, check_failures = 0;

#define CHECK(condition)                                                              \
    do {                                                                              \
        ++check_count;                                                                \
        if (!(condition)) {                                                           \
            ++check_failures;                                                         \
            fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                             \
    } while (0)

#define CHECK_OK(call)                                                                                           \
    do {                                                                                                         \
        const isthmus_status check_status = (call);                                                              \
        ++check_count;                                                                                           \
        if (check_status != ISTHMUS_OK) {                                                                        \
            ++check_failures;                                                                                    \
            fprintf(stderr, "%s:%d: %s: %s: %s\n", __FILE__, __LINE__, #call, isthmus_status_name(check_status), \
                    isthmus_last_error());                                                                       \
        }                                                                                                        \
    } while (0)

/* The call fails with this status, and its text has these words. */
#define CHECK_FAILS(call, wanted, words)                                                                            \
    do {                                                                                                            \
        isthmus_clear_error();                                                                                      \
        const isthmus_status check_status = (call);                                                                 \
        ++check_count;                                                                                              \
        if (check_status != (wanted) || isthmus_last_status() != (wanted) ||                                        \
            strstr(isthmus_last_error(), (words)) == NULL) {                                                        \
            ++check_failures;                                                                                       \
            fprintf(stderr, "%s:%d: %s: %s, \"%s\"; expected %s, \"%s\"\n", __FILE__, __LINE__, #call,              \
                    isthmus_status_name(check_status), isthmus_last_error(), isthmus_status_name(wanted), (words)); \
        }                                                                                                           \
    } while (0)

static int check_report(void) {
    printf("%d checks, %d failed\n", check_count, check_failures);
    return check_count == 0 || check_failures != 0;
}

/* A release callback that counts its calls. */
static inline void count_release(void* counter) { ++*(int*)counter; }

static const isthmus_dtype float32 = {2, 32, 1};
static const isthmus_dtype float4 = {17, 4, 1};
static const isthmus_device cpu = {1, 0};

#endif
