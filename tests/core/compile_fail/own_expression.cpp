// SPDX-License-Identifier: Apache-2.0
// A row of a matrix, as expression templates have it, points into the matrix and steps over its columns: it is no
// owner, though it has data() and size().
// expect: own\(\) takes what owns its elements
#include <vector>

#include <isthmus/isthmus.h>

struct Matrix {
    std::vector<float> elements;
    std::size_t rows, cols;

    struct Row {
        using value_type = float;
        Matrix& matrix;
        std::size_t index;
        float* data() const { return matrix.elements.data() + index; }
        std::size_t size() const { return matrix.cols; }
        std::size_t innerStride() const { return matrix.rows; }
    };
    Row row(std::size_t index) { return {*this, index}; }
};

#if defined(ISTHMUS_MUST_FAIL)
isthmus::Tensor take(Matrix& m) { return isthmus::Tensor::own(m.row(1)); }
#else
isthmus::Tensor take(Matrix& m) { return isthmus::Tensor::own(std::move(m.elements)); }
#endif
