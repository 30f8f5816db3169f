// SPDX-License-Identifier: Apache-2.0
// A view that only reads never becomes one that writes.
// expect: (could not convert|no viable conversion)
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
isthmus::View<float, 1> convert(isthmus::View<const float, 1> v) { return v; }
#else
isthmus::View<const float, 1> convert(isthmus::View<float, 1> v) { return v; }
#endif
