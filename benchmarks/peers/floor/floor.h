// SPDX-License-Identifier: Apache-2.0
// The floor: what a C programmer would write by hand for one exchange, with nothing general about it.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlpack/dlpack.h>
#include <stdint.h>
#include <stdlib.h>

// What an owning import must keep: the descriptor, with sizes and strides of its own since the producer may change its
// own.
typedef struct {
    DLTensor dl;
    void* owner;
    int64_t dims[];
} Owned;

// The memory that the exports show, and the count that an owner keeps.
extern float* floor_data;
extern int64_t floor_size;
extern int64_t floor_owners;

// Where every import leaves the address, so that no compiler drops the work.
#if defined(Py_GIL_DISABLED)
extern _Thread_local void* volatile floor_sink;  // or the threads would share a cache line
#else
extern void* volatile floor_sink;
#endif

Owned* floor_own(const DLTensor* t, void* owner);

extern PyMethodDef floor_in_torch[], floor_in_numpy[], floor_in_buffer[], floor_out[], floor_measure[];
