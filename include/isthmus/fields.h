// Structs of tensors: one declaration of the fields, taken from any form that Python has of them and returned in it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#define ISTHMUS_FIELDS 1  // <isthmus/python.h> comes last, as in arguments.h

#include <isthmus/python/arguments.h>  // Python.h must come before any standard header

#include <array>
#include <span>
#include <string>
#include <tuple>

ISTHMUS_BEGIN

namespace detail {

/// References to the members, in their order.
template <class S>
constexpr auto members_of(S& s) noexcept {
    constexpr int n = std::remove_const_t<S>::fields::count;
    // clang-format off
    if constexpr (n == 1) { auto& [a] = s; return std::tie(a); }
    else if constexpr (n == 2) { auto& [a, b] = s; return std::tie(a, b); }
    else if constexpr (n == 3) { auto& [a, b, c] = s; return std::tie(a, b, c); }
    else if constexpr (n == 4) { auto& [a, b, c, d] = s; return std::tie(a, b, c, d); }
    else if constexpr (n == 5) { auto& [a, b, c, d, e] = s; return std::tie(a, b, c, d, e); }
    else if constexpr (n == 6) { auto& [a, b, c, d, e, f] = s; return std::tie(a, b, c, d, e, f); }
    else if constexpr (n == 7) { auto& [a, b, c, d, e, f, g] = s; return std::tie(a, b, c, d, e, f, g); }
    else if constexpr (n == 8) { auto& [a, b, c, d, e, f, g, h] = s; return std::tie(a, b, c, d, e, f, g, h); }
    else if constexpr (n == 9) { auto& [a, b, c, d, e, f, g, h, i] = s; return std::tie(a, b, c, d, e, f, g, h, i); }
    else if constexpr (n == 10) { auto& [a, b, c, d, e, f, g, h, i, j] = s;
        return std::tie(a, b, c, d, e, f, g, h, i, j); }
    else if constexpr (n == 11) { auto& [a, b, c, d, e, f, g, h, i, j, k] = s;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k); }
    else if constexpr (n == 12) { auto& [a, b, c, d, e, f, g, h, i, j, k, l] = s;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l); }
    else if constexpr (n == 13) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = s;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m); }
    else if constexpr (n == 14) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o] = s;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o); }
    else if constexpr (n == 15) { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p] = s;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p); }
    else { auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q] = s;
        return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, o, p, q); }
    // clang-format on
}

template <class S>
using MembersOf = decltype(members_of(std::declval<S&>()));

/// "csr": the format of the struct, if sparse matrices differ only by that; empty if it declares none.
template <class S>
constexpr std::string_view sparse_format_of() noexcept {
    if constexpr (requires { S::sparse_format; })
        return S::sparse_format;
    else
        return {};
}

/// How an object shows its fields.
enum class FieldForm : std::uint8_t {
    mapping,     ///< by key: a dict, what a module's state_dict() returns
    attributes,  ///< a dataclass, a named tuple, a matrix of SciPy or JAX, any object
    sequence,    ///< in their order: a tuple, a list
    methods,     ///< a sparse tensor of torch
    columns,     ///< a record batch of Arrow
};

class FieldSource;

// As an argument: every field borrowed for the length of the call, or none.

/// A field, once an object was read: what was found, and what errors call it.
struct LoadedField {
    Ref object;
    TextBuffer path;  // with a NUL at its end
    bool loaded = false;

    const char* name() const noexcept { return path.view().data(); }
};
/// The struct being loaded, its loaders and its fields' states, without their types.
struct FieldsTarget {
    void* loaders;
    void* value;
    LoadedField* states;
};
/// The name of the argument in errors, and the named sizes that it shares. `function` and `argument` may be NULL.
struct FieldsCall {
    const char* function;
    const char* argument;
    Match* match;
};
/// How one field is loaded. `load_from` is of a struct within the struct, which may lie in a mapping of dotted names;
/// else NULL.
struct FieldFacts {
    bool is_optional;
    Loaded (*load)(const FieldsTarget&, PyObject*, const FieldsCall&) noexcept;
    Loaded (*load_from)(const FieldsTarget&, const FieldSource&, const FieldsCall&) noexcept;
    bool (*commit)(const FieldsTarget&, const FieldsCall&) noexcept;
    void (*roll_back)(const FieldsTarget&, PyObject*) noexcept;
};
struct FieldsTable {
    const char* const* names;
    const FieldFacts* rows;
    int count;
    TextRef sparse_format;

