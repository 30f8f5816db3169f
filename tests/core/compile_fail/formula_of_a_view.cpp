// SPDX-License-Identifier: Apache-2.0
// Sizes that several others give are an operator's.
// expect: is for the parameters of an operator
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::View<const float, 1, isthmus::sizes<"h*w">>;
#else
using Wanted = isthmus::View<const float, 1, isthmus::sizes<"h">>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
