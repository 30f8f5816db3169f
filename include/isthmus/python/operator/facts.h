// What the types of a C++ function say about an operator, as a table that every back end reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <isthmus/python/operator/outputs.h>
#include <isthmus/python/operator/stream.h>

ISTHMUS_BEGIN

namespace detail {

/// The most parameters of one function, results included.
inline constexpr int max_parameters = 24;
inline constexpr int max_results = 8;

enum class ParameterKind : std::uint8_t { tensor, in_out, out, number, integer, boolean, text, stream };

/// One parameter. `requirement` is NULL for a scalar.
struct ParameterFacts {
    ParameterKind kind;
    bool optional = false;  ///< None is an argument
    const Requirement* requirement = nullptr;

    constexpr bool is_tensor() const noexcept { return requirement != nullptr; }
    constexpr bool is_out() const noexcept { return kind == ParameterKind::out; }
};

/// The value of one parameter in a call. A NULL tensor was not given.
union ParameterValue {
    struct Text {
        const char* data;
        std::size_t size;
    };
    const DLTensor* tensor;
    double number;
    std::int64_t integer;
    bool boolean;
    Text text;
    const Stream* stream;
};

/// A function with its types forgotten.
using ErasedFunction = void (*)(const ParameterValue* values);

/// One function of an overload set.
struct OverloadFacts {
    const ParameterFacts* parameters;
    int count;
    ErasedFunction call;
};

/// How a C++ type is a parameter: its facts, and how its value is made.
template <class A>
struct OperatorParameter {
    static_assert(sizeof(A) == 0,
                  "isthmus: a parameter of an operator is a View<const T, …>, InOut, Out, double, std::int64_t, bool, "
                  "std::string_view, or std::optional<View<const T, …>>");
};
/// Frameworks get the sizes as numbers and names.
template <class V>
constexpr bool has_plain_sizes() {
    for (int i = 0; i < V::requirement.size_count; ++i)
        if (V::requirement.sizes[i].more != 0) return false;
    return true;
}

template <class T, int N, class... C>
struct OperatorParameter<View<T, N, C...>> {
    static_assert(has_plain_sizes<View<T, N, C...>>(), "isthmus: an operator's sizes are names and numbers, without \"n+1\"");
    static_assert(!View<T, N, C...>::requirement.converts,
                  "isthmus: an operator takes what it is given, since compilers and gradients know of no conversion");
    static_assert(std::is_const_v<T>, "isthmus: an operator reads a View<const T, …>; what it writes is an InOut or an Out");
    static constexpr ParameterFacts facts{ParameterKind::tensor, false, &View<T, N, C...>::requirement};
    static View<T, N, C...> get(const ParameterValue& value) noexcept { return view_of<View<T, N, C...>>(*value.tensor); }
};
template <class T, int N, class... C>
struct OperatorParameter<std::optional<View<T, N, C...>>> {
    using Inner = OperatorParameter<View<T, N, C...>>;
    static constexpr ParameterFacts facts{ParameterKind::tensor, true, Inner::facts.requirement};
    static std::optional<View<T, N, C...>> get(const ParameterValue& value) noexcept {
        if (value.tensor == nullptr) return std::nullopt;
        return Inner::get(value);
    }
};
template <class T, int N, class... C>
struct OperatorParameter<InOut<T, N, C...>> {
    static_assert(has_plain_sizes<View<T, N, C...>>(), "isthmus: an operator's sizes are names and numbers, without \"n+1\"");
    static constexpr ParameterFacts facts{ParameterKind::in_out, false, &View<T, N, C...>::requirement};
    static InOut<T, N, C...> get(const ParameterValue& value) noexcept { return view_of<View<T, N, C...>>(*value.tensor); }
};
template <class T, int N, class... C>
struct OperatorParameter<Out<T, N, C...>> {
    static constexpr bool sizes_are_told() {
        const Requirement& r = View<T, N, C...>::requirement;
        for (int i = 0; i < r.size_count; ++i)
            if (r.sizes[i].size == dyn && r.sizes[i].name.empty()) return false;
        return true;
    }
    static_assert(has_plain_sizes<View<T, N, C...>>(), "isthmus: an operator's sizes are names and numbers, without \"n+1\"");
    static_assert(sizes_are_told(), "isthmus: each size of an Out is a number or a name, since the library makes it");
    static constexpr ParameterFacts facts{ParameterKind::out, false, &View<T, N, C...>::requirement};
    static Out<T, N, C...> get(const ParameterValue& value) noexcept { return view_of<View<T, N, C...>>(*value.tensor); }
};
template <>
struct OperatorParameter<double> {
    static constexpr ParameterFacts facts{ParameterKind::number};
    static double get(const ParameterValue& value) noexcept { return value.number; }
};
template <>
struct OperatorParameter<std::int64_t> {
    static constexpr ParameterFacts facts{ParameterKind::integer};
    static std::int64_t get(const ParameterValue& value) noexcept { return value.integer; }
};
template <>
struct OperatorParameter<bool> {
    static constexpr ParameterFacts facts{ParameterKind::boolean};
    static bool get(const ParameterValue& value) noexcept { return value.boolean; }
};
template <>
struct OperatorParameter<std::string_view> {
    static constexpr ParameterFacts facts{ParameterKind::text};
    static std::string_view get(const ParameterValue& value) noexcept { return {value.text.data, value.text.size}; }
};

template <>
struct OperatorParameter<Stream> {
    static constexpr ParameterFacts facts{ParameterKind::stream};
    static Stream get(const ParameterValue& value) noexcept { return *value.stream; }
};

/// The facts of `f`, from its type.
template <auto f, class F = decltype(f)>
struct OverloadOf {
    static_assert(sizeof(F) == 0, "isthmus: an operator is made of a function that returns void and writes its Outs");
};
template <auto f, class... A>
struct OverloadOf<f, void (*)(A...)> {
    static constexpr int count = sizeof...(A);
    static_assert(count > 0 && count <= max_parameters, "isthmus: an operator has 1 to 24 parameters");
    static constexpr ParameterFacts parameters[] = {OperatorParameter<std::remove_cvref_t<A>>::facts...};

