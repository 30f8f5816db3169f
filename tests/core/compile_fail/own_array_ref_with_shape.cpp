// SPDX-License-Identifier: Apache-2.0
// The same with a shape.
// expect: own\(\) takes what owns its elements
#include <vector>

#include <isthmus/isthmus.h>

template <class T>
struct ArrayRef {
    using value_type = T;
    const T* first;
    std::size_t length;
    const T* data() const { return first; }
    std::size_t size() const { return length; }
};

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(const float* p) { return isthmus::Tensor::own(ArrayRef<float>{p, 4}, {2, 2}); }
#else
isthmus::Tensor take(std::vector<float> v) { return isthmus::Tensor::own(std::move(v), {2, 2}); }
#endif
