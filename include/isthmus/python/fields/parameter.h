// A struct of tensors as an argument: every field borrowed for the length of the call, or none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/fields/source.h>  // Python.h must come before any standard header

#include <array>
#include <string>
#include <utility>

#include <isthmus/python/arguments.h>
#include <isthmus/python/fields/declare.h>
#include <isthmus/python/incoming.h>

ISTHMUS_BEGIN

namespace detail {

template <class Members>
struct FieldParameters;
template <class... M>
struct FieldParameters<std::tuple<M&...>> {
    using type = std::tuple<Parameter<M>...>;
};

/// A fixed number of integers: the shape of a matrix.
template <std::size_t n>
struct Parameter<std::array<std::int64_t, n>> : PlainParameter<std::array<std::int64_t, n>> {
    bool load(PyObject* object, const char* function, const char* argument, Match& match) {
        Ref items(PySequence_Fast(object, ""));
        if (!items || PySequence_Fast_GET_SIZE(items.get()) != static_cast<Py_ssize_t>(n)) {
            const std::string wanted = concat({"a sequence of ", n, " integers"});
            return raise_type(function, argument, wanted.c_str(), object);
        }
        Parameter<std::int64_t> one;
        for (std::size_t i = 0; i < n; ++i) {
            const Ref item = sequence_item(items.get(), static_cast<Py_ssize_t>(i));
            if (!item || !one.load(item.get(), function, argument, match)) return false;
            this->held[i] = one.held;
        }
        return true;
    }
};

/// Sets the exception for a field that is missing, or keeps the one that asking for it raised.
ISTHMUS_COLD inline bool raise_missing(const FieldSource& source, const char* function, const char* argument, const char* name,
                                       std::span<const char* const> names) {
    if (PyErr_Occurred() != nullptr) {
        if (passes_through(PyErr_Occurred())) return false;
        set_python_error(error_from_exception(ErrorCode::producer_failed, nullptr,
                                              {call_prefix(function, argument), "asking for this field"}));
        return false;
    }
    std::string all;
    for (const char* each : names) all += concat({all.empty() ? "'" : ", '", source.key_of(each), "'"});
    set_python_error(make_error(ErrorCode::not_a_tensor, {call_prefix(function, argument), "this ", type_name(source.object()),
                                                          " has no '", source.key_of(name), "'; wanted the fields ", all}));
    return false;
}

template <HasFields S>
struct Parameter<S> {
    using Fields = typename S::fields;
    static constexpr int count = Fields::count;
    static constexpr bool required = true;
    using Indices = std::make_index_sequence<static_cast<std::size_t>(count)>;

    S held{};
    S& value() noexcept { return held; }