    template <std::size_t... i>
    static void unpack(const ParameterValue* values, std::index_sequence<i...>) {
        f(OperatorParameter<std::remove_cvref_t<A>>::get(values[i])...);
    }
    static void call(const ParameterValue* values) { unpack(values, std::index_sequence_for<A...>()); }
    static constexpr OverloadFacts facts{parameters, count, call};
};
template <auto f, class... A>
struct OverloadOf<f, void (*)(A...) noexcept> : OverloadOf<static_cast<void (*)(A...)>(f)> {};

/// Whether a function begins with the parameters of another, up to their dtypes.
constexpr bool begins_alike(const OverloadFacts& a, const OverloadFacts& b) {
    if (a.count < b.count) return false;
    for (int i = 0; i < b.count; ++i)
        if (a.parameters[i].kind != b.parameters[i].kind || a.parameters[i].optional != b.parameters[i].optional) return false;
    return true;
}

constexpr bool are_alike(const OverloadFacts& a, const OverloadFacts& b) { return a.count == b.count && begins_alike(a, b); }
constexpr bool takes_stream(const OverloadFacts& f) {
    for (int i = 0; i < f.count; ++i)
        if (f.parameters[i].kind == ParameterKind::stream) return true;
    return false;
}
/// Whether a function has the parameters of another, and then a Stream.
constexpr bool is_device_form(const OverloadFacts& device, const OverloadFacts& host) {
    return device.count == host.count + 1 && begins_alike(device, host) &&
           device.parameters[host.count].kind == ParameterKind::stream;
}

/// The facts of an overload set.
template <auto... f>
struct OverloadSet {
    static constexpr OverloadFacts facts[] = {OverloadOf<f>::facts...};
    static constexpr int count = sizeof...(f);
    static constexpr bool alike = (are_alike(OverloadOf<f>::facts, facts[0]) && ...);
    static_assert(alike, "isthmus: the functions of one operator have the same kinds of parameters, in the same order");
};

}  // namespace detail

ISTHMUS_END
