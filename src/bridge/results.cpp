// empty_like(): new memory for a result where an example lives.
// SPDX-License-Identifier: Apache-2.0
#include "results.h"

ISTHMUS_BEGIN

Tensor empty_like(PyObject* example, const Shape& shape, DType dtype, Device device) {
    const SizesList sizes{std::span<const std::int64_t>(shape.data(), shape.size())};
    auto made = detail::surviving_exit([&]() -> Result<Tensor> {
        try {
            return detail::make_like(example, sizes, dtype, device.is_host() ? Device::cpu() : device);
        } catch (const Error& error) {
            return error;
        }
    });
    return std::move(made).value();
}
Tensor empty_like(PyObject* example, const Shape& shape, DType dtype) {
    const Result<Borrowed> lives = borrow_py(example, {.allow_grad = true, .argument = "example"});
    return empty_like(example, shape, dtype, lives.value().device());
}

ISTHMUS_END