    Loaded load(const FieldsTarget& target, PyObject* object, const FieldsCall& call) const noexcept;
    Loaded load_from(const FieldsTarget& target, const FieldSource& source, const FieldsCall& call) const noexcept;
    bool commit(const FieldsTarget& target, const char* function) const noexcept;
    void roll_back(const FieldsTarget& target) const noexcept;
};

/// Loaded::no for a mismatch, whose exception is cleared, so that the next overload is tried.
Loaded pass_on_fields(Loaded loaded) noexcept;
/// The Python exception that is set, as an Error.
[[noreturn]] ISTHMUS_RARE void throw_exception_of(const char* argument);

bool load_integers(PyObject* object, std::int64_t* out, std::size_t count, const char* function,
                   const char* argument) noexcept;
/// A fixed number of integers: the shape of a matrix.
template <std::size_t n>
struct ArgumentLoader<std::array<std::int64_t, n>> : PlainLoader<std::array<std::int64_t, n>> {
    static Loaded load(PyObject* object, std::array<std::int64_t, n>& value, const char* function, const char* argument,
                       Match*) noexcept {
        return load_integers(object, value.data(), n, function, argument) ? Loaded::yes : Loaded::raised;
    }
};

template <class Members>
struct FieldLoaders;
template <class... M>
struct FieldLoaders<std::tuple<M&...>> {
    using Loaders = std::tuple<Unzeroed<ArgumentLoader<M>>...>;
};

template <class S, std::size_t i>
struct FieldRow {
    using Loaders = typename FieldLoaders<MembersOf<S>>::Loaders;
    using Member = std::remove_reference_t<std::tuple_element_t<i, MembersOf<S>>>;

    static auto& loader(const FieldsTarget& target) noexcept {
        return std::get<i>(*static_cast<Loaders*>(target.loaders)).of;
    }
    static Member& member(const FieldsTarget& target) noexcept {
        return std::get<i>(members_of(*static_cast<S*>(target.value)));
    }
    static Loaded load(const FieldsTarget& target, PyObject* object, const FieldsCall& call) noexcept {
        static_assert(!is_distinct<Member>, ISTHMUS_NOT_COMPARED);
        return loader(target).load(object, member(target), call.function, call.argument, call.match);
    }
    static Loaded load_from(const FieldsTarget& target, const FieldSource& source, const FieldsCall& call) noexcept {
        if constexpr (HasFields<Member>) return loader(target).load_from(source, member(target), call);
        return Loaded::no;
    }
    static bool commit(const FieldsTarget& target, const FieldsCall& call) noexcept {
        return loader(target).commit(call.function, call.argument);
    }
    static void roll_back(const FieldsTarget& target, PyObject* object) noexcept {
        loader(target).roll_back(object, member(target));
    }
    static constexpr FieldFacts facts{is_optional<Member>, load, HasFields<Member> ? load_from : nullptr, commit,
                                      roll_back};
};

template <class S, class Indices>
struct FieldRows;
template <class S, std::size_t... i>
struct FieldRows<S, std::index_sequence<i...>> {
    static constexpr FieldFacts rows[] = {FieldRow<S, i>::facts...};
    static constexpr FieldsTable table{S::fields::names, rows, S::fields::count, TextRef(sparse_format_of<S>())};
};

