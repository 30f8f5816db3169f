// SPDX-License-Identifier: Apache-2.0
// A view of device memory gives addresses, and no elements.
// expect: (no match for call|no matching function)
#include <isthmus/isthmus.h>

#if defined(ISTHMUS_MUST_FAIL)
float read(isthmus::View<const float, 1, isthmus::on_cuda> v) { return v(0); }
#else
float read(isthmus::View<const float, 1> v) { return v(0); }
#endif
