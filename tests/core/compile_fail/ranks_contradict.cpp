// SPDX-License-Identifier: Apache-2.0
// Several bounds on the rank hold together, or there is no such view.
// expect: no rank is within all the bounds
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
using Wanted = isthmus::View<float, isthmus::dynamic_rank, isthmus::rank_between<1, 2>, isthmus::rank_between<3>>;
#else
using Wanted = isthmus::View<float, isthmus::dynamic_rank, isthmus::rank_between<1, 3>, isthmus::rank_between<2>>;
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Wanted>().has_value(); }
