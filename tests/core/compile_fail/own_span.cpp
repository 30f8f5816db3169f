// SPDX-License-Identifier: Apache-2.0
// A span holds no elements: to own it would keep nothing alive.
// expect: own\(\) takes what owns its elements
#include <span>
#include <vector>

#include <isthmus/isthmus.h>

isthmus::Tensor take(std::vector<float> elements) {
#if defined(ISTHMUS_MUST_FAIL)
    return isthmus::Tensor::own(std::span<float>(elements), {4});
#else
    return isthmus::Tensor::own(std::move(elements), {4});
#endif
}
