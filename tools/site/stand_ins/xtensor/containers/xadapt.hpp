// What isthmus/xtensor.h names of xtensor, for the reference.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
namespace xt {
enum class layout_type { dynamic };
template <class S, layout_type L, class Z, class T>
struct xarray_container;
template <class S, std::size_t N, layout_type L, class T>
struct xtensor_container;
}  // namespace xt
