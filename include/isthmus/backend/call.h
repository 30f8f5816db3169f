// The front end's side of the border: the table that the module found when it was loaded, and a call through it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <new>

#include <isthmus/backend/border.h>
#include <isthmus/backend/functions.h>

ISTHMUS_BEGIN

namespace detail {

/// The table of the backend, found when the module is loaded (isthmus/backend/bridge.h).
ISTHMUS_STATE const BackendTable* backend_table = nullptr;

inline void throw_raised(ErrorState* raised) {
    Error error(raised);
    if (error.code() == ErrorCode::out_of_memory) throw std::bad_alloc();
    throw Error(std::move(error));
}
ISTHMUS_ALWAYS_INLINE void throw_if_raised(ErrorState* raised) {
    if (ISTHMUS_UNLIKELY(raised != nullptr)) throw_raised(raised);
}

/// Is R a Result that has a value? Its Error is made again, so that the error's functions are this module's.
template <class R>
inline constexpr bool has_error_to_remake = is_result<R> && !std::is_same_v<R, Result<void>>;
template <class T>
ISTHMUS_ALWAYS_INLINE void remake_error(Result<T>& made) noexcept {
    if (ISTHMUS_UNLIKELY(!made)) made.fail(Error(made.error().release()));
}
template <class R>
ISTHMUS_ALWAYS_INLINE R received(ErrorState* failed) noexcept {
    if constexpr (std::is_same_v<R, Error>)
        return Error(failed);
    else
        return failed != nullptr ? R(Error(failed)) : R();
}

/// The call of a row. Every module's file has one for each: the fewer templates it is made of, the sooner it compiles.
template <int row, class Signature, bool is_noexcept>
struct BackendCall;
template <int row, class R, class... A>
struct BackendCall<row, R(A...), true> {
    using F = typename BackendSlot<R(A...), true>::Type;

    ISTHMUS_ALWAYS_INLINE static R call(A&... x) noexcept {
        const auto f = reinterpret_cast<F>(backend_table->functions[row]);
        if constexpr (has_error_to_remake<R>) {
            return call_for_result(f, x...);
        } else if constexpr (std::is_same_v<R, Error> || is_result<R>) {
            return received<R>(f(Border<A>::lower(x)...));
        } else {
            return f(Border<A>::lower(x)...);
        }
    }

private:
    // A result is declared in the outermost block of its function: elsewhere GCC before 14 moves it out.
    ISTHMUS_ALWAYS_INLINE static R call_for_result(F f, A&... x) noexcept {
        R made = f(Border<A>::lower(x)...);
        remake_error(made);
        return made;
    }
};
template <int row, class R, class... A>
struct BackendCall<row, R(A...), false> {
    using Slot = BackendSlot<R(A...), false>;
    using F = typename Slot::Type;

    ISTHMUS_ALWAYS_INLINE static R call(A&... x) {
        const auto f = reinterpret_cast<F>(backend_table->functions[row]);
        if constexpr (std::is_same_v<typename Slot::C, R> && !std::is_void_v<R>) return call_for_object(f, x...);
        ErrorState* raised = nullptr;
        if constexpr (Slot::Result::is_text) {
            TextBuffer text;
            f(Border<A>::lower(x)..., &text, &raised);
            throw_if_raised(raised);
            return text.str();
        } else if constexpr (std::is_void_v<R>) {
            f(Border<A>::lower(x)..., &raised);
            throw_if_raised(raised);
        } else if constexpr (!std::is_same_v<typename Slot::C, R>) {
            ErrorState* failed = f(Border<A>::lower(x)..., &raised);
            throw_if_raised(raised);
            return received<R>(failed);
        }
    }

private:
    ISTHMUS_ALWAYS_INLINE static R call_for_object(F f, A&... x) {
        ErrorState* raised = nullptr;
        R made = f(Border<A>::lower(x)..., &raised);
        throw_if_raised(raised);
        if constexpr (has_error_to_remake<R>) remake_error(made);
        return made;
    }
};

}  // namespace detail

ISTHMUS_END

// What a group of rows becomes in a module: inline functions of the same names as the library's.
#define ISTHMUS_BACKEND_DEFINE_F(n, row, R, name, params, args, quiet) \
    inline auto name params noexcept(quiet)->R { return detail::BackendCall<n, auto params->R, quiet>::call args; }
#define ISTHMUS_BACKEND_DEFINE_M(n, row, R, C, name, params, args, cv, quiet)                                       \
    inline auto C::name params cv noexcept(quiet)->R {                                                              \
        return detail::BackendCall<n, auto ISTHMUS_BACKEND_SELF(cv C, ISTHMUS_BACKEND_LIST params)->R, quiet>::call \
        ISTHMUS_BACKEND_WITH(ISTHMUS_BACKEND_LIST args);                                                            \
    }
#define ISTHMUS_BACKEND_DEFINE_T(n, row, R, C, name, params, args, cv, quiet) \
    template <>                                                               \
    ISTHMUS_BACKEND_DEFINE_M(n, row, R, C, name, params, args, cv, quiet)
#define ISTHMUS_BACKEND_DEFINE_X(n, row, R, params, args, expression, quiet)                                 \
    namespace detail::backend {                                                                              \
    inline auto row params noexcept(quiet) -> R { return BackendCall<n, auto params->R, quiet>::call args; } \
    }
#define ISTHMUS_BACKEND_DEFINE(group)                                                                             \
    ISTHMUS_BEGIN                                                                                                 \
    group(ISTHMUS_BACKEND_DEFINE_F, ISTHMUS_BACKEND_DEFINE_M, ISTHMUS_BACKEND_DEFINE_T, ISTHMUS_BACKEND_DEFINE_X) \
        ISTHMUS_END
