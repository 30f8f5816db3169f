// SPDX-License-Identifier: Apache-2.0
// An element type without a dtype is refused in words of ours.
// expect: this C\+\+ type has no dtype
#include <isthmus/isthmus.h>

struct Element {
    float value;
};
#if !defined(ISTHMUS_MUST_FAIL)
template <>
struct isthmus::dtype_traits<Element> {
    static constexpr DType value = isthmus::float32;
};
#endif
bool fits(const isthmus::Tensor& t) { return t.view<Element, 1>().has_value(); }
