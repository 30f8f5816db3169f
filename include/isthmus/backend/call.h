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

template <int row, class Signature, bool is_noexcept>
struct BackendCall;
template <int row, class R, class... A, bool is_noexcept>
struct BackendCall<row, R(A...), is_noexcept> {
    using Slot = BackendSlot<R(A...), is_noexcept>;

    template <class... X>
    ISTHMUS_ALWAYS_INLINE static R call(X&&... x) noexcept(is_noexcept) {
        const auto f = reinterpret_cast<typename Slot::Type>(backend_table->functions[row]);
        if constexpr (Slot::Result::is_text) {
            TextBuffer text;
            run(f, x..., &text);
            return text.str();
        } else if constexpr (std::is_same_v<R, Error>) {
            return Error(run(f, x...));
        } else if constexpr (std::is_same_v<R, Result<void>>) {
            ErrorState* failed = run(f, x...);
            return failed != nullptr ? Result<void>(Error(failed)) : Result<void>();
        } else if constexpr (is_result<R>) {
            return run_for_result(f, x...);
        } else {
            return run(f, x...);
        }
    }

private:
    using F = typename Slot::Type;
    using C = typename Slot::C;

    // A result is declared in the outermost block of its function: elsewhere GCC before 14 moves it out.
    ISTHMUS_ALWAYS_INLINE static R run_for_result(F f, std::remove_reference_t<A>&... x) noexcept(is_noexcept) {
        R made = run(f, x...);
        // The Error is made again, so that its functions are this module's.
        if (ISTHMUS_UNLIKELY(!made)) made.fail(Error(made.error().release()));
        return made;
    }
    template <class... Out>
    ISTHMUS_ALWAYS_INLINE static C run(F f, std::remove_reference_t<A>&... x, Out*... out) noexcept(is_noexcept) {
        if constexpr (is_noexcept) {
            return f(Border<A>::lower(x)..., out...);
        } else if constexpr (std::is_void_v<C>) {
            ErrorState* raised = nullptr;
            f(Border<A>::lower(x)..., out..., &raised);
            if (ISTHMUS_UNLIKELY(raised != nullptr)) throw_raised(raised);
        } else {
            return run_that_throws(f, x..., out...);
        }
    }
    template <class... Out>
    ISTHMUS_ALWAYS_INLINE static C run_that_throws(F f, std::remove_reference_t<A>&... x, Out*... out) {
        ErrorState* raised = nullptr;
        auto made = f(Border<A>::lower(x)..., out..., &raised);
        if (ISTHMUS_UNLIKELY(raised != nullptr)) throw_raised(raised);
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
