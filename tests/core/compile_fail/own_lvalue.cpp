// SPDX-License-Identifier: Apache-2.0
// own() takes, so what it takes must be given with std::move: nothing is copied by accident.
// expect: own\(\) takes its argument away
#include <vector>

#include <isthmus/isthmus.h>

isthmus::Tensor take(std::vector<float>& elements) {
#if defined(ISTHMUS_MUST_FAIL)
    return isthmus::Tensor::own(elements);
#else
    return isthmus::Tensor::own(std::move(elements));
#endif
}
