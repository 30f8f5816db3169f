// SPDX-License-Identifier: Apache-2.0
// Sizes are asked for once: in words, or by numbers.
// expect: sizes are asked for once
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::View<float, 2, isthmus::sizes<"n 3">, isthmus::extents<isthmus::dyn, 5>>;
#else
using Wanted = isthmus::View<float, 2, isthmus::sizes<"n 3">>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
