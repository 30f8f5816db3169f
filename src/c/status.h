// Errors of C++ as status codes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <new>
#include <string>

#include <isthmus/c/isthmus.h>
#include <isthmus/isthmus.h>

namespace isthmus_c {

/// Keeps the error for isthmus_last_error() and returns its number. Allocates nothing, since memory may have run out.
isthmus_status fail(isthmus_status status, const char* text) noexcept;

/// The boundary between C++ and C: runs `f`, and turns whatever it throws into a status. Defers pthread_cancel until it is
/// done.
template <class F>
isthmus_status guarded(F&& f) noexcept {
    const isthmus::detail::NoCancellation whole;
    try {
        f();
        return ISTHMUS_OK;
    } catch (const isthmus::Error& e) {
        return fail(static_cast<isthmus_status>(e.code()), e.what());
    } catch (const std::bad_alloc&) {
        return fail(ISTHMUS_OUT_OF_MEMORY, "no memory");
    } catch (const std::exception& e) {
        return fail(ISTHMUS_BAD_ARGUMENT, e.what());
    } catch (...) {
        return fail(ISTHMUS_BAD_ARGUMENT, "an exception of an unknown type");
    }
}

inline void require(const void* pointer, const char* argument) {
    if (pointer == nullptr)
        throw isthmus::Error(isthmus::ErrorCode::bad_argument,
                             "argument '" + std::string(argument) + "': NULL; wanted a pointer");
}

/// A name in an array of the caller, which may lack the NUL: never reads past the array.
template <std::size_t N>
std::string_view bounded(const char (&name)[N]) noexcept {
    std::size_t size = 0;
    while (size < N && name[size] != '\0') ++size;
    return {name, size};
}

}  // namespace isthmus_c
