// SPDX-License-Identifier: Apache-2.0
// A plain pointer to an object, handed over as the owner, would keep nothing alive.
// expect: a plain pointer as the owner keeps nothing alive
#include <memory>

#include <isthmus/isthmus.h>

struct Object {
    float elements[4];
};

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(Object* object) {
    return isthmus::Tensor::wrap(object->elements, {4}, {}, isthmus::float32, isthmus::Device::cpu(), object);
}
#else
isthmus::Tensor take(std::shared_ptr<Object> object) {
    float* elements = object->elements;
    return isthmus::Tensor::wrap(elements, {4}, {}, isthmus::float32, isthmus::Device::cpu(), std::move(object));
}
isthmus::Tensor call(Object& object, void (*release)()) {
    return isthmus::Tensor::wrap(object.elements, {4}, {}, isthmus::float32, isthmus::Device::cpu(), release);
}
isthmus::Tensor borrow(Object& object) {
    return isthmus::Tensor::wrap(object.elements, {4}, {}, isthmus::float32, isthmus::Device::cpu(), nullptr);
}
#endif
