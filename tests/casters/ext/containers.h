// SPDX-License-Identifier: Apache-2.0
// Functions that take containers of views. Each calls `check` before it reads, so that a test sees what lives at that
// moment.
#pragma once

#include <isthmus/python/containers.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace casters {

using namespace isthmus;

using Row = View<const float, 1>;
using DoubleRow = View<const double, 1>;

inline double total(const Row& row) {
    double sum = 0;
    for (std::int64_t i = 0; i < row.extent(0); ++i) sum += static_cast<double>(row(i));
    return sum;
}
inline double total(const DoubleRow& row) { return row.extent(0) > 0 ? -row(0) : 0; }
inline double total(const Argument<Row>& row) { return total(*row); }
inline double total(const Borrowed& tensor) { return total(tensor.view<const float, 1>().value()); }
inline double total(double number) { return number; }
inline double total(const std::string& text) { return static_cast<double>(text.size()) / 1024; }
template <class... E>
double total(const std::variant<E...>& one);
template <class E>
double total(const std::optional<E>& one);
template <class A, class B>
double total(const std::pair<A, B>& both);
template <class... E>
double total(const std::tuple<E...>& all);
template <class C>
    requires requires(const C& c) {
        c.begin();
        c.size();
    }
double total(const C& all);

template <class... E>
double total(const std::variant<E...>& one) {
    return std::visit([](const auto& held) { return total(held); }, one);
}
template <class E>
double total(const std::optional<E>& one) {
    return one ? total(*one) : -1;
}
template <class A, class B>
double total(const std::pair<A, B>& both) {
    return total(both.first) + total(both.second);
}
template <class... E>
double total(const std::tuple<E...>& all) {
    return std::apply([](const auto&... each) { return (total(each) + ...); }, all);
}
template <class C>
    requires requires(const C& c) {
        c.begin();
        c.size();
    }
double total(const C& all) {
    double sum = 0;
    for (const auto& each : all) sum += total(each);
    return sum;
}

/// How many bytes of a T are written when it is made by T(), as a std::tuple makes its elements.
template <class T>
std::int64_t bytes_written() {
    alignas(T) static unsigned char memory[sizeof(T)];
    std::memset(memory, 0xA5, sizeof memory);
    asm volatile("" ::"r"(memory) : "memory");  // or what was there before counts as indeterminate
    T* made = ::new (static_cast<void*>(memory)) T();
    asm volatile("" ::"r"(memory) : "memory");
    const auto kept = std::count(std::begin(memory), std::end(memory), static_cast<unsigned char>(0xA5));
    made->~T();
    return static_cast<std::int64_t>(sizeof memory) - kept;
}
/// written(): the bytes that making each of these writes, before anything is loaded.
template <template <class> class Caster, class Def>
void bind_written(Def def) {
    const auto one = [&def]<class X>(const char* name, std::type_identity<X>) {
        def(name, [] { return bytes_written<Caster<X>>(); });
    };
    one("written_for_view", std::type_identity<Row>{});
    one("written_for_argument", std::type_identity<Argument<Row>>{});
    one("written_for_handle", std::type_identity<Argument<Borrowed>>{});
    one("written_for_array", std::type_identity<std::array<Row, 4>>{});
    one("written_for_pair", std::type_identity<std::pair<Row, Row>>{});
    one("written_for_vector", std::type_identity<std::vector<Row>>{});
    one("written_for_variant", std::type_identity<std::variant<Row, DoubleRow>>{});
}

