// SPDX-License-Identifier: Apache-2.0
// Functions that take structs of tensors, and trees of them.
#pragma once

#include <isthmus/fields.h>
#include <isthmus/tree.h>

#include <array>
#include <optional>
#include <string>

namespace casters {

using namespace isthmus;

/// A matrix in compressed rows, read.
template <class I, class V>
struct Csr {
    View<const I, 1, sizes<"rows+1">> indptr;
    View<const I, 1, sizes<"nnz">> indices;
    View<const V, 1, sizes<"nnz">> data;
    std::array<std::int64_t, 2> shape;

    using fields = isthmus::fields<"indptr", "indices", "data", "shape">;
    static constexpr std::string_view sparse_format = "csr";
};
using Matrix = Csr<std::int32_t, double>;

/// The same with elements of its own.
struct NewMatrix {
    Tensor indptr, indices, data;
    std::array<std::int64_t, 2> shape;

    using fields = Matrix::fields;
    static constexpr std::string_view sparse_format = "csr";
};

/// As a matrix, without a word on its format.
struct AnyMatrix {
    View<const std::int32_t, 1> indptr, indices;
    using fields = isthmus::fields<"indptr", "indices">;
};

/// Rows of different lengths.
struct Ragged {
    View<const std::int64_t, 1, sizes<"n+1">> offsets;
    View<const float, 1> values;
    using fields = isthmus::fields<"offsets", "values">;
};
struct NewRagged {
    Tensor offsets, values;
    using fields = Ragged::fields;
};

struct Layer {
    View<const float, 2, sizes<"out in">> weight;
    std::optional<View<const float, 1, sizes<"out">>> bias;
    using fields = isthmus::fields<"weight", "bias">;
};
struct Model {
    Layer first, second;
    double scale;
    std::optional<std::int64_t> step;
    using fields = isthmus::fields<"first", "second", "scale", "step">;
};
struct NewLayer {
    Tensor weight;
    std::optional<Tensor> bias;
    using fields = Layer::fields;
};
struct NewModel {
    NewLayer first, second;
    double scale;
    using fields = isthmus::fields<"first", "second", "scale">;
};

/// One that is written, beside one that is read.
struct Pair {
    View<const float, 1, sizes<"n">> x;
    View<float, 1, sizes<"n">> y;
    using fields = isthmus::fields<"x", "y">;
};
/// Two that may be kept.
struct Kept {
    Tensor x;
    Tensor y;
    using fields = Pair::fields;
};

inline double matrix_sum(const Matrix& m) {
    double sum = 0;
    for (double value : m.data.span()) sum += value;
    return sum + 1000.0 * static_cast<double>(m.shape[1]);
}
inline NewMatrix doubled(const Matrix& m) {
    NewMatrix made{copy_of(m.indptr).value(), copy_of(m.indices).value(), copy_of(m.data).value(), m.shape};
    for (double& value : made.data.view<double, 1>().value().span()) value *= 2;
    return made;
}
inline FieldsReply<NewMatrix> twice_matrix(const Argument<Matrix, "m", "twice_matrix">& m) {
    return m.reply(doubled(*m));
}
inline NewMatrix twice_matrix_as_dict(const Matrix& m) { return doubled(m); }

inline FieldsReply<NewRagged> twice_ragged(const Argument<Ragged, "r", "twice_ragged">& r) {
    NewRagged made{copy_of(r->offsets).value(), copy_of(r->values).value()};
    for (float& value : made.values.view<float, 1>().value().span()) value *= 2;
    return r.reply(made);
}

inline Tensor negated(const View<const float, 2>& x) {
    const Tensor made = copy_of(x).value();
    for (float& value : made.view<float, 2>().value().span()) value = -value;
    return made;
}
inline FieldsReply<NewModel> negate_model(const Argument<Model, "m", "negate_model">& m) {
    const auto layer = [](const Layer& l) {
        return NewLayer{negated(l.weight), l.bias ? copy_of(*l.bias).value() : Tensor()};
    };
    return m.reply(NewModel{layer(m->first), layer(m->second), m->step ? static_cast<double>(*m->step) : m->scale});
}

inline void copy_pair(const Argument<Pair, "p", "copy_pair">& p) {
    for (std::int64_t i = 0; i < p->x.extent(0); ++i) p->y(i) = p->x(i);
}

/// Keeps what it was given until it is asked for.
inline Kept last_pair;
inline void keep_pair(const Kept& pair) { last_pair = pair; }
inline Kept kept_pair() { return std::exchange(last_pair, {}); }

/// The matrix's sum, or for a ragged pair that of its values: two signatures of one name.
inline double sum_of_ragged(const Ragged& r) {
    double sum = 0;
    for (float value : r.values.span()) sum += static_cast<double>(value);
    return sum;
}

/// A matrix and a vector whose sizes agree.
inline double weighted(const Matrix& m, View<const double, 1, sizes<"nnz">> w) {
    double sum = 0;
    for (std::int64_t i = 0; i < w.extent(0); ++i) sum += w(i) * m.data(i);
    return sum;
}

/// The paths and dtypes of a tree's tensors, one a line.
template <class Object>
std::string leaves_of(const Object& object) {
    std::string text;
    const Tree tree = Tree::from_py(object.ptr(), {.argument = "tree"}).value();
    for (const Tree::Leaf& leaf : tree.leaves()) text += leaf.path + " " + leaf.tensor.dtype().name() + "\n";
    return text;
}
/// The same tree of copies, the last of them left out where `fewer`.
template <class Object, class Steal>
Object copied_tree(const Object& object, bool fewer, Steal&& steal) {
    const Tree tree = Tree::from_py(object.ptr()).value();
    std::vector<Tensor> copies;
    for (const Tree::Leaf& leaf : tree.leaves()) copies.push_back(copy_of(leaf.tensor).value());
    if (fewer) copies.pop_back();
    return steal(tree.to_py(copies).value());
}

template <class Define>
void bind_fields(Define&& define) {
    define("matrix_sum", matrix_sum);
    define("twice_matrix", twice_matrix);
    define("twice_matrix_as_dict", twice_matrix_as_dict);
    define("any_matrix", [](const Argument<AnyMatrix, "m">& m) { return m->indptr.extent(0); });
    define("twice_ragged", twice_ragged);
    define("negate_model", negate_model);
    define("copy_pair", copy_pair);
    define("keep_pair", keep_pair);
    define("kept_pair", kept_pair);
    define("sum_any", matrix_sum);
    define("sum_any", sum_of_ragged);
    define("weighted", agreeing<"weighted", "m", "w">(weighted));
}

}  // namespace casters
