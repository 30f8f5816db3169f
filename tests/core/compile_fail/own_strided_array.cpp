// SPDX-License-Identifier: Apache-2.0
// An array that counts its references, with sizes and strides of its own, as a binder's is: data() and size() are not
// all that there is to know.
// expect: own\(\) takes what owns its elements
#include <memory>

#include <isthmus/isthmus.h>

template <class T>
struct Array {
    using value_type = T;
    std::shared_ptr<T[]> memory;
    std::size_t count;
    std::size_t step;
    const T* data() const { return memory.get(); }
    std::size_t size() const { return count; }
    std::size_t strides(int) const { return step; }
};

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(Array<float> array) { return isthmus::Tensor::own(std::move(array)); }
#else
isthmus::Tensor take(Array<float> array) {
    return isthmus::Tensor::wrap(array.data(), {static_cast<std::int64_t>(array.count)},
                                 {static_cast<std::int64_t>(array.step)}, isthmus::float32, isthmus::Device::cpu(),
                                 array.memory);
}
#endif