template <class Check, class Def>
void bind_containers(Def def) {
    const auto one = [&def]<class X>(const char* name, std::type_identity<X>) {
        def(name, [](const X& all, const Check& check) {
            check();
            return total(all);
        });
    };
    one("total_of_vector", std::type_identity<std::vector<Row>>{});
    one("total_of_list", std::type_identity<std::list<Row>>{});
    one("total_of_array", std::type_identity<std::array<Row, 2>>{});
    one("total_of_arguments", std::type_identity<std::vector<Argument<Row>>>{});
    one("total_of_borrowed", std::type_identity<std::vector<Borrowed>>{});
    one("total_of_map", std::type_identity<std::map<std::string, Row>>{});
    one("total_of_unordered_map", std::type_identity<std::unordered_map<std::string, Row>>{});
    one("total_of_optional_argument", std::type_identity<std::optional<Argument<Row>>>{});
    one("total_of_optional_vector", std::type_identity<std::optional<std::vector<Row>>>{});
    one("total_of_variant", std::type_identity<std::variant<Row, DoubleRow, double>>{});
    one("total_of_variants", std::type_identity<std::vector<std::variant<Row, DoubleRow>>>{});
    one("total_of_pair", std::type_identity<std::pair<Row, double>>{});
    one("total_of_views", std::type_identity<std::pair<Row, Row>>{});
    one("total_of_tuple", std::type_identity<std::tuple<Row, std::string, Row>>{});
    one("total_of_pairs", std::type_identity<std::vector<std::pair<std::string, Row>>>{});
    one("total_of_nested", std::type_identity<std::map<std::string, std::vector<Row>>>{});
    // In the binders' own containers, of which nanobind's may not be left by an exception.
    const auto owned = [&def]<class X>(const char* name, std::type_identity<X>) {
        def(name, [](const X&) { return std::string("taken"); });
    };
    owned("own_vector", std::type_identity<std::vector<Tensor>>{});
    owned("own_optional", std::type_identity<std::optional<Tensor>>{});
    owned("own_map", std::type_identity<std::map<std::string, Tensor>>{});
    owned("own_pair", std::type_identity<std::pair<Tensor, double>>{});
    owned("own_tuple", std::type_identity<std::tuple<Tensor, Row, double>>{});
    owned("own_variant", std::type_identity<std::variant<Tensor, double>>{});
    owned("own_either", std::type_identity<std::pair<Tensor, double>>{});
    owned("own_either", std::type_identity<std::pair<Tensor, std::string>>{});

    def("own_vector_if", [](const std::vector<Tensor>& all, bool) { return all; });
    def("own_optional_if", [](const std::optional<Tensor>& one, bool) { return one; });
    def("own_map_if", [](const std::map<std::string, Tensor>& all, bool) { return all; });
    def("own_pair_if", [](const std::pair<Tensor, double>& both, bool) { return both; });
    def("own_tuple_if", [](const std::tuple<Tensor, double>& both, bool) { return both; });
    def("own_array_if", [](const std::array<Tensor, 1>& all, bool) { return all; });
    def("own_variant_if", [](const std::variant<Tensor, double>& one, bool) { return one; });
    // As results, in the caller's framework.
    using Given = Argument<Row>;
    def("replies", [](const Given& x) { return std::vector<Reply>{x.reply(copy_of(*x).value()), {}}; });
    def("replies_by_name",
        [](const Given& x) { return std::map<std::string, Reply>{{"a", x.reply(copy_of(*x).value())}}; });
    def("reply_pair", [](const Given& x) { return std::pair<Reply, double>(x.reply(copy_of(*x).value()), 0.5); });
    def("reply_tuple", [](const Given& x) {
        return std::tuple<Reply, std::string, Tensor>(x.reply(copy_of(*x).value()), "text", copy_of(*x).value());
    });
    def("reply_if", [](const Given& x, bool wanted) {
        return wanted ? std::optional(x.reply(copy_of(*x).value())) : std::nullopt;
    });
    def("arrays_of", [](const Row& x) { return std::vector<As<Framework::numpy>>{copy_of(x).value()}; });
    def("results_of", [](const Row& x) { return std::vector<Result<Tensor>>{copy_of(x)}; });
    def("frozen_replies",
        [](const Given& x) { return std::vector<Reply>{x.reply(copy_of(*x).value().as_read_only())}; });
    // Errors that name argument and element.
    using Named = Argument<Row, "batch", "stack">;
    def("stack", [](const std::vector<Named>& all) { return all.size(); });
    def("stack_by_name", [](const std::map<std::string, Named>& all) { return all.size(); });
    def("stack_pair", [](const std::pair<Named, Named>&) { return 2; });
    def("stack_nested", [](const std::vector<std::vector<Named>>& all) { return all.size(); });
    def("stack_written", [](const std::vector<Argument<View<float, 1>, "batch", "stack">>& all) { return all.size(); });
    def("fill_all", [](const std::vector<View<float, 1>>& all, float value) {
        for (const auto& each : all)
            for (std::int64_t i = 0; i < each.extent(0); ++i) each(i) = value;
    });
    def("which_of", [](const std::vector<Row>&) { return std::string("float32"); });
    def("which_of", [](const std::vector<DoubleRow>&) { return std::string("float64"); });
}

}  // namespace casters
