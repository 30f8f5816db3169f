// SPDX-License-Identifier: Apache-2.0
// What is written to a converted copy would be lost.
// expect: the elements of a converted view are const
#include <isthmus/converted.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::Converted<isthmus::View<float, 2>>;
#else
using Wanted = isthmus::Converted<isthmus::View<const float, 2>>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
