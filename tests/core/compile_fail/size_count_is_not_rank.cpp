// SPDX-License-Identifier: Apache-2.0
// As many sizes as dimensions.
// expect: as many sizes as dimensions
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Image = isthmus::View<float, 3, isthmus::sizes<"h w">>;
#else
using Image = isthmus::View<float, 3, isthmus::sizes<"h w 3">>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Image>().has_value(); }
