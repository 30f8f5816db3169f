// SPDX-License-Identifier: Apache-2.0
// Descriptors of any bytes: what is taken must be as sound as a slower check with wider numbers says, what is refused
// must be refused for a reason, and the deleter runs exactly once.
#include <isthmus/isthmus.h>

#include <cstdlib>
#include <cstring>
#include <vector>

#include "../../src/core/managed_tensor.h"
#include "fuzz.h"

namespace {

using Wide = __int128;

int deletes = 0;
template <class Managed>
void count_delete(Managed*) {
    ++deletes;
}

/// Where the elements reach, in bytes from `data + byte_offset`, by numbers that do not overflow; false when even those
/// could.
bool reach(const DLTensor& t, Wide& first, Wide& last) {
    const Wide item = isthmus::DType(t.dtype).itemsize();
    Wide step = 1;
    first = last = 0;
    for (int i = t.ndim - 1; i >= 0; --i) {
        const Wide stride = t.strides != nullptr ? Wide(t.strides[i]) : step;
        const Wide far = stride * (t.shape[i] - 1);
        (far < 0 ? first : last) += far;
        step *= t.shape[i];
        if (step > Wide(1) << 64) return false;
    }
    first *= item;
    last = last * item + item - 1;
    return true;
}

bool slow_is_sound(const DLTensor& t, std::uint64_t flags) {
    const isthmus::DType dtype = t.dtype;
    if ((flags & ~std::uint64_t{7}) != 0 || t.ndim < 0 || t.ndim > 64 || (t.ndim > 0 && t.shape == nullptr))
        return false;
    if (!dtype.is_valid() || !isthmus::Device(t.device).is_valid()) return false;
    Wide count = 1;
    bool empty = false;
    for (int i = 0; i < t.ndim; ++i) {
        if (t.shape[i] < 0) return false;
        if (t.shape[i] == 0)
            empty = true;
        else if ((count *= t.shape[i]) > INT64_MAX)
            return false;
    }
    const bool packed = dtype.is_subbyte() && !(flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
    const auto base = Wide(reinterpret_cast<std::uintptr_t>(t.data));
    if (Wide(t.byte_offset) > INT64_MAX || base + t.byte_offset > UINTPTR_MAX) return false;
    if (empty) return true;
    if (packed ? count * dtype.element_bits() > INT64_MAX - 7 : count * dtype.itemsize() > INT64_MAX) return false;
    if (t.data == nullptr) return false;
    Wide first = 0, last = 0;
    if (!reach(t, first, last)) return false;
    if (packed && t.strides != nullptr && !isthmus::layout::is_contiguous(t.shape, t.strides, t.ndim)) return false;
    if (packed || t.strides == nullptr)
        first = 0, last = (packed ? (count * dtype.element_bits() + 7) / 8 : count * dtype.itemsize()) - 1;
    if (first < INT64_MIN || last > INT64_MAX) return false;
    if (isthmus::Device(t.device).is_opaque()) return true;
    const Wide address = base + t.byte_offset;
    const Wide last_page = Wide(UINTPTR_MAX) - 4095;  // never memory
    return address + first >= 0 && address + last < last_page && address % dtype.alignment() == 0;
}

void use(const isthmus::Tensor& tensor) {
    (void)tensor.nbytes();
    (void)tensor.is_contiguous();
    (void)tensor.device().name();
    isthmus::DType parsed;
    CHECK(isthmus::DType::parse(tensor.dtype().name(), parsed) && parsed == tensor.dtype());
    (void)tensor.view<float, 2>();
    (void)tensor.view<const std::uint8_t, 1>();
    DLManagedTensorVersioned* out = tensor.to_dlpack();
    CHECK(out != nullptr && isthmus::detail::is_acceptable(out));
    auto again = isthmus::Tensor::from_dlpack(out);
    CHECK(again && again->data() == isthmus::detail::exported_data(tensor.descriptor()) &&
          again->dtype() == tensor.dtype());
    if (DLManagedTensor* legacy = tensor.to_dlpack_legacy())
        legacy->deleter(legacy);
    else
        CHECK(tensor.read_only() || tensor.is_padded());
    if (tensor->byte_offset == 0) CHECK(isthmus::from_blob(isthmus::to_blob(tensor)).has_value());
    CHECK(tensor.as_read_only().read_only());
}

template <class Managed>
void take(const DLTensor& t, std::uint64_t flags, DLPackVersion version, bool readable) {
    Managed managed{};
    managed.dl_tensor = t;
    managed.deleter = count_delete<Managed>;
    if constexpr (requires { managed.version; }) {
        managed.version = version;
        managed.flags = flags;
    } else {
        flags = 0;
        version.major = 1;
    }
    deletes = 0;
    {
        auto tensor = isthmus::Tensor::from_dlpack(&managed);
        const bool sound = version.major == 1 && slow_is_sound(t, flags);
        CHECK(tensor.has_value() == sound);
        CHECK(deletes == (sound ? 0 : 1));
        if (!sound) {
            CHECK(tensor.error().what()[0] != '\0');
            return;
        }
        use(*tensor);
        if (readable && tensor->device().is_host()) {
            auto copy = isthmus::copy_of(tensor->descriptor(), tensor->flags());
            CHECK(copy && copy->is_contiguous() && copy->nbytes() == tensor->nbytes());
        }
    }
    CHECK(deletes == 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Input in{data, size};
    const auto kind = in.take<std::uint8_t>();
    const auto real_memory = in.take<std::uint8_t>();
    const auto parts = in.take<std::uint8_t>();
    const auto major = in.take<std::uint8_t>();
    DLTensor t{};
    const auto flags = in.take<std::uint64_t>();
    const auto address = in.take<std::uint64_t>();
    t.byte_offset = in.take<std::uint64_t>();
    t.device.device_type = static_cast<DLDeviceType>(in.take<std::int32_t>());
    t.device.device_id = in.take<std::int32_t>();
    t.ndim = in.take<std::int32_t>();
    t.dtype.code = in.take<std::uint8_t>();
    t.dtype.bits = in.take<std::uint8_t>();
    t.dtype.lanes = in.take<std::uint16_t>();
    t.data = reinterpret_cast<void*>(address);

    // As many sizes and strides as there are dimensions to read, and not one more: a sanitizer sees who reads further.
    const std::size_t ndim = t.ndim > 0 && t.ndim <= isthmus::max_ndim ? static_cast<std::size_t>(t.ndim) : 0;
    std::vector<std::int64_t> shape(ndim), strides(ndim);
    for (std::size_t i = 0; i < ndim; ++i) shape[i] = in.take<std::int64_t>();
    for (std::size_t i = 0; i < ndim; ++i) strides[i] = in.take<std::int64_t>();
    if (parts & 1) t.shape = shape.data();
    if (parts & 2) t.strides = strides.data();

    // Where the descriptor asks for little memory it gets exactly that much, so that a read beyond is seen.
    void* memory = nullptr;
    if ((real_memory & 1) && t.byte_offset < 4096) {
        const auto offset = t.byte_offset;
        t.data = reinterpret_cast<void*>(std::uintptr_t{1} << 40);
        t.byte_offset = 0;
        Wide first = 0, last = 0;
        if (slow_is_sound(t, (kind & 1) ? flags : 0) && t.data != nullptr) {
            bool empty = false;
            for (std::int64_t n : shape) empty = empty || n == 0;
            if (!empty && reach(t, first, last) && last - first < (1 << 16)) {
                const isthmus::DType dtype = t.dtype;
                const bool packed = dtype.is_subbyte() && !((kind & 1) && (flags & 4));
                std::int64_t count = 1;
                for (std::int64_t n : shape) count *= n;
                if (count * dtype.itemsize() < (1 << 16)) {
                    if (packed) last = first + (Wide(count) * dtype.element_bits() + 7) / 8 - 1;
                    const Wide bytes = last - first + 1;
                    const auto pad = static_cast<std::size_t>((16 - (-first) % 16) % 16);
                    memory = std::aligned_alloc(16, (static_cast<std::size_t>(bytes) + pad + offset + 15) / 16 * 16);
                    std::memset(memory, 7, static_cast<std::size_t>(bytes) + pad + offset);
                    t.data = static_cast<char*>(memory) + pad + static_cast<std::size_t>(-first);
                    t.byte_offset = offset;
                }
            }
        }
        if (memory == nullptr) {
            t.data = reinterpret_cast<void*>(address);
            t.byte_offset = offset;
        }
    }
    const DLPackVersion version{major, 3};
    if (kind & 1)
        take<DLManagedTensorVersioned>(t, flags, version, memory != nullptr);
    else
        take<DLManagedTensor>(t, 0, version, memory != nullptr);
    std::free(memory);
    return 0;
}
