// How an exception of C++ code is read: by the library, or by the module of the stable ABI whose code threw it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>
#include <stdexcept>

#include <isthmus/python/captured.h>

ISTHMUS_BEGIN

namespace detail {

/// The exception that is being handled.
ISTHMUS_COLD inline CapturedException read_current() noexcept {
    using Kind = CapturedException::Kind;
    try {
        throw;
    } catch (const Error& error) {
        return CapturedException(error);
    } catch (const std::bad_alloc&) {
        return {Kind::memory, "no memory"};
    } catch (const std::invalid_argument& error) {
        return {Kind::value, error.what()};
    } catch (const std::domain_error& error) {
        return {Kind::value, error.what()};
    } catch (const std::length_error& error) {
        return {Kind::value, error.what()};
    } catch (const std::out_of_range& error) {
        return {Kind::index, error.what()};
    } catch (const std::overflow_error& error) {
        return {Kind::overflow, error.what()};
    } catch (const std::exception& error) {
        return {Kind::other, error.what()};
    } catch (...) {
        return {Kind::other, "an exception was thrown that is not a std::exception"};
    }
}

}  // namespace detail

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_CAPTURED)
ISTHMUS_BEGIN
namespace detail {
inline CapturedException capture_current() noexcept { return read_current(); }
inline void raise_current(const char* function) noexcept { raise_captured(function, read_current()); }
}  // namespace detail
ISTHMUS_END
#endif
