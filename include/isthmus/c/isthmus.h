/* Isthmus: zero-copy tensor exchange. The C interface, for runtimes that are neither C++ nor Python.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Link with libisthmus. The header is C11 and needs no other header of Isthmus or of DLPack.
 *
 * Errors. Every function that can fail returns an isthmus_status: ISTHMUS_OK (0), or what went wrong. The text that
 * names the argument, the value found and the value wanted is then isthmus_last_error(), one per thread. Outputs are
 * written on success only. No function throws, aborts or prints; a NULL where something is needed is
 * ISTHMUS_BAD_ARGUMENT.
 *
 * Ownership. An isthmus_tensor* is one reference: whoever gets one from an `out` argument, or adds one with
 * isthmus_retain(), releases it once with isthmus_release(). The memory's owner is let go, once, when the last
 * reference and the last managed tensor made from it are gone: on whichever thread that happens, so release callbacks
 * must be safe on any thread, and must not throw.
 *
 * Threads. All functions may be called from any thread at any time; one reference is used by one thread at a time, like
 * a pointer, and each thread that keeps a tensor has its own.
 *
 * Units. Sizes and strides count elements, everything called bytes counts bytes. Elements are never read, written or
 * copied.
 *
 * Stability. Within ISTHMUS_C_ABI_VERSION nothing here changes; what is new comes as a new function. */
#ifndef ISTHMUS_C_ISTHMUS_H
#define ISTHMUS_C_ISTHMUS_H

#include <stddef.h>
#include <stdint.h>

#define ISTHMUS_C_ABI_VERSION 1

#if defined(_WIN32)
#if defined(ISTHMUS_C_BUILD)
#define ISTHMUS_C_API __declspec(dllexport)
#else
#define ISTHMUS_C_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define ISTHMUS_C_API __attribute__((visibility("default")))
#else
#define ISTHMUS_C_API
#endif

