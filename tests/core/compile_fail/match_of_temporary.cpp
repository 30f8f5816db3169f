// SPDX-License-Identifier: Apache-2.0
// A matched view borrows like any other: not from a temporary.
// expect: deleted (member )?function
#include <isthmus/isthmus.h>

using Row = isthmus::View<const float, 1>;
float first() {
    isthmus::Match match("first");
#if defined(ISTHMUS_MUST_FAIL)
    return match.view<Row>("x", isthmus::Tensor::empty({4}, isthmus::float32)).value()[0];
#else
    const isthmus::Tensor t = isthmus::Tensor::empty({4}, isthmus::float32);
    return match.view<Row>("x", t).value()[0];
#endif
}
