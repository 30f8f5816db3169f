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

/// Calls a row that returns an object. A result is declared in the outermost block of its function: elsewhere GCC
/// before 14 moves it out.
template <class R, class F, class... X>
ISTHMUS_ALWAYS_INLINE R call_for_result(F f, X&... x) noexcept {
    R made = f(x...);
    remake_error(made);
    return made;
}
template <class R, class F, class... X>
ISTHMUS_ALWAYS_INLINE R call_for_object(F f, X&... x) {
    ErrorState* raised = nullptr;
    R made = f(x..., &raised);
    throw_if_raised(raised);
    if constexpr (has_error_to_remake<R>) remake_error(made);
    return made;
}

/// The call of a row. Every module's file has one for each: the fewer templates it is made of, the sooner it compiles.
template <int row, class Signature, bool is_noexcept>
struct BackendCall;
template <int row, class R, class... A>
struct BackendCall<row, R(A...), true> {
    ISTHMUS_ALWAYS_INLINE static R call(A&... x) noexcept {
        using C = typename BorderResult<R>::C;
        const auto f = reinterpret_cast<C (*)(typename Passed<A>::Type...)>(backend_table->functions[row]);
        if constexpr (has_error_to_remake<R>)
            return call_for_result<R>(f, x...);
        else if constexpr (!std::is_same_v<C, R>)
            return received<R>(f(x...));
        else
            return f(x...);
    }
};
template <int row, class R, class... A>
struct BackendCall<row, R(A...), false> {
    ISTHMUS_ALWAYS_INLINE static R call(A&... x) {
        using C = typename BorderResult<R>::C;
        ErrorState* raised = nullptr;
        if constexpr (BorderResult<R>::is_text) {
            TextBuffer text;
            reinterpret_cast<C (*)(typename Passed<A>::Type..., TextBuffer*, ErrorState**)>(
                backend_table->functions[row])(x..., &text, &raised);
            throw_if_raised(raised);
            return text.str();
        } else {
            const auto f =
                reinterpret_cast<C (*)(typename Passed<A>::Type..., ErrorState**)>(backend_table->functions[row]);
            if constexpr (std::is_void_v<R>) {
                f(x..., &raised);
                throw_if_raised(raised);
            } else if constexpr (std::is_same_v<C, R>) {
                return call_for_object<R>(f, x...);
            } else {
                ErrorState* failed = f(x..., &raised);
                throw_if_raised(raised);
                return received<R>(failed);
            }
        }
    }
};

}  // namespace detail

ISTHMUS_END

// The call of a row by its last column; `sig` are the parameters, with the object of a member function in front.
#define ISTHMUS_BACKEND_CALL_plain(n, R, sig, args) \
    reinterpret_cast<auto(*) sig->R>(::isthmus::detail::backend_table->functions[n]) args
#define ISTHMUS_BACKEND_CALL_true(n, R, sig, args) ::isthmus::detail::BackendCall<n, auto sig->R, true>::call args
#define ISTHMUS_BACKEND_CALL_false(n, R, sig, args) ::isthmus::detail::BackendCall<n, auto sig->R, false>::call args
#define ISTHMUS_BACKEND_QUIET_plain true
#define ISTHMUS_BACKEND_QUIET_true true
#define ISTHMUS_BACKEND_QUIET_false false

// What a group of rows becomes in a module: inline functions of the same names as the library's.
#define ISTHMUS_BACKEND_DEFINE_F(n, row, R, name, params, args, quiet)   \
    inline auto name params noexcept(ISTHMUS_BACKEND_QUIET_##quiet)->R { \
        return ISTHMUS_BACKEND_CALL_##quiet(n, R, params, args);         \
    }
#define ISTHMUS_BACKEND_DEFINE_M(n, row, R, C, name, params, args, cv, quiet)                              \
    inline auto C::name params cv noexcept(ISTHMUS_BACKEND_QUIET_##quiet)->R {                             \
        return ISTHMUS_BACKEND_CALL_##quiet(n, R, ISTHMUS_BACKEND_SELF(cv C, ISTHMUS_BACKEND_LIST params), \
                                            ISTHMUS_BACKEND_WITH(ISTHMUS_BACKEND_LIST args));              \
    }
#define ISTHMUS_BACKEND_DEFINE_T(n, row, R, C, name, params, args, cv, quiet) \
    template <>                                                               \
    ISTHMUS_BACKEND_DEFINE_M(n, row, R, C, name, params, args, cv, quiet)
#define ISTHMUS_BACKEND_DEFINE_X(n, row, R, params, args, expression, quiet) \
    namespace detail::backend {                                              \
    inline auto row params noexcept(ISTHMUS_BACKEND_QUIET_##quiet) -> R {    \
        return ISTHMUS_BACKEND_CALL_##quiet(n, R, params, args);             \
    }                                                                        \
    }
#define ISTHMUS_BACKEND_DEFINE(group)                                                                             \
    ISTHMUS_BEGIN                                                                                                 \
    group(ISTHMUS_BACKEND_DEFINE_F, ISTHMUS_BACKEND_DEFINE_M, ISTHMUS_BACKEND_DEFINE_T, ISTHMUS_BACKEND_DEFINE_X) \
        ISTHMUS_END
