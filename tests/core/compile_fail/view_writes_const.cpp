// SPDX-License-Identifier: Apache-2.0
// Elements behind View<const T, N> cannot be assigned.
// expect: (read-only|const value)
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
void write(isthmus::View<const float, 2> v) { v(0, 0) = 1; }
#else
void write(isthmus::View<float, 2> v) { v(0, 0) = 1; }
#endif
