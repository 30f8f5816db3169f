// SPDX-License-Identifier: Apache-2.0
// As many indices as dimensions, no fewer.
// expect: (no match for call|no matching function)
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
float read(isthmus::View<float, 2> v) { return v(1); }
#else
float read(isthmus::View<float, 2> v) { return v(1, 2); }
#endif
