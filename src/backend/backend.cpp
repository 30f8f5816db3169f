// The backend of modules of the stable ABI: the bridge behind a table of C functions, in a capsule.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python.h>  // Python.h must come before any standard header

#include <new>

#include <isthmus/array_like.h>
#include <isthmus/backend/border.h>
#include <isthmus/backend/functions.h>
#include <isthmus/converted.h>
#include <isthmus/core/deleter.h>
#include <isthmus/core/live.h>
#include <isthmus/fields.h>
#include <isthmus/load.h>
#include <isthmus/op.h>
#include <isthmus/owned.h>
#include <isthmus/python/call_arguments.h>
#include <isthmus/python/containers.h>
#include <isthmus/python/overloads.h>
#include <isthmus/python/value_arguments.h>
#include <isthmus/records.h>
#include <isthmus/shared.h>
#include <isthmus/tensor_protocol.h>
#include <isthmus/tree.h>
#include "../bridge/framework/torch/shims.h"
#include "../bridge/runtime/errors.h"
#include "../bridge/runtime/session.h"
#include "backend.h"

ISTHMUS_BEGIN

namespace detail {

/// Runs `f`, and hands the Error that it throws to the caller. Other exceptions pass on.
template <class F>
auto handing_over(ErrorState** raised, F&& f) -> decltype(f()) {
    using C = decltype(f());
    try {
        return f();
    } catch (Error& error) {
        *raised = error.release();
    } catch (const std::bad_alloc&) {
        *raised = no_memory_error_state();
    }
    if constexpr (std::is_default_constructible_v<C>) {
        return C();
    } else if constexpr (!std::is_void_v<C>) {
        alignas(C) unsigned char nothing[sizeof(C)]{};
        return *std::launder(reinterpret_cast<C*>(nothing));
    }
}

/// Whether all of a row crosses as it is.
template <class Signature>
inline constexpr bool is_plain = false;
template <class R, class... A>
inline constexpr bool is_plain<R(A...)> = std::is_same_v<typename BorderResult<R>::C, R> && !is_result<R> &&
                                          (std::is_same_v<typename Passed<A>::Type, A> && ...);

/// A row: the C function around `F`, which has the C++ signature.
template <class F, class Signature, bool is_noexcept>
struct BackendEntry;
template <class F, class R, class... A, bool is_noexcept>
struct BackendEntry<F, R(A...), is_noexcept> {
    using Slot = BackendSlot<R(A...), is_noexcept>;
    using C = typename Slot::C;

    static C run(typename Border<A>::C&... x) {
        if constexpr (std::is_same_v<R, Error>) {
            return F{}(Border<A>::raise(x)...).release();
        } else if constexpr (std::is_same_v<R, Result<void>>) {
            Result<void> result = F{}(Border<A>::raise(x)...);
            return result ? nullptr : result.error().release();
        } else {
            return F{}(Border<A>::raise(x)...);
        }
    }
    static void write(TextBuffer* text, typename Border<A>::C&... x) { *text += F{}(Border<A>::raise(x)...); }

