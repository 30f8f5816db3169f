// SPDX-License-Identifier: Apache-2.0
// A View holds no elements: to own it would keep nothing alive.
// expect: own\(\) takes what owns its elements
#include <vector>

#include <isthmus/isthmus.h>

isthmus::Tensor take(isthmus::View<float, 1> view, std::vector<float> elements) {
#if defined(ISTHMUS_MUST_FAIL)
    return isthmus::Tensor::own(std::move(view), {4});
#else
    return isthmus::Tensor::own(std::move(elements), {view.size()});
#endif
}