/// With a name a mismatch raises; without one the next overload is tried.
template <HasFields S>
struct ArgumentLoader<S> {
    ArgumentLoader() = default;
    ArgumentLoader(const ArgumentLoader&) = delete;
    ArgumentLoader& operator=(const ArgumentLoader&) = delete;
    ~ArgumentLoader() {
        if (ISTHMUS_UNLIKELY(taken_ != nullptr)) roll_back(nullptr, *taken_);
    }

    Loaded try_load(PyObject* object, S& value, bool) noexcept {
        return pass_on_fields(load(object, value, nullptr, nullptr, nullptr));
    }
    Loaded load(PyObject* object, S& value, const char* function, const char* argument, Match* match) noexcept {
        if (taken_ != nullptr) roll_back(nullptr, *taken_);
        return keep(Rows::table.load(target(value), object, {function, argument, match}), value);
    }
    Loaded load_from(const FieldSource& source, S& value, const FieldsCall& call) noexcept {
        return keep(Rows::table.load_from(target(value), source, call), value);
    }
    bool commit(const char* function, const char*) noexcept {
        return taken_ == nullptr || Rows::table.commit(target(*std::exchange(taken_, nullptr)), function);
    }
    void commit_or_throw(const char* function = nullptr, const char* argument = nullptr) {
        if (ISTHMUS_UNLIKELY(!commit(function, argument))) throw_exception_of(argument);
    }
    void roll_back(PyObject*, S& value) noexcept {
        taken_ = nullptr;
        Rows::table.roll_back(target(value));
    }

private:
    using Rows = FieldRows<S, std::make_index_sequence<static_cast<std::size_t>(S::fields::count)>>;
    FieldsTarget target(S& value) noexcept { return {&loaders_, &value, states_}; }
    Loaded keep(Loaded loaded, S& value) noexcept {
        if (loaded == Loaded::yes) taken_ = &value;
        return loaded;
    }

    LoadedField states_[static_cast<std::size_t>(S::fields::count)];
    typename FieldLoaders<MembersOf<S>>::Loaders loaders_;
    S* taken_ = nullptr;  // in the caller's hands, which outlive this; NULL once the call takes place
};

// As a result, in the form of an argument: a dict, a dataclass, a sparse matrix, ….

/// Makes one member of a struct a Python object; NULL with the exception set. `like` is the field of the argument, or
/// NULL.
using FieldToPy = Ref (*)(const void* value, PyObject* like, FieldForm form);
struct ReplyTable;
struct ReplyRow {
    FieldToPy to_py;
    const void* (*member)(const void* value) noexcept;
    const ReplyTable* within;  ///< of a member that is a struct; else NULL
};
struct ReplyTable {
    const char* const* names;
    const ReplyRow* rows;
    int count;
    TextRef sparse_format;
};
/// A struct in the form of `like`; a dict if that is NULL, or cannot show its fields.
Ref struct_to_py(const ReplyTable& table, const void* value, PyObject* like);

Ref member_to_py(const Tensor& member, PyObject* like, FieldForm form);
Ref member_to_py(std::span<const std::int64_t> member);

template <class V>
Ref owned_member_to_py(const Owned<V>& member, PyObject* like, FieldForm form) {
    if constexpr (requires { result_to_py(member); })  // of isthmus/records.h
        return Ref(result_to_py(member));
    else
        return member_to_py(member.tensor(), like, form);
}

template <class S>
struct ReplyOf;