#if defined(__cplusplus)
#define ISTHMUS_C_NOEXCEPT noexcept
extern "C" {
#else
#define ISTHMUS_C_NOEXCEPT
#endif

/* ---- Status
 * ---------------------------------------------------------------------------------------------------------- */

/* 0, or one of the numbers below. */
typedef int32_t isthmus_status;

/* The numbers of isthmus_status. */
enum {
    ISTHMUS_OK = 0,                  /* all went well */
    ISTHMUS_NOT_A_TENSOR = 1,        /* the object speaks none of the protocols */
    ISTHMUS_BAD_CAPSULE = 2,         /* a managed tensor that is NULL */
    ISTHMUS_CONSUMED_CAPSULE = 3,    /* one that was taken before */
    ISTHMUS_UNSUPPORTED_VERSION = 4, /* a DLPack major version, or flag bits, that this library cannot read */
    ISTHMUS_BAD_DTYPE = 5,           /* a dtype that cannot be expressed, or contradicts another field */
    ISTHMUS_BAD_LAYOUT = 6,          /* a number of dimensions, shape or strides that are invalid */
    ISTHMUS_BAD_DEVICE = 7,          /* a device that is unknown, or cannot be expressed */
    ISTHMUS_READ_ONLY = 8,           /* writable memory was wanted and the memory is read-only */
    ISTHMUS_NULL_DATA = 9,           /* elements without memory */
    ISTHMUS_OVERFLOW = 10,           /* sizes, strides or offsets that do not fit the address space */
    ISTHMUS_PRODUCER_FAILED = 11,    /* whoever made the tensor failed to show it */
    ISTHMUS_NEEDS_COPY = 12,         /* only a copy could do it: memory that is not aligned for its elements */
    ISTHMUS_NOT_VALUES = 13,         /* the bytes are not the values */
    ISTHMUS_REQUIRES_GRAD = 14,      /* automatic differentiation watches the tensor */
    ISTHMUS_BAD_ARGUMENT = 15,       /* an argument of the call itself is wrong: NULL, or a buffer too small */
    ISTHMUS_CONSUMER_FAILED = 16,    /* whoever was to take the tensor refused it */
    ISTHMUS_UNAVAILABLE = 17,        /* this system or build does not have what was asked for */
    ISTHMUS_BAD_THREAD = 18,         /* the call is not allowed on this thread now */
    ISTHMUS_OUT_OF_MEMORY = 19,      /* there is no memory for the elements or for the tensor itself */
    ISTHMUS_SYSTEM_FAILED = 20,      /* the operating system refused a call */
    ISTHMUS_BAD_MESSAGE = 21,        /* what another process sent is not what it says it is */
    ISTHMUS_PEER_CLOSED = 22,        /* the other process is gone, or has closed its end */
    ISTHMUS_TIMED_OUT = 23,          /* the other process did not answer, read or release in time */
    ISTHMUS_BAD_FILE = 24            /* a file is not what it says it is */
};

/* The number's name, "bad_dtype"; "ok" for 0 and "unknown" for any other. Static memory. */
ISTHMUS_C_API const char* isthmus_status_name(isthmus_status status) ISTHMUS_C_NOEXCEPT;

/* What the last call that failed on this thread returned. A call that succeeds does not change it. */
ISTHMUS_C_API isthmus_status isthmus_last_status(void) ISTHMUS_C_NOEXCEPT;
/* The text of that failure: UTF-8, never NULL, valid until the next call that fails on this thread. */
ISTHMUS_C_API const char* isthmus_last_error(void) ISTHMUS_C_NOEXCEPT;
/* Back to ISTHMUS_OK and "". */
ISTHMUS_C_API void isthmus_clear_error(void) ISTHMUS_C_NOEXCEPT;

/* ISTHMUS_C_ABI_VERSION of the library that is loaded: compare it with the header's. */
ISTHMUS_C_API uint32_t isthmus_abi_version(void) ISTHMUS_C_NOEXCEPT;
/* The library's own version, "0.1.0". Static memory. */
ISTHMUS_C_API const char* isthmus_version(void) ISTHMUS_C_NOEXCEPT;

/* ---- Element types and devices
 * --------------------------------------------------------------------------------------- */

/* DLPack's triple; layout-compatible with DLDataType. bits is the width of one lane. */
typedef struct isthmus_dtype {
    uint8_t code;   /* kDLInt (0), kDLUInt (1), kDLFloat (2), … */
    uint8_t bits;   /* of one lane */
    uint16_t lanes; /* 1, or the lanes of a vector type */
} isthmus_dtype;

/* DLPack's pair; layout-compatible with DLDevice. {1, 0} is the CPU, {2, n} CUDA device n. */
typedef struct isthmus_device {
    int32_t type; /* kDLCPU (1), kDLCUDA (2), … */
    int32_t id;   /* which of that type; 0 for the CPU */
} isthmus_device;

/* Room for any name, its final NUL included. */
#define ISTHMUS_NAME_SIZE 32

/* Writes "float32", "bfloat16", "float8_e4m3fn", "float32x4", … and a NUL. ISTHMUS_BAD_DTYPE for one that DLPack 1.3
 * does not define, ISTHMUS_BAD_ARGUMENT when `size` bytes do not suffice (ISTHMUS_NAME_SIZE always do). */
ISTHMUS_C_API isthmus_status isthmus_dtype_name(isthmus_dtype dtype, char* buffer, size_t size) ISTHMUS_C_NOEXCEPT;
/* The dtype called `name`; ISTHMUS_BAD_DTYPE when there is none. */
ISTHMUS_C_API isthmus_status isthmus_dtype_parse(const char* name, isthmus_dtype* out) ISTHMUS_C_NOEXCEPT;

/* Writes "cpu", "cuda:0", … and a NUL. ISTHMUS_BAD_DEVICE for one that DLPack 1.3 does not define. */
ISTHMUS_C_API isthmus_status isthmus_device_name(isthmus_device device, char* buffer, size_t size) ISTHMUS_C_NOEXCEPT;
/* The device called `name`, of index 0 when it has none; ISTHMUS_BAD_DEVICE when there is none. */
ISTHMUS_C_API isthmus_status isthmus_device_parse(const char* name, isthmus_device* out) ISTHMUS_C_NOEXCEPT;

/* ---- Tensors
 * --------------------------------------------------------------------------------------------------------- */

/* A tensor; a pointer to one is a reference (see Ownership above). */
typedef struct isthmus_tensor isthmus_tensor;

/* Flags of a tensor and of a blob; the values are DLPack's. */
enum {
    ISTHMUS_FLAG_READ_ONLY = 1, /* nobody may write to the elements */
    ISTHMUS_FLAG_PADDED = 4 /* elements of fewer than 8 bits have whole bytes of their own, rather than sharing them */
};

/* Releases what `owner` stands for. */
typedef void (*isthmus_release_fn)(void* owner);

/* What a tensor is. Pointers are valid as long as the reference. */
typedef struct isthmus_tensor_info {
    void* data; /* first element: an address on `device`; a driver's handle on OpenCL, Vulkan, Metal and WebGPU */
    const int64_t* shape;   /* ndim sizes */
    const int64_t* strides; /* ndim steps, in elements */
    int64_t numel;          /* number of elements */
    int64_t nbytes;         /* bytes of all elements when compact */
    int64_t itemsize;       /* bytes of one element, rounded up to whole ones */
    uint64_t byte_offset;   /* from `data` to the first element where `data` is a handle; else 0 */
    isthmus_dtype dtype;    /* what one element is */
    isthmus_device device;  /* where the memory is */
    int32_t ndim;           /* number of dimensions */
    uint32_t flags;         /* ISTHMUS_FLAG_… */
    int32_t is_contiguous;  /* 1 when row-major and compact */
    int32_t reserved;       /* 0 */
} isthmus_tensor_info;

/* New host memory: uninitialised, row-major, 64-byte aligned. `shape` may be NULL when ndim is 0. */
ISTHMUS_C_API isthmus_status isthmus_empty(const int64_t* shape, int32_t ndim, isthmus_dtype dtype,
                                           isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;

/* A tensor over memory of the caller. `strides` may be NULL for row-major, `flags` are ISTHMUS_FLAG_….
 * `release(owner)` is called once: when the last reference is gone, or before a failing call returns. `release` may be
 * NULL, and the memory must then outlive every reference. */
ISTHMUS_C_API isthmus_status isthmus_wrap(void* data, const int64_t* shape, const int64_t* strides, int32_t ndim,
                                          isthmus_dtype dtype, isthmus_device device, uint32_t flags,
                                          isthmus_release_fn release, void* owner,
                                          isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;

/* Describes in O(1). */
ISTHMUS_C_API isthmus_status isthmus_describe(const isthmus_tensor* tensor,
                                              isthmus_tensor_info* out) ISTHMUS_C_NOEXCEPT;

/* One reference more. */
ISTHMUS_C_API isthmus_status isthmus_retain(isthmus_tensor* tensor) ISTHMUS_C_NOEXCEPT;
/* One reference less; with the last one the tensor is gone. */
ISTHMUS_C_API isthmus_status isthmus_release(isthmus_tensor* tensor) ISTHMUS_C_NOEXCEPT;

/* A new reference on the same memory, to be read only. The given one stays as it is. */
ISTHMUS_C_API isthmus_status isthmus_as_read_only(isthmus_tensor* tensor, isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;

/* ---- DLPack
 * ---------------------------------------------------------------------------------------------------------- */

/* As <dlpack/dlpack.h> defines them. */
struct DLManagedTensorVersioned;
struct DLManagedTensor;

/* Takes the managed tensor, also when it fails: its deleter is called once, when the last reference is gone or before a
 * failing call returns. Of a major version other than 1 nothing but the version and the deleter is read. */
ISTHMUS_C_API isthmus_status isthmus_from_dlpack(struct DLManagedTensorVersioned* managed,
                                                 isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;
/* The same for the layout before DLPack 1.0. */
ISTHMUS_C_API isthmus_status isthmus_from_dlpack_legacy(struct DLManagedTensor* managed,
                                                        isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;

/* A managed tensor (DLPack 1.3) that shares the memory and holds a reference of its own; the receiver calls its deleter
 * once, on any thread. */
ISTHMUS_C_API isthmus_status isthmus_to_dlpack(isthmus_tensor* tensor,
                                               struct DLManagedTensorVersioned** out) ISTHMUS_C_NOEXCEPT;
/* The same in the layout before DLPack 1.0, which has no flags: ISTHMUS_READ_ONLY for a read-only tensor,
 * ISTHMUS_BAD_DTYPE for padded sub-byte elements. */
ISTHMUS_C_API isthmus_status isthmus_to_dlpack_legacy(isthmus_tensor* tensor,
                                                      struct DLManagedTensor** out) ISTHMUS_C_NOEXCEPT;

/* ---- Blobs
 * ----------------------------------------------------------------------------------------------------------- */

/* A tensor as plain numbers and names, for a runtime that knows nothing of tensors.
 *
 * To be given: zero the struct, then set ptr, shape, ndim and either dtype or dtype_name. What stays zero has a
 * default: row-major strides, the CPU, the dtype's own element size, writable, no owner. If both the number and the
 * name of a dtype or device are set they must agree.
 *
 * As received from isthmus_to_blob() all fields are set, and the receiver calls release(owner) once; shape and strides
 * point to memory of the owner. */
typedef struct isthmus_blob {
    void* ptr;                           /* first element; NULL only without elements */
    const int64_t* shape;                /* ndim sizes; NULL only when ndim is 0 */
    const int64_t* strides;              /* ndim steps, in elements; NULL for row-major */
    int64_t element_size;                /* bytes of one element, rounded up to whole ones; 0 for "as the dtype says" */
    int32_t ndim;                        /* number of dimensions */
    uint32_t flags;                      /* ISTHMUS_FLAG_… */
    isthmus_dtype dtype;                 /* bits 0 for "see dtype_name" */
    isthmus_device device;               /* type 0 for "see device_name", and the CPU when that is empty too */
    char dtype_name[ISTHMUS_NAME_SIZE];  /* "float32"; empty for "see dtype" */
    char device_name[ISTHMUS_NAME_SIZE]; /* "cuda:0"; empty for "see device" */
    void* owner;                         /* what keeps the memory alive, and */
    isthmus_release_fn release;          /* how it is released; NULL when the memory outlives the tensor */
} isthmus_blob;

/* A tensor over the memory that the blob describes. Takes the owner, also when it fails: release(owner) is called once,
 * when the last reference is gone or before a failing call returns. The blob itself is not kept. */
ISTHMUS_C_API isthmus_status isthmus_from_blob(const isthmus_blob* blob, isthmus_tensor** out) ISTHMUS_C_NOEXCEPT;

/* Describes the tensor in a blob that holds a reference of its own. ISTHMUS_BAD_DEVICE for the one tensor that a
 * pointer cannot describe: an offset from a driver's handle. */
ISTHMUS_C_API isthmus_status isthmus_to_blob(isthmus_tensor* tensor, isthmus_blob* out) ISTHMUS_C_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
