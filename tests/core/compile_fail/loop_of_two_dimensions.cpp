// SPDX-License-Identifier: Apache-2.0
// A loop over the elements of two dimensions is for_each's.
// expect: use_for_each_or_rows
#include <isthmus/isthmus.h>

#include <ranges>

static_assert(!std::ranges::range<isthmus::View<float, 2>>);

void scale(isthmus::View<float, 2> x) {
#if defined(ISTHMUS_MUST_FAIL)
    for (float& v : x) v *= 2;
#else
    isthmus::for_each([](float& v) { v *= 2; }, x);
#endif
}