template <class M>
Ref field_to_py(const void* value, [[maybe_unused]] PyObject* like, [[maybe_unused]] FieldForm form) {
    const M& member = *static_cast<const M*>(value);
    if constexpr (std::is_same_v<M, Tensor>) {
        return member_to_py(member, like, form);
    } else if constexpr (is_owned<M>) {
        return owned_member_to_py(member, like, form);
    } else if constexpr (std::is_same_v<M, bool>) {
        return Ref(PyBool_FromLong(member));
    } else if constexpr (std::is_integral_v<M>) {
        return Ref(PyLong_FromLongLong(member));
    } else if constexpr (std::is_floating_point_v<M>) {
        return Ref(PyFloat_FromDouble(member));
    } else if constexpr (HasFields<M>) {
        return struct_to_py(ReplyOf<M>::table, value, like);
    } else if constexpr (requires { member.has_value(); }) {
        return member ? field_to_py<std::remove_cvref_t<decltype(*member)>>(&*member, like, form)
                      : Ref::borrow(Py_None);
    } else if constexpr (requires { std::tuple_size<M>::value; }) {
        return member_to_py(std::span<const std::int64_t>(member));
    } else {
        static_assert(!is_view<M>,
                      "isthmus: what is borrowed ends with the call; a struct that is returned has Tensors");
        static_assert(is_view<M>,
                      "isthmus: a returned field is a Tensor, a number, a bool, an array of integers, a struct, or an "
                      "optional of these");
    }
}

template <class S, class Indices>
struct ReplyRows;
template <class S, std::size_t... i>
struct ReplyRows<S, std::index_sequence<i...>> {
    template <std::size_t at>
    using Member = std::remove_cvref_t<std::tuple_element_t<at, MembersOf<S>>>;
    template <std::size_t at>
    static const void* member(const void* value) noexcept {
        return &std::get<at>(members_of(*static_cast<const S*>(value)));
    }
    template <std::size_t at>
    static constexpr const ReplyTable* within() noexcept {
        if constexpr (HasFields<Member<at>>)
            return &ReplyOf<Member<at>>::table;
        else
            return nullptr;
    }
    static constexpr ReplyRow rows[] = {{field_to_py<Member<i>>, member<i>, within<i>()}...};
};
template <class S>
struct ReplyOf {
    using Rows = ReplyRows<S, std::make_index_sequence<static_cast<std::size_t>(S::fields::count)>>;
    static constexpr ReplyTable table{S::fields::names, Rows::rows, S::fields::count, TextRef(sparse_format_of<S>())};
};

/// "typing.Annotated[typing.Any, 'indptr: int32[rows+1] on cpu; data: float64[nnz] on cpu']"
template <HasFields S>
struct Annotation<S> {
    template <class M>
    static constexpr void spell_member(Words& words, const char* name, bool first) {
        if (!first) words.add("; ");
        words.add(std::string_view(name));
        if constexpr (is_view<M>) {
            words.add(": ");
            if (M::requirement.writable) words.add("writable ");
            words.add(M::words());
        }
    }
    template <class M>
    struct OwnView : std::type_identity<M> {};
    template <class V>
    struct OwnView<Owned<V>> : std::type_identity<V> {};
    template <std::size_t... i>
    static constexpr void spell_members(Words& words, std::index_sequence<i...>) {
        (spell_member<typename OwnView<std::remove_reference_t<std::tuple_element_t<i, MembersOf<S>>>>::type>(
             words, S::fields::names[i], i == 0),
         ...);
    }
    static constexpr void spell(Words& words) {
        words.add("typing.Annotated[typing.Any, '");
        spell_members(words, std::make_index_sequence<static_cast<std::size_t>(S::fields::count)>{});
        words.add("']");
    }
    static constexpr ConstexprString<spell> text{};
};

}  // namespace detail

/// A struct of Tensors in the form that it says: a new reference; NULL with an exception set.
template <detail::HasFields S>
PyObject* fields_to_py(const FieldsReply<S>& reply) noexcept {
    return detail::struct_to_py(detail::ReplyOf<S>::table, &reply.fields, reply.like).release();
}
/// As fields_to_py(): what a binder calls.
template <detail::HasFields S>
PyObject* result_to_py(const FieldsReply<S>& reply) noexcept {
    return fields_to_py(reply);
}

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_FIELDS)
ISTHMUS_BEGIN
namespace detail {
inline void throw_exception_of(const char* argument) {
    backend::throw_exception(argument);
    ISTHMUS_UNREACHABLE();
}
}  // namespace detail
ISTHMUS_END
#endif

#include <isthmus/python.h>  // last: with ISTHMUS_IMPLEMENTATION it brings the sources, which need the above
