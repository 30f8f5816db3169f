// SPDX-License-Identifier: Apache-2.0
// Functions of the bare API that take and return dtypes, devices and containers, and a class that is a tensor.
#include <isthmus/module.h>

#include <map>
#include <string>
#include <vector>

#include <isthmus/converted.h>
#include <isthmus/owned.h>
#include <isthmus/python/container_arguments.h>
#include <isthmus/tensor_protocol.h>

#include "ext.h"

namespace ext {
namespace {
namespace bare {

using isthmus::View;
using Row = View<const float, 1>;

isthmus::DType dtype_back(isthmus::DType dtype, std::optional<isthmus::Device>) { return dtype; }
isthmus::Device device_back(isthmus::Device device) { return device; }
isthmus::Result<void> result_of_nothing(bool works) {
    if (!works) return isthmus::Error(isthmus::ErrorCode::read_only, "not this time");
    return {};
}
double total(const Row& row) {
    double sum = 0;
    for (std::int64_t i = 0; i < row.extent(0); ++i) sum += static_cast<double>(row(i));
    return sum;
}
double total_of(const std::vector<Row>& batch, double factor) {
    double sum = 0;
    for (const Row& row : batch) sum += total(row);
    return factor * sum;
}
double total_by_name(const std::map<std::string, Row>& batch) {
    double sum = 0;
    for (const auto& [name, row] : batch) sum += total(row);
    return sum;
}
double scaled(int count, float factor) { return static_cast<double>(factor) * count; }
std::vector<isthmus::Tensor> batch_back(std::vector<isthmus::Tensor> batch, bool) { return batch; }
std::map<std::string, isthmus::Tensor> named(isthmus::Tensor x) { return {{"x", x}}; }

using Kept = isthmus::Owned<isthmus::Converted<View<const float, 1, isthmus::sizes<"n">>>>;
std::vector<Kept> kept;
void keep(Kept x, const std::optional<Kept>& y) {
    kept = {std::move(x)};
    if (y) kept.push_back(*y);
}
std::vector<Kept> keep_all(const std::vector<Kept>& all, bool) { return kept = all; }
Kept keep_named(const isthmus::Argument<Kept>& x) { return *x; }
double kept_sum() {
    double sum = 0;
    for (const Kept& one : kept)
        for (const float element : *one) sum += static_cast<double>(element);
    return sum;
}
void drop_kept() { kept.clear(); }
/// The first is taken when the write to the second is refused, and is whole again.
void write_kept(const Kept& x, const isthmus::Owned<View<float, 1>>& out) { (*out)(0) = (*x)(0); }

const std::vector<isthmus::Tensor>& of_the_module() {
    static const std::vector<isthmus::Tensor> tensors{isthmus::Tensor::own(std::vector<float>{1, 2})};
    return tensors;
}

isthmus::Tensor tensor_of(PyObject* self) {
    const isthmus::Ref wanted(PyObject_GetAttrString(self, "wanted"));
    if (!wanted) PyErr_Clear();
    if (!wanted) throw isthmus::Error(isthmus::ErrorCode::bad_argument, "nothing is wanted");
    return isthmus::from_py(wanted.get()).value();
}

PyObject* made_a_tensor(PyObject* type) {
    return isthmus::tensor_protocol<tensor_of>(type) ? Py_NewRef(type) : nullptr;
}

}  // namespace bare
}  // namespace

bool add_bare(PyObject* module) {
    using namespace bare;
    isthmus::def<dtype_back>(module, "dtype_back", {"dtype", "device"});
    isthmus::def<device_back>(module, "device_back", {"device"});
    isthmus::def<result_of_nothing>(module, "result_of_nothing", {"works"});
    isthmus::def<total_of>(module, "total_of", {"batch", "factor"});
    isthmus::def<total_by_name>(module, "total_by_name", {"batch"});
    isthmus::def<scaled>(module, "scaled", {"count", "factor"});
    isthmus::def<batch_back>(module, "batch_back", {"batch", "sure"});
    isthmus::def<named>(module, "named", {"x"});
    isthmus::def<of_the_module>(module, "of_the_module");
    isthmus::def<keep>(module, "keep_typed", {"x", "y"});
    isthmus::def<keep_all>(module, "keep_all_typed", {"all", "sure"});
    isthmus::def<keep_named>(module, "keep_named_typed", {"x"});
    isthmus::def<kept_sum>(module, "kept_sum");
    isthmus::def<drop_kept>(module, "drop_kept");
    isthmus::def<write_kept>(module, "write_kept", {"x", "out"});
    isthmus::def<made_a_tensor>(module, "made_a_tensor", {"type"});
    return PyErr_Occurred() == nullptr;
}

}  // namespace ext
