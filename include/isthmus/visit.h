// The types that visit() tries for a view of an open set of dtypes: floating, integral, complex_valued, any_dtype.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <complex>

#include <isthmus/core/view/view.h>
#include <isthmus/small_floats.h>

ISTHMUS_BEGIN

namespace detail {

template <class... T>
struct OpenSet {
    using types = one_of<T...>;
    static constexpr bool is_whole = false;
};

// The 8-bit floats stay out, as each type is one more copy of the caller's function: visit<float8_e4m3fn_t, …>(f) asks
// for them.
template <>
struct visited<floating> : OpenSet<float, double, float16_t, bfloat16_t> {};
template <>
struct visited<integral> : OpenSet<std::int64_t, std::int32_t, std::int16_t, std::int8_t, std::uint64_t, std::uint32_t,
                                   std::uint16_t, std::uint8_t> {};
template <>
struct visited<complex_valued> : OpenSet<std::complex<float>, std::complex<double>> {};
template <>
struct visited<any_dtype> : OpenSet<float, double, float16_t, bfloat16_t, std::int64_t, std::int32_t, std::int16_t,
                                    std::int8_t, std::uint64_t, std::uint32_t, std::uint16_t, std::uint8_t, ByteBool,
                                    std::complex<float>, std::complex<double>> {};

}  // namespace detail

ISTHMUS_END

#include <isthmus/core/sources.h>
