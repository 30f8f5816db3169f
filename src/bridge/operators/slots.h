// Slots: objects of one type that are constructed in place one after the other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <new>

#include <isthmus/core/config.h>

ISTHMUS_BEGIN

namespace detail {

/// Several objects of type X, constructed in place one after the other, and destroyed together.
template <class X, int max>
class Slots {
public:
    Slots() noexcept {}
    ~Slots() {
        for (int i = 0; i < count_; ++i) (*this)[i].~X();
    }
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;

    int size() const noexcept { return count_; }
    X& operator[](int i) noexcept { return *std::launder(reinterpret_cast<X*>(storage_[i])); }
    /// `make` returns an X.
    template <class F>
    X& add(F&& make) {
        X* made = ::new (static_cast<void*>(storage_[count_])) X(make());
        ++count_;
        return *made;
    }

private:
    int count_ = 0;
    alignas(X) unsigned char storage_[static_cast<std::size_t>(max)][sizeof(X)];
};

}  // namespace detail

ISTHMUS_END
