// What isthmus/mdspan.h names of Kokkos' mdspan, for the reference: libclang's standard library may have none.
// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <span>
#define MDSPAN_IMPL_STANDARD_NAMESPACE std_stand_in
namespace std_stand_in {
template <class I, std::size_t... n>
struct extents;
struct layout_left;
struct layout_right;
struct layout_stride;
template <class T>
struct default_accessor;
template <class T, class E, class L = layout_right, class A = default_accessor<T>>
struct mdspan;
}  // namespace std_stand_in
