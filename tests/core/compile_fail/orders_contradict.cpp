// SPDX-License-Identifier: Apache-2.0
// A view is asked for one order; contiguous rows are part of C-contiguous.
// expect: contradict each other
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::View<float, 2, isthmus::c_contiguous, isthmus::f_contiguous>;
#else
using Wanted = isthmus::View<float, 2, isthmus::inner_contiguous, isthmus::c_contiguous>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
