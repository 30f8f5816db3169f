# cython: language_level=3, boundscheck=False, wraparound=False
# SPDX-License-Identifier: Apache-2.0
"""One typed array taken as Cython's typed memoryview."""

cdef extern from *:
    """
    static const void* volatile bench_sink;
    """
    const void* bench_sink


def typed(const float[::1] x):
    global bench_sink
    bench_sink = &x[0]