    bool load(PyObject* object, const char* function, const char* argument, Match& match) {
        FieldSource source;
        Result<void> opened = source.open(object, detail::sparse_format_of<S>(), Fields::names);
        if (!opened) {
            set_python_error(opened.error().prefixed(call_prefix(function, argument)));
            return false;
        }
        return load_from(source, function, argument, match);
    }
    bool load_from(const FieldSource& source, const char* function, const char* argument, Match& match) {
        if (load_all(source, function, argument, match, Indices{})) return true;
        const PendingException refused;
        give_back(nullptr);
        return false;
    }
    /// Gives back what was taken for a call that will not be made.
    void give_back(PyObject*) noexcept { give_back_all(Indices{}); }
    bool announce(const char* function, const char*) noexcept { return announce_all(function, Indices{}); }

private:
    template <std::size_t... i>
    bool load_all(const FieldSource& source, const char* function, const char* argument, Match& match,
                  std::index_sequence<i...>) {
        const bool named = argument != nullptr && *argument != '\0';
        for (std::size_t f = 0; f < static_cast<std::size_t>(count); ++f) {
            paths_[f] = concat({named ? argument : "", named ? "." : "", Fields::names[f]});
            loaded_[f] = whole_ = false;
        }
        if (!(load_one<i>(source, function, argument, match) && ...)) return false;
        members_of(held) = std::tuple(std::move(std::get<i>(parameters_).value())...);
        return whole_ = true;
    }
    template <std::size_t i>
    bool load_one(const FieldSource& source, const char* function, const char* argument, Match& match) {
        auto& parameter = std::get<i>(parameters_);
        using P = std::remove_reference_t<decltype(parameter)>;
        const char *name = Fields::names[i], *path = paths_[i].c_str();
        constexpr bool is_struct = HasFields<std::remove_reference_t<decltype(parameter.value())>>;
        Match of_struct(function);  // a struct within this one has its own named sizes
        objects_[i] = source.get(static_cast<int>(i), name);
        if (objects_[i]) return loaded_[i] = parameter.load(objects_[i].get(), function, path, is_struct ? of_struct : match);
        if (PyErr_Occurred() == nullptr) {
            if constexpr (is_struct)
                if (source.is_mapping())
                    return loaded_[i] = parameter.load_from(source.within(name), function, path, of_struct);
            if constexpr (!P::required) return true;
        }
        return raise_missing(source, function, PyErr_Occurred() != nullptr ? path : argument, name, Fields::names);
    }
    template <std::size_t... i>
    void give_back_all(std::index_sequence<i...>) noexcept {
        (give_back_one<i>(), ...);
        whole_ = false;
    }
    /// A capsule is given back by the object that was made from it.
    template <std::size_t i>
    void give_back_one() noexcept {
        if (!std::exchange(loaded_[i], false)) return;
        auto& parameter = std::get<i>(parameters_);
        if (whole_) parameter.value() = std::move(std::get<i>(members_of(held)));
        parameter.give_back(objects_[i].get());
    }
    template <std::size_t... i>
    bool announce_all(const char* function, std::index_sequence<i...>) noexcept {
        return ((!loaded_[i] || std::get<i>(parameters_).announce(function, paths_[i].c_str())) && ...);
    }

    typename FieldParameters<MembersOf<S>>::type parameters_;
    Ref objects_[static_cast<std::size_t>(count)];
    std::string paths_[static_cast<std::size_t>(count)];
    bool loaded_[static_cast<std::size_t>(count)] = {};
    bool whole_ = false;  // every field's value has moved into `held`
};

/// As a binder's argument. With a name a mismatch raises; without one the next overload is tried.
template <HasFields S>
struct Incoming<S> {
    using Value = S;

    Incoming() = default;
    Incoming(const Incoming&) = delete;
    Incoming& operator=(const Incoming&) = delete;
    ~Incoming() { give_back(); }
    Loaded load(PyObject* object, Value& value, bool) noexcept { return load(object, value, nullptr, nullptr, false); }
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument) noexcept {
        return load(object, value, function, argument, true);
    }
    Result<void> announce(const char* function = nullptr, const char* argument = nullptr) noexcept {
        taken_ = nullptr;
        if (parameter_.announce(function, argument)) return {};
        return error_from_exception(ErrorCode::producer_failed, argument, "announcing a write");
    }

private:
    Loaded load(PyObject* object, Value& value, const char* function, const char* argument, bool raises) noexcept {
        return surviving_exit([&] {
            give_back();
            Match match(function);
            if (parameter_.load(object, function, argument, match)) {
                value = std::move(parameter_.value());
                taken_ = &value;
                return Loaded::yes;
            }
            if (raises || passes_through(PyErr_Occurred())) return Loaded::raised;
            PyErr_Clear();
            return Loaded::no;
        });
    }
    void give_back() noexcept {
        if (taken_ == nullptr) return;
        parameter_.value() = std::move(*std::exchange(taken_, nullptr));
        parameter_.give_back(nullptr);
    }

    Parameter<S> parameter_;
    Value* taken_ = nullptr;  // in the binder's caster, which ends after this; NULL once the call takes place
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
    template <std::size_t... i>
    static constexpr void spell_members(Words& words, std::index_sequence<i...>) {
        (spell_member<std::remove_reference_t<std::tuple_element_t<i, MembersOf<S>>>>(words, S::fields::names[i], i == 0), ...);
    }
    static constexpr void spell(Words& words) {
        words.add("typing.Annotated[typing.Any, '");
        spell_members(words, std::make_index_sequence<static_cast<std::size_t>(S::fields::count)>{});
        words.add("']");
    }
    static constexpr Spelled<spell> text{};
};

}  // namespace detail

ISTHMUS_END
