// SPDX-License-Identifier: Apache-2.0
// Memory that is not ours to free: frames in a camera's ring of buffers, and a file
// that the system has mapped.
#include <isthmus/pybind11.h>

#include <cerrno>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace py = pybind11;

namespace {

// JAX shares host memory that is aligned so, and copies any other.
constexpr std::align_val_t alignment{64};

/// Buffers that are lent out and returned, on any thread. A driver's buffers would be
/// mapped here, not allocated.
class Ring {
public:
    Ring(std::size_t bytes, std::size_t count) {
        for (std::size_t i = 0; i < count; ++i)
            free_.emplace_back(new (alignment) std::uint8_t[bytes]);
    }

    std::uint8_t* take() {
        const std::lock_guard lock(mutex_);
        if (free_.empty())
            throw std::runtime_error(
                "next(): every buffer is in use; drop a frame first");
        std::uint8_t* buffer = free_.back().release();
        free_.pop_back();
        return buffer;
    }
    void give_back(std::uint8_t* buffer) {
        const std::lock_guard lock(mutex_);
        free_.emplace_back(buffer);
    }
    std::size_t available() {
        const std::lock_guard lock(mutex_);
        return free_.size();
    }

private:
    struct Free {
        void operator()(std::uint8_t* buffer) const {
            ::operator delete[](buffer, alignment);
        }
    };
    std::mutex mutex_;
    std::vector<std::unique_ptr<std::uint8_t[], Free>> free_;
};

/// A camera whose picture is a gradient that moves by one pixel a frame.
class Camera {
public:
    Camera(std::uint32_t h, std::uint32_t w, std::uint32_t buffers)
        : h_(h),
          w_(w),
          ring_(std::make_shared<Ring>(std::size_t{h} * w * 3, buffers)) {}

    isthmus::Tensor next() {
        std::uint8_t* buffer = ring_->take();
        // Called once, when the last array over the frame is gone. It holds the ring:
        // frames may outlive the camera.
        auto frame = isthmus::Tensor::wrap(
            buffer, {h_, w_, 3}, {}, isthmus::uint8, isthmus::Device::cpu(),
            [ring = ring_, buffer] { ring->give_back(buffer); });
        expose(frame.view<std::uint8_t, 3>().value());
        return frame;
    }
    std::size_t available() const { return ring_->available(); }

private:
    void expose(isthmus::View<std::uint8_t, 3> pixels) {
        for (std::int64_t i = 0; i < h_; ++i)
            for (std::int64_t j = 0; j < w_; ++j)
                for (std::int64_t c = 0; c < 3; ++c)
                    pixels(i, j, c) =
                        static_cast<std::uint8_t>(i + j + count_ + 80 * c);
        ++count_;
    }

    std::int64_t h_, w_, count_ = 0;
    std::shared_ptr<Ring> ring_;
};

/// The bytes of a mapped file, read-only: a pointer to const says so, and consumers see
/// it.
isthmus::Tensor mapped(const std::string& path) {
    const auto fail = [&] {
        PyErr_SetFromErrnoWithFilename(PyExc_OSError, path.c_str());
        throw py::error_already_set();
    };
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) fail();
    struct stat facts;
    const bool known = fstat(file, &facts) == 0;
    const auto size = static_cast<std::size_t>(known ? facts.st_size : 0);
    void* memory =
        known ? mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0) : MAP_FAILED;
    const int error = errno;
    close(file);  // the mapping needs it no more
    errno = error;
    if (memory == MAP_FAILED) fail();
    const void* bytes = memory;
    return isthmus::Tensor::wrap(bytes, {facts.st_size}, {}, isthmus::uint8,
                                 isthmus::Device::cpu(),
                                 [memory, size] { munmap(memory, size); });
}

}  // namespace

PYBIND11_MODULE(camera, m) {
    py::class_<Camera>(m, "Camera")
        .def(py::init<std::uint32_t, std::uint32_t, std::uint32_t>(), py::arg("h"),
             py::arg("w"), py::arg("buffers"))
        .def("next", &Camera::next)
        .def_property_readonly("available", &Camera::available);
    m.def("mapped", mapped, py::arg("path"));
}
