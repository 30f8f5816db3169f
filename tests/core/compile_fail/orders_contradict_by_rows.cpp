// SPDX-License-Identifier: Apache-2.0
// Contiguous rows and columns one after the other are two orders.
// expect: contradict each other
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::View<float, 2, isthmus::inner_contiguous, isthmus::f_contiguous>;
#else
using Wanted = isthmus::View<float, 2, isthmus::f_contiguous, isthmus::f_contiguous>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
