// SPDX-License-Identifier: Apache-2.0
// A View steps by sizeof(T), so dtype_traits may not name a dtype of another size.
// expect: names a dtype of another size
#include <isthmus/isthmus.h>

struct Half {
#if defined(ISTHMUS_MUST_FAIL)
    float value;
#else
    short value;
#endif
};
template <>
struct isthmus::dtype_traits<Half> {
    static constexpr DType value = isthmus::float16;
};
isthmus::DType dtype() { return isthmus::dtype_of<Half>(); }
