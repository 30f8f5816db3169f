// SPDX-License-Identifier: Apache-2.0
// Only constraints follow the rank.
// expect: what follows the rank must be constraints
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Strict = isthmus::View<float, 2, int>;
#else
using Strict = isthmus::View<float, 2, isthmus::c_contiguous>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Strict>().has_value(); }
