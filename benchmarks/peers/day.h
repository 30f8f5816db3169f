// A user's day: the same calls with the types of Isthmus and with those of a binder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <map>
#include <string>
#include <vector>

/// What a compiler must not leave out.
inline const void* volatile sink;

/// Three inputs, an output and two numbers: as little work as shows that all of them arrived.
inline void touch(const float* x, const float* y, const float* z, float* out, double scale, long count) {
    sink = x;
    sink = y;
    sink = z;
    out[0] = static_cast<float>(scale) + static_cast<float>(count);
}
template <class In>
std::size_t batch(const std::vector<In>& tensors) {
    for (const In& x : tensors) sink = x.data();
    return tensors.size();
}
template <class In>
std::size_t state(const std::map<std::string, In>& tensors) {
    for (const auto& [name, x] : tensors) sink = x.data();
    return tensors.size();
}

inline constexpr std::size_t result_size = 1000;
template <class Handle>
isthmus::As<isthmus::Framework::numpy> result_ours(Handle) {
    return isthmus::Tensor::empty({static_cast<std::int64_t>(result_size)}, isthmus::float32);
}
