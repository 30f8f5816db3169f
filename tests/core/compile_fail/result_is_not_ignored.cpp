// SPDX-License-Identifier: Apache-2.0
// A Result that nobody looks at is an error that nobody sees.
// expect: nodiscard
#pragma GCC diagnostic error "-Wunused-result"
#include <isthmus/isthmus.h>

void import(DLManagedTensorVersioned* managed) {
#if defined(ISTHMUS_MUST_FAIL)
    isthmus::Tensor::from_dlpack(managed);
#else
    (void)isthmus::Tensor::from_dlpack(managed);
#endif
}
