// SPDX-License-Identifier: Apache-2.0
// A tensor that automatic differentiation watches is let in, or refused.
// expect: allow_grad and no_grad contradict each other
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::View<const float, 2, isthmus::no_grad, isthmus::allow_grad>;
#else
using Wanted = isthmus::View<const float, 2, isthmus::no_grad>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
