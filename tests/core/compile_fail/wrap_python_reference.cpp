// SPDX-License-Identifier: Apache-2.0
// A reference to a Python object, handed over as the owner, would be given back without the GIL.
// expect: write isthmus::PyOwner
#include <memory>

#include <isthmus/isthmus.h>

/// As binders have it.
struct Handle {
    _object* object = nullptr;
    _object* ptr() const { return object; }
    void operator()() const {}
};
struct Kept {
    std::shared_ptr<void> python;
    void* get() const { return python.get(); }
};

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(float* elements, Handle object) {
    return isthmus::Tensor::wrap(elements, {4}, {}, isthmus::float32, isthmus::Device::cpu(), object);
}
#else
isthmus::Tensor take(float* elements, Kept object) {
    return isthmus::Tensor::wrap(elements, {4}, {}, isthmus::float32, isthmus::Device::cpu(), std::move(object));
}
isthmus::Tensor take(float* elements, std::unique_ptr<_object, void (*)(_object*)> object) {
    return isthmus::Tensor::wrap(elements, {4}, {}, isthmus::float32, isthmus::Device::cpu(), std::move(object));
}
#endif