    static C quiet(typename Border<A>::C... x) noexcept { return run(x...); }
    static C throwing(typename Border<A>::C... x, ErrorState** raised) {
        return handing_over(raised, [&]() -> C { return run(x...); });
    }
    static void throwing_text(typename Border<A>::C... x, TextBuffer* text, ErrorState** raised) {
        handing_over(raised, [&] { write(text, x...); });
    }
    static constexpr typename Slot::Type get() noexcept {
        if constexpr (Slot::Result::is_text)
            return throwing_text;
        else if constexpr (is_noexcept)
            return quiet;
        else
            return throwing;
    }
};

template <class Text>
bool read_text(PyObject* object, Text& text, const char* function, const char* argument) noexcept {
    std::string_view value;
    const bool is_read = read_scalar(object, value, function, argument);
    text.data = value.data();
    text.size = value.size();
    return is_read;
}

/// Shows each tensor of live() to `add`, until that has no memory.
bool show_live(void* to, bool (*add)(void* to, const LiveFacts& facts)) {
    for (const LiveTensor& t : live()) {
        const LiveFacts facts{t.serial,
                              t.data,
                              t.nbytes,
                              t.shape.data(),
                              t.shape.size(),
                              t.dtype,
                              t.device,
                              t.read_only,
                              t.borrowed,
                              t.handles,
                              TextRef(t.producer),
                              TextRef(t.consumer),
                              t.age,
                              TextRef(t.place),
                              TextRef(t.cpp_place)};
        if (!add(to, facts)) return false;
    }
    return true;
}

const TensorFile& as_file(const void* file) noexcept { return *static_cast<const TensorFile*>(file); }
void count_file(const void* file, std::size_t* entries, std::size_t* texts) noexcept {
    *entries = as_file(file).size();
    *texts = as_file(file).metadata().size();
}
FileEntry entry_of_file(const void* file, std::size_t i) noexcept {
    const TensorEntry& entry = as_file(file).entries()[i];
    return {TextRef(entry.name), entry.dtype, entry.shape.data(), entry.shape.size(), entry.begin, entry.end};
}
void text_of_file(const void* file, std::size_t i, TextRef* key, TextRef* text) noexcept {
    const auto& [name, value] = as_file(file).metadata()[i];
    *key = TextRef(name);
    *text = TextRef(value);
}

/// Hands each leaf of a tree to `add`, until that has no memory.
Result<void> show_tree(PyObject* root, const ImportOptions& options, void* to,
                       bool (*add)(void* to, TextRef path, Tensor& tensor)) noexcept {
    Result<Tree> tree = Tree::from_py(root, options);
    if (!tree) return std::move(tree).error();
    for (const Tree::Leaf& leaf : tree->leaves()) {
        Tensor tensor = leaf.tensor;
        if (!add(to, TextRef(leaf.path), tensor))
            return make_error(ErrorCode::out_of_memory, "no memory for the leaves of a tree");
    }
    return {};
}

// The last column of a row says what is so: a row that is called as it is and does not cross as it is would break.
#define ISTHMUS_BACKEND_CHECK_plain(row, ...) \
    static_assert(is_plain<__VA_ARGS__>, #row ": a row of which something is converted is not plain")
#define ISTHMUS_BACKEND_CHECK_true(row, ...) \
    static_assert(!is_plain<__VA_ARGS__>, #row ": a row that crosses as it is and throws nothing is plain")
#define ISTHMUS_BACKEND_CHECK_false(row, ...)

#define ISTHMUS_BACKEND_FILL_F(n, row, R, name, params, args, quiet)                                        \
    {                                                                                                       \
        constexpr auto f = [] params -> R { return name args; };                                            \
        ISTHMUS_BACKEND_CHECK_##quiet(row, auto params->R);                                                 \
        functions[n] = reinterpret_cast<Function>(BackendEntry<decltype(f), auto params->R, quiet>::get()); \
    }
#define ISTHMUS_BACKEND_FILL_M(n, row, R, Class, name, params, args, cv, quiet)                        \
    {                                                                                                  \
        constexpr auto f = [] ISTHMUS_BACKEND_SELF(cv Class, ISTHMUS_BACKEND_LIST params) -> R {       \
            return self.name args;                                                                     \
        };                                                                                             \
        using Signature = auto ISTHMUS_BACKEND_SELF(cv Class, ISTHMUS_BACKEND_LIST params)->R;         \
        ISTHMUS_BACKEND_CHECK_##quiet(row, Signature);                                                 \
        functions[n] = reinterpret_cast<Function>(BackendEntry<decltype(f), Signature, quiet>::get()); \
    }
#define ISTHMUS_BACKEND_FILL_X(n, row, R, params, args, expression, quiet)                                  \
    {                                                                                                       \
        constexpr auto f = [] params -> R { return expression; };                                           \
        ISTHMUS_BACKEND_CHECK_##quiet(row, auto params->R);                                                 \
        functions[n] = reinterpret_cast<Function>(BackendEntry<decltype(f), auto params->R, quiet>::get()); \
    }

struct BackendAccess {
    using Function = void (*)();
    Function functions[ISTHMUS_BACKEND_COUNT];

    BackendAccess() noexcept {
#define ISTHMUS_BACKEND_FILL(group) \
    group(ISTHMUS_BACKEND_FILL_F, ISTHMUS_BACKEND_FILL_M, ISTHMUS_BACKEND_FILL_M, ISTHMUS_BACKEND_FILL_X)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_CORE)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_BRIDGE)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_BINDING)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_CONTAINERS)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_ARGUMENTS)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_CAPTURED)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_LIVE)
        // What a row throws, it throws when it is called.
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_LOAD)  // NOLINT(bugprone-unhandled-exception-at-new)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_TREE)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_SHARED)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_OVERLOADS)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_FIELDS)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_ARRAY_LIKE)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_OPERATORS)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_RECORDS)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_VALUES)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_TENSOR_PROTOCOL)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_DISTINCT)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_OWNED)
        ISTHMUS_BACKEND_FILL(ISTHMUS_BACKEND_TORCH)
    }
};

}  // namespace detail

PyObject* backend_capsule() noexcept {
    static const detail::BackendAccess access;
    static const detail::BackendTable table{
        ISTHMUS_BACKEND_COUNT, 100 * (100 * ISTHMUS_VERSION_MAJOR + ISTHMUS_VERSION_MINOR) + ISTHMUS_VERSION_PATCH,
        ISTHMUS_VERSION, &detail::observer, access.functions};
    return PyCapsule_New(const_cast<detail::BackendTable*>(&table), "isthmus._backend.v1", nullptr);
}

ISTHMUS_END
