// SPDX-License-Identifier: Apache-2.0
// and_then chains functions that may fail; one that cannot is for transform.
// expect: must return a Result
#include <isthmus/isthmus.h>

long rank(const isthmus::Result<isthmus::Tensor>& tensor) {
#if defined(ISTHMUS_MUST_FAIL)
    return *tensor.and_then([](const isthmus::Tensor& t) { return t.ndim(); });
#else
    return *tensor.transform([](const isthmus::Tensor& t) { return t.ndim(); });
#endif
}
