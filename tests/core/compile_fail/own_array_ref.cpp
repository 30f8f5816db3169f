// SPDX-License-Identifier: Apache-2.0
// A pointer and a length own nothing, whatever they are called (llvm::ArrayRef, c10::ArrayRef, rust::Slice).
// expect: own\(\) takes what owns its elements
#include <isthmus/isthmus.h>

template <class T>
struct ArrayRef {
    using value_type = T;
    const T* first;
    std::size_t length;
    const T* data() const { return first; }
    std::size_t size() const { return length; }
    const T* begin() const { return first; }
    const T* end() const { return first + length; }
};

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(const float* p) { return isthmus::Tensor::own(ArrayRef<float>{p, 4}); }
#else
struct Held : ArrayRef<float> {};

// Whoever knows better says so.
template <>
struct isthmus::tensor_traits<Held> {
    static TensorSpec describe(Held& held) { return {held.data(), float32, {static_cast<std::int64_t>(held.size())}}; }
};
isthmus::Tensor take(const float* p) { return isthmus::Tensor::own(Held{{p, 4}}); }
#endif
