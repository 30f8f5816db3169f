// SPDX-License-Identifier: Apache-2.0
// The functions that both casters bind: the same names, so that the same tests run on both.
#pragma once

#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include <isthmus/python/agreeing.h>
#include <isthmus/python/binding.h>

namespace casters {

using namespace isthmus;

using Rows = View<const float, 2, sizes<"n d">>;
using Image = View<const std::uint8_t, 3, sizes<"h w 3">, c_contiguous>;

inline double sum(const Rows& x) {
    double total = 0;
    for (int i = 0; i < x.extent(0); ++i)
        for (int j = 0; j < x.extent(1); ++j) total += static_cast<double>(x(i, j));
    return total;
}
inline void fill(View<float, 1> x, float value) {
    for (std::int64_t i = 0; i < x.extent(0); ++i) x(i) = value;
}
inline std::int64_t count(const std::optional<Rows>& x) { return x ? x->size() : -1; }
inline std::string which_float(View<const float, 1>) { return "float32[:]"; }
inline std::string which_double(View<const double, 1>) { return "float64[:]"; }
inline std::string which_matrix(View<const float, 2>) { return "float32[:, :]"; }
inline std::string which_integer(std::int64_t) { return "int"; }
inline std::int64_t height(const Argument<Image, "image">& image) { return image->extent(0); }
inline std::int64_t width(const Argument<Image, "image", "width">& image) { return image->extent(1); }

/// In the caller's framework.
inline Reply twice(const Argument<View<const float, 1>>& x) {
    const Tensor result = Tensor::empty({x->extent(0)}, float32);
    auto out = result.view<float, 1>().value();
    for (std::int64_t i = 0; i < out.extent(0); ++i) out(i) = 2 * (*x)(i);
    return x.reply(result);
}
/// Made where the caller lives, and written through a view of it.
inline Tensor twice_there(const Argument<View<const float, 1>>& x) {
    const Tensor result = empty_like(x);
    auto out = result.view<float, 1>().value();
    for (std::int64_t i = 0; i < out.extent(0); ++i) out(i) = 2 * (*x)(i);
    return result;
}
/// The same, typed, and of another dtype and rank than the argument's.
inline Made<View<std::int32_t, 2>> made_columns(const Argument<View<const float, 1>>& x, std::int64_t count) {
    auto out = x.make<View<std::int32_t, 2>>({x->extent(0), count});
    for (std::int64_t i = 0; i < out->extent(0); ++i)
        for (std::int64_t j = 0; j < out->extent(1); ++j)
            out(i, j) = static_cast<std::int32_t>((*x)(i)) + static_cast<std::int32_t>(j);
    return out;
}
inline Reply three_made_columns(const Argument<View<const float, 1>>& x, std::int64_t count) {
    return x.make<View<double, 2, sizes<"n 3">>>({x->extent(0), count});
}
inline std::pair<Made<View<float, 1>>, std::optional<Made<View<bool, 1>>>> doubled_and_positive(
    const Argument<View<const float, 1>>& x, bool both) {
    auto doubled = x.make<View<float, 1>>({x->extent(0)});
    auto positive = x.make<View<bool, 1>>({x->extent(0)});
    for_each([](float& to, bool& is, float from) { to = 2 * from, is = from > 0; }, *doubled, *positive, *x);
    if (!both) return {std::move(doubled), std::nullopt};
    return {std::move(doubled), std::move(positive)};
}
inline Reply twice_replied(const Argument<View<const float, 1>>& x) { return x.reply(twice_there(x)); }
inline Tensor zeros_there(const Argument<Borrowed>& x, const std::vector<std::int64_t>& shape,
                          const std::string& dtype) {
    DType parsed;
    if (!DType::parse(dtype, parsed)) throw Error(ErrorCode::bad_dtype, "no such dtype");
    const Tensor result = empty_like(x, shape, parsed);
    std::memset(result.data(), 0, static_cast<std::size_t>(result.nbytes()));
    return result;
}
/// What needs the GIL, in a function that was bound without it: the codes of the errors, "" for none.
inline std::string errors_of(const Argument<Borrowed>& x) {
    const auto code = [](const auto& result) { return result ? "" : error_code_name(result.error().code()); };
    std::string codes;
    try {
        (void)empty_like(x, {-1}, float32);
    } catch (const Error& error) {
        codes += error_code_name(error.code());
    }
    return codes + ' ' + code(announce_write(x.object())) + ' ' + code(to_py(Tensor::empty({2}, float32)));
}
/// The result in memory that the caller may bring.
inline Tensor twice_into(const Argument<View<const float, 1, sizes<"n">>>& x,
                         const std::optional<Argument<View<float, 1, sizes<"n">>>>& out) {
    const Tensor made = out ? Tensor() : empty_like(x);
    const View<float, 1> to = out ? View<float, 1>(**out) : made.view<float, 1>().value();
    for (std::int64_t i = 0; i < to.extent(0); ++i) to(i) = 2 * (*x)(i);
    return out ? from_py(out->object()).value() : made;
}
/// A function that calls back, which may call another of this module meanwhile.
template <class Callable>
Tensor twice_after(double, const Argument<View<const float, 1>>& x, const Callable& callback) {
    callback();
    return twice_there(x);
}
/// The second overload does not look at its first argument.
template <class Object>
Tensor second_of(const Object&, const View<const float, 1>& x) {
    return copy_of(x).value();
}
template <class Object>
Tensor second_of_handle(const Object&, const Tensor& x) {
    return copy_of(x).value();
}
inline void set_results(const std::string& name) {
    Framework framework = Framework::none;
    if (name == "reply")
        set_default_result(Reply());
    else if (parse_framework(name, framework))
        set_default_result(framework);
}
inline Tensor counting(int n) {
    std::vector<float> elements(static_cast<std::size_t>(n));
    std::iota(elements.begin(), elements.end(), 0.f);
    return Tensor::own(std::move(elements));
}
inline As<Framework::numpy> counting_numpy(int n) { return counting(n); }
inline As<Framework::torch> counting_torch(int n) { return counting(n); }
inline Tensor nothing() { return {}; }
/// Results that are refused: torch has no read-only memory.
inline As<Framework::torch> frozen_torch() { return counting(3).as_read_only(); }
inline Reply frozen_like(const Argument<View<const float, 1>>& x) { return x.reply(counting(3).as_read_only()); }

inline Tensor kept;
inline void keep(Tensor x) { kept = std::move(x); }
inline void keep_if(Tensor x, bool wanted) { kept = wanted ? std::move(x) : Tensor(); }
inline std::string describe_with(const Borrowed& x, const std::string& text) { return text + x.dtype().name(); }
inline Tensor give_back() { return std::move(kept); }

inline std::string describe(const Borrowed& x) { return x.dtype().name() + layout::to_string(x.shape()); }
inline std::string describe_of(const Argument<Borrowed>& x) { return describe(*x); }
inline std::string describe_named(const Argument<Borrowed, "x", "describe">& x) { return describe(*x); }
inline std::string describe_maybe(const std::optional<Argument<Tensor>>& x) {
    return x ? (*x)->dtype().name() + layout::to_string((*x)->shape()) : "none";
}
inline std::string describe_of_if(const Argument<Borrowed>& x, bool) { return describe(*x); }
inline Reply copied_of(const Argument<Tensor>& x) { return x.reply(copy_of(*x).value()); }
inline Reply copied_of_if(Argument<Tensor> x, bool) { return copied_of(x); }
inline void keep_of(Argument<Tensor> x) { kept = *x; }
inline double any_float(const View<const one_of<float, double>, 1>& x) {
    return x.visit([](auto v) { return static_cast<double>(v(0)); });
}
/// Sizes that agree between arguments are compared inside: each argument was taken on its own.
inline double distance(const Rows& a, const View<const float, 2, sizes<"m d">>& b) {
    Match match("distance");
    match.agree("a", a).value();
    match.agree("b", b).value();
    return static_cast<double>(a(0, 0) - b(0, 0));
}
/// The same, compared ahead of the call.
inline double distance_checked(const Rows& a, const View<const float, 2, sizes<"m d">>& b) {
    return static_cast<double>(a(0, 0) - b(0, 0));
}
inline std::optional<Tensor> first_if_agreed(const std::optional<Tensor>& x, const Rows&, const Rows&) { return x; }
inline void copy_rows(View<float, 2, sizes<"n d">> out, const Rows& x) {
    for (std::int64_t i = 0; i < x.extent(0); ++i)
        for (std::int64_t j = 0; j < x.extent(1); ++j) out(i, j) = x(i, j);
}
inline void copy_first(const Argument<View<float, 1>, "out">& out, std::optional<View<float, 1>> other, const Rows& x) {
    (*out)(0) = x(0, 0);
    if (other) (*other)(0) = x(0, 0);
}
/// A number has no gradient anyway.
inline double total(const View<const float, 1, allow_grad>& x) {
    double sum = 0;
    for (std::int64_t i = 0; i < x.extent(0); ++i) sum += static_cast<double>(x(i));
    return sum;
}
/// The same, whose author says that it has none.
inline double total_without_grad(const View<const float, 1, no_grad>& x) { return total(x); }
using Points = Argument<View<const float, 2, sizes<"m d">>, "points">;
inline std::int64_t mixed(const Rows& a, double, const std::optional<Rows>& b, const Points& c, const Tensor&) {
    return a.extent(1) + (b ? b->extent(0) : 0) + c->extent(0);
}
inline std::int64_t count_of(const std::optional<Argument<Rows>>& x) { return x ? (*x)->size() : -1; }
using MaybeOut = std::optional<Argument<View<float, 2, sizes<"n d">>>>;
inline void copy_if(MaybeOut out, const Rows& x) {
    if (out) copy_rows(**out, x);
}
/// What agreeing() says of containers, which are made here as a binder makes them.
inline std::string disagreement_in(const Rows& a, const Rows& b) {
    using Nested = std::map<std::string, std::tuple<int, std::vector<Rows>>>;
    auto checked = agreeing<"nested", "first", "all">(
        [](const std::variant<int, Rows>&, const std::array<Nested, 1>&) { return std::string(); });
    try {
        return checked(a, {Nested{{"none", {0, {}}}, {"some", {1, {a, b}}}}});
    } catch (const Error& error) {
        return error.what();
    }
}
inline void fail() { throw Error(ErrorCode::needs_copy, ErrorKind::buffer, "thrown by the function"); }

template <class Object, class Def>
void bind(Def def) {
    def("sum", sum);
    def("fill", fill);
    def("count", count);
    def("which", which_double);
    def("which", which_float);
    def("which", which_matrix);
    def("which", which_integer);
    def("height", height);
    def("width", width);
    def("twice", twice);
    def("twice_there", twice_there);
    def("twice_replied", twice_replied);
    def("made_columns", made_columns);
    def("three_made_columns", three_made_columns);
    def("doubled_and_positive", doubled_and_positive);
    def("zeros_there", zeros_there);
    def("twice_into", agreeing<"twice_into", "x", "out">(twice_into));
    def("second_of", [](const View<const float, 1>& x, double) { return copy_of(x).value(); });
    def("second_of", second_of<Object>);
    def("second_of_handles", [](const Tensor& x, double) { return copy_of(x).value(); });
    def("second_of_handles", second_of_handle<Object>);
    def("set_results", set_results);
    def("counting", counting);
    def("counting_numpy", counting_numpy);
    def("counting_torch", counting_torch);
    def("nothing", nothing);
    def("frozen_torch", frozen_torch);
    def("frozen_like", frozen_like);
    def("keep", keep);
    def("keep_if", keep_if);
    def("describe_with", describe_with);
    def("give_back", give_back);
    def("describe", describe);
    def("describe_of", describe_of);
    def("describe_named", describe_named);
    def("describe_maybe", describe_maybe);
    def("describe_of_if", describe_of_if);
    def("copied_of", copied_of);
    def("copied_of_if", copied_of_if);
    def("keep_of", keep_of);
    def("any_float", any_float);
    def("distance", distance);
    def("distance_checked", with_checked_sizes<"distance_checked", "a", "b">(distance_checked));
    def("mixed", agreeing<"mixed">(mixed));
    def("first_if_agreed", agreeing<"first_if_agreed", "x", "a", "b">(first_if_agreed));
    def("copy_rows", agreeing<"copy_rows", "out", "x">(copy_rows));
    def("copy_first", agreeing<"copy_first">(copy_first));
    def("total", total);
    def("total_without_grad", total_without_grad);
    const float offset = 100;
    def("checked_lambda", agreeing<"checked_lambda">([offset](const Rows& a, const Rows& b) {
            return static_cast<double>(a(0, 0) + b(0, 0) + offset);
        }));
    def("count_of", count_of);
    def("copy_if", agreeing<"copy_if", "out", "x">(copy_if));
    def("disagreement_in", disagreement_in);
    def("calls", agreeing<"calls">([calls = 0](const Rows&, const Rows&) mutable { return ++calls; }));
    def("fail", fail);
}

}  // namespace casters
