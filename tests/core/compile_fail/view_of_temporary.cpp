// SPDX-License-Identifier: Apache-2.0
// A view borrows: of a temporary tensor it would point to memory that is gone when the statement ends.
// expect: deleted (member )?function
#include <isthmus/isthmus.h>

float first() {
#if defined(ISTHMUS_MUST_FAIL)
    return isthmus::Tensor::empty({4}, isthmus::float32).view<float, 1>().value()[0];
#else
    const isthmus::Tensor t = isthmus::Tensor::empty({4}, isthmus::float32);
    return t.view<float, 1>().value()[0];
#endif
}
