// SPDX-License-Identifier: Apache-2.0
// A view of any strides never becomes one that is contiguous; the other way it does.
// expect: (could not convert|no viable conversion)
#include <isthmus/isthmus.h>

using Any = isthmus::View<float, 2>;
using Contiguous = isthmus::View<float, 2, isthmus::c_contiguous>;
#if defined(ISTHMUS_MUST_FAIL)
Contiguous convert(Any v) { return v; }
#else
Any convert(Contiguous v) { return v; }
#endif
