// What the fuzz targets share: a check that ends the process, and numbers from the bytes of the input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(condition)                                                      \
    do {                                                                      \
        if (!(condition)) {                                                   \
            std::fprintf(stderr, "%d: not true: %s\n", __LINE__, #condition); \
            std::abort();                                                     \
        }                                                                     \
    } while (false)

/// Takes numbers off the front; zeros when nothing is left.
struct Input {
    const unsigned char* at;
    std::size_t left;

    template <class T>
    T take() {
        T value{};
        const std::size_t n = left < sizeof(T) ? left : sizeof(T);
        if (n != 0) std::memcpy(&value, at, n);
        at += n;
        left -= n;
        return value;
    }
};
