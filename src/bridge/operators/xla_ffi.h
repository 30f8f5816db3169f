// The part of XLA's C interface for foreign functions that a handler reads: xla/ffi/api/c_api.h, version 0.3.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <isthmus/core/dtype.h>

ISTHMUS_BEGIN

/// Nearly every struct begins with its size and a list of extensions; fields are only ever added at the end of one
/// major version.
namespace detail::xla {

inline constexpr int api_major = 0;
inline constexpr int api_minor = 1;  ///< the oldest that has all that is read here

struct Extension {
    static constexpr int metadata = 1;
    std::size_t struct_size;
    int type;
    Extension* next;
};
struct ApiVersion {
    std::size_t struct_size;
    Extension* extensions;
    int major_version, minor_version;
};
/// The description of a handler at its registration.
struct Metadata {
    std::size_t struct_size;
    ApiVersion api_version;
    std::uint32_t traits;
};
struct MetadataExtension {
    Extension base;
    Metadata* metadata;
};

using Error = void;  ///< XLA's own, never looked into
enum ErrorCode : int { unknown = 2, invalid_argument = 3, resource_exhausted = 8, out_of_range = 11, internal = 13 };
struct ErrorCreateArgs {
    std::size_t struct_size;
    Extension* extensions;
    const char* message;
    ErrorCode code;
};
struct StreamGetArgs {
    std::size_t struct_size;
    Extension* extensions;
    void* context;
    void* stream;  ///< out: a CUstream
};
struct DeviceOrdinalGetArgs {
    std::size_t struct_size;
    Extension* extensions;
    void* context;
    std::int32_t ordinal;  ///< out
};
struct Api {
    std::size_t struct_size;
    Extension* extensions;
    ApiVersion version;
    const void* internal;
    Error* (*create_error)(ErrorCreateArgs*);
    void (*unused_of_errors[2])();
    void (*unused_register)();
    Error* (*get_stream)(StreamGetArgs*);
    void (*unused_between[12])();
    Error* (*get_device_ordinal)(DeviceOrdinalGetArgs*);  ///< version 0.3; older tables end before it

    bool has_device_ordinal() const noexcept {
        return struct_size >= offsetof(Api, get_device_ordinal) + sizeof get_device_ordinal;
    }
};

struct Buffer {
    std::size_t struct_size;
    Extension* extensions;
    int dtype;
    void* data;
    std::int64_t rank;
    std::int64_t* dims;  ///< row-major
};
struct Scalar {
    int dtype;
    void* value;
};
struct Array {
    int dtype;
    std::size_t size;
    void* data;
};
struct ByteSpan {
    const char* data;
    std::size_t size;
};

enum AttributeType : int { array = 1, dictionary = 2, scalar = 3, string = 4 };
struct Values {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t size;
    int* types;
    void** values;
};
struct Attributes {
    std::size_t struct_size;
    Extension* extensions;
    std::int64_t size;
    AttributeType* types;
    ByteSpan** names;
    void** values;
};
struct CallFrame {
    std::size_t struct_size;
    Extension* extensions;
    const Api* api;
    void* context;
    int stage;
    Values arguments;
    Values results;
    Attributes attributes;
};

/// XLA's numbers of dtypes: those of scalars by name.
inline constexpr int boolean_number = 1, int32_number = 4, int64_number = 5, float32_number = 11, float64_number = 12;
struct NumberedDType {
    int number;
    DType dtype;
};
inline constexpr NumberedDType dtypes[] = {{boolean_number, boolean},
                                           {2, int8},
                                           {3, int16},
                                           {int32_number, int32},
                                           {int64_number, int64},
                                           {6, uint8},
                                           {7, uint16},
                                           {8, uint32},
                                           {9, uint64},
                                           {10, float16},
                                           {float32_number, float32},
                                           {float64_number, float64},
                                           {15, complex64},
                                           {16, bfloat16},
                                           {18, complex128},
                                           {19, float8_e5m2},
                                           {20, float8_e4m3fn},
                                           {24, float8_e5m2fnuz},
                                           {25, float8_e4m3fnuz},
                                           {33, float8_e8m0fnu}};
/// bits() is 0 if there is none.
constexpr DType dtype_of(int number) noexcept {
    for (const NumberedDType& row : dtypes)
        if (row.number == number) return row.dtype;
    return DType(DLDataType{0, 0, 0});
}

}  // namespace detail::xla

ISTHMUS_END
