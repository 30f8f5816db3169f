// SPDX-License-Identifier: Apache-2.0
// A pointer that says that it owns nothing (std::experimental::observer_ptr, gsl::not_null) has get() as well.
// expect: own\(\) takes what owns its elements
#include <memory>

#include <isthmus/isthmus.h>

template <class T>
struct observer_ptr {
    using element_type = T;
    T* watched;
    T* get() const { return watched; }
};

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(float* p) { return isthmus::Tensor::own(observer_ptr<float>{p}, {4}); }
#else
isthmus::Tensor take(std::unique_ptr<float[]> p) { return isthmus::Tensor::own(std::move(p), {4}); }
isthmus::Tensor share(std::shared_ptr<float[]> p) { return isthmus::Tensor::own(std::move(p), {4}); }
#endif
