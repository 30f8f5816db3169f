// SPDX-License-Identifier: Apache-2.0
// Texts that describe a dtype: the format of a buffer (PEP 3118), the typestr of an array interface, and our own names
// of dtypes and devices. What is understood must be a dtype of the width that was said.
#include <isthmus/python/ref.h>

#include <isthmus/core/device.h>
#include "src/bridge/protocol/buffer_format.h"
#include "src/bridge/protocol/typestr.h"

#include <cstdlib>

#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace isthmus;
    if (size == 0) return 0;
    // The first byte is the itemsize, the rest the text, copied so that a sanitizer sees who reads beyond it.
    const Py_ssize_t itemsize = static_cast<signed char>(data[0]);
    const std::string copied(reinterpret_cast<const char*>(data + 1), size - 1);
    const std::string_view text = copied;
    const DType untouched{255, 1, 1};

    DType dtype = untouched;
    bool foreign = false;
    if (detail::parse_buffer_format(text, itemsize, dtype, foreign)) {
        CHECK(dtype.is_valid() && dtype.itemsize() == itemsize && dtype.lanes() == 1 && !foreign);
        CHECK(text.size() >= 1 && text.size() <= 3);
    } else {
        CHECK(dtype == untouched);
    }

    dtype = untouched;
    foreign = false;
    if (detail::parse_typestr(text, dtype, foreign)) {
        CHECK(dtype.is_valid() && dtype.itemsize() == std::atoi(copied.c_str() + 2) && !foreign);
    }

    dtype = untouched;
    if (DType::parse(text, dtype)) {
        DType again = untouched;
        CHECK(dtype.is_valid() && DType::parse(dtype.name(), again) && again == dtype);
    } else {
        CHECK(dtype == untouched);
    }

    Device device{0, 0};
    if (Device::parse(text, device)) {
        CHECK(device.is_valid());
        Device again{0, 0};
        CHECK(Device::parse(device.name(), again) && again == device);
    }
    return 0;
}
