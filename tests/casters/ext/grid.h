// SPDX-License-Identifier: Apache-2.0
// A class whose memory is shown without a copy: it is unmapped with the instance, so that a read after that ends the
// process.
#pragma once

#include <isthmus/python/binding.h>  // Python.h must come before any standard header

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>
#else
#include <sys/mman.h>
#endif

#include <span>
#include <vector>

#include <isthmus/python/py_owner.h>
#include <isthmus/tensor_protocol.h>

namespace casters {

using namespace isthmus;

class Grid {
public:
    Grid() : cells_(static_cast<float*>(map())) {
        for (int i = 0; i < 16; ++i) cells_[i] = static_cast<float>(i);
        ++alive;
    }
    Grid(const Grid&) = delete;
    Grid& operator=(const Grid&) = delete;
    ~Grid() {
        unmap(cells_);
        --alive;
    }

    template <class Owner>
    Tensor kept_by(Owner owner) {
        return Tensor::wrap(cells_, {4, 4}, {}, float32, Device::cpu(), std::move(owner));
    }
    template <class Owner>
    Tensor owned_by(Owner owner) {
        return Tensor::own(std::move(owner), std::span(cells_, 16), {4, 4});
    }
    Tensor tensor() { return kept_by(nullptr); }
    const Tensor& member() {
        if (!member_) member_ = tensor();
        return member_;
    }
    Tensor part() { return tensor().slice(0, 0, 4); }  // where JAX finds it aligned
    As<Framework::numpy> numpy() { return tensor(); }
    As<Framework::torch> torch() { return tensor(); }
    Reply like(const Argument<View<const float, 1>>& x) { return x.reply(tensor()); }
    /// Its owner wants the instance when it ends.
    Tensor counted() {
        return kept_by([this] { sum_at_the_end += cells_[15]; });
    }
    /// Needs nobody.
    Tensor copied() { return Tensor::own(std::vector<float>(cells_, cells_ + 16), {4, 4}); }

    static inline int alive = 0;
    static inline float sum_at_the_end = 0;

private:
    static constexpr std::size_t bytes = 4096;
#if defined(_WIN32)
    static void* map() { return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE); }
    static void unmap(void* memory) { VirtualFree(memory, 0, MEM_RELEASE); }
#else
    static void* map() { return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
    static void unmap(void* memory) { munmap(memory, bytes); }
#endif
    float* cells_;
    Tensor member_;
};

/// Classes that every framework takes.
struct Producer : Grid {};
struct Holder {
    Tensor tensor = Tensor::own(std::vector<float>{1, 2, 3});
    void drop() { tensor = {}; }
};
struct Failing {};
inline Tensor fail_to_make(Failing&) { throw Error(ErrorCode::bad_layout, "no tensor today"); }

}  // namespace casters
