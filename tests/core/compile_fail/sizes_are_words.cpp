// SPDX-License-Identifier: Apache-2.0
// A size is a name, a number or a colon.
// expect: sizes are names, numbers
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Points = isthmus::View<float, 2, isthmus::sizes<"n -3">>;
#else
using Points = isthmus::View<float, 2, isthmus::sizes<"n 3">>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Points>().has_value(); }
