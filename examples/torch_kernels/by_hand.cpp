// SPDX-License-Identifier: Apache-2.0
// The same operators written for torch by hand: its schemas, checks, kernels for the
// CPU and for fake tensors, and autograd.
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "kernels.h"

namespace {

using at::Tensor, kernels::Index;
using torch::autograd::AutogradContext, torch::autograd::variable_list;

void check(const Tensor& t, const char* where, Index dimensions, at::ScalarType type) {
    TORCH_CHECK(t.device().is_cpu(), where, ": expected cpu, got ", t.device());
    TORCH_CHECK(t.dim() == dimensions, where, ": expected ", dimensions,
                " dimensions, got ", t.dim());
    TORCH_CHECK(t.scalar_type() == type, where, ": expected ", type, ", got ",
                t.scalar_type());
}

std::tuple<Tensor, Tensor> segment_max(const Tensor& x, const Tensor& starts) {
    check(x, "segment_max(): argument 'x'", 2, x.scalar_type());
    check(starts, "segment_max(): argument 'starts'", 1, at::kLong);
    TORCH_CHECK(starts.size(0) > 0, "segment_max(): argument 'starts' is empty");
    const Tensor from = x.contiguous(), borders = starts.contiguous();
    const Index segments = starts.size(0) - 1, columns = x.size(1);
    Tensor largest = at::empty({segments, columns}, x.options());
    Tensor rows = at::empty({segments, columns}, starts.options());
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "segment_max", [&] {
        kernels::segment_max(from.const_data_ptr<scalar_t>(), from.size(0),
                             borders.const_data_ptr<Index>(), segments, columns,
                             largest.data_ptr<scalar_t>(), rows.data_ptr<Index>());
    });
    return {largest, rows};
}
std::tuple<Tensor, Tensor> segment_max_meta(const Tensor& x, const Tensor& starts) {
    const c10::SymInt segments = starts.sym_size(0) - 1, columns = x.sym_size(1);
    return {x.new_empty_symint({segments, columns}),
            starts.new_empty_symint({segments, columns})};
}
Tensor segment_max_gradient(const Tensor& grad, const Tensor& rows, Index all) {
    check(grad, "segment_max_gradient(): argument 'grad'", 2, grad.scalar_type());
    check(rows, "segment_max_gradient(): argument 'rows'", 2, at::kLong);
    TORCH_CHECK(grad.sizes() == rows.sizes(), "segment_max_gradient(): sizes differ");
    const Tensor from = grad.contiguous(), places = rows.contiguous();
    Tensor grad_x = at::empty({all, rows.size(1)}, grad.options());
    AT_DISPATCH_FLOATING_TYPES(grad.scalar_type(), "segment_max_gradient", [&] {
        kernels::segment_max_gradient(from.const_data_ptr<scalar_t>(),
                                      places.const_data_ptr<Index>(), rows.size(0),
                                      rows.size(1), grad_x.data_ptr<scalar_t>(), all);
    });
    return grad_x;
}
Tensor segment_max_gradient_meta(const Tensor& grad, const Tensor& rows,
                                 c10::SymInt all) {
    return grad.new_empty_symint({all, rows.sym_size(1)});
}

class SegmentMax : public torch::autograd::Function<SegmentMax> {
public:
    static variable_list forward(AutogradContext* context, const Tensor& x,
                                 const Tensor& starts) {
        static const auto op =
            c10::Dispatcher::singleton()
                .findSchemaOrThrow("by_hand::segment_max", "")
                .typed<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&)>();
        const at::AutoDispatchBelowADInplaceOrView guard;
        auto [largest, rows] = op.call(x, starts);
        context->save_for_backward({rows});
        context->saved_data["all"] = x.sym_size(0);
        context->mark_non_differentiable({rows});
        return {largest, rows};
    }
    static variable_list backward(AutogradContext* context,
                                  const variable_list& grads) {
        static const auto op =
            c10::Dispatcher::singleton()
                .findSchemaOrThrow("by_hand::segment_max_gradient", "")
                .typed<Tensor(const Tensor&, const Tensor&, c10::SymInt)>();
        const variable_list saved = context->get_saved_variables();
        return {op.call(grads[0], saved[0], context->saved_data["all"].toSymInt()),
                Tensor()};
    }
};
std::tuple<Tensor, Tensor> segment_max_autograd(const Tensor& x, const Tensor& starts) {
    const variable_list results = SegmentMax::apply(x, starts);
    return {results[0], results[1]};
}

Tensor nms(const Tensor& boxes, const Tensor& scores, double threshold) {
    check(boxes, "nms(): argument 'boxes'", 2, at::kFloat);
    check(scores, "nms(): argument 'scores'", 1, at::kFloat);
    TORCH_CHECK(boxes.size(1) == 4, "nms(): argument 'boxes': expected rows of 4");
    TORCH_CHECK(boxes.size(0) == scores.size(0), "nms(): sizes differ");
    const Tensor from = boxes.contiguous(), by = scores.contiguous();
    Tensor keep = at::empty({boxes.size(0)}, boxes.options().dtype(at::kLong));
    const Index count =
        kernels::nms(from.const_data_ptr<float>(), by.const_data_ptr<float>(),
                     boxes.size(0), threshold, keep.data_ptr<Index>());
    return keep.narrow(0, 0, count);
}

void put_rows(Tensor& cache, const Tensor& places, const Tensor& rows) {
    check(cache, "put_rows(): argument 'cache'", 2, cache.scalar_type());
    check(places, "put_rows(): argument 'places'", 1, at::kLong);
    check(rows, "put_rows(): argument 'rows'", 2, cache.scalar_type());
    TORCH_CHECK(cache.is_contiguous(), "put_rows(): argument 'cache': not contiguous");
    TORCH_CHECK(rows.size(0) == places.size(0) && rows.size(1) == cache.size(1),
                "put_rows(): sizes differ");
    const Tensor from = rows.contiguous(), to = places.contiguous();
    AT_DISPATCH_FLOATING_TYPES(cache.scalar_type(), "put_rows", [&] {
        kernels::put_rows(cache.data_ptr<scalar_t>(), cache.size(0),
                          to.const_data_ptr<Index>(), from.const_data_ptr<scalar_t>(),
                          rows.size(0), rows.size(1));
    });
}
void put_rows_meta(Tensor&, const Tensor&, const Tensor&) {}

}  // namespace

TORCH_LIBRARY(by_hand, m) {
    m.def("segment_max(Tensor x, Tensor starts) -> (Tensor, Tensor)");
    m.def("segment_max_gradient(Tensor grad, Tensor rows, SymInt all) -> Tensor");
    m.def("nms(Tensor boxes, Tensor scores, float threshold) -> Tensor");
    m.def("put_rows(Tensor(a!) cache, Tensor places, Tensor rows) -> ()");
}
TORCH_LIBRARY_IMPL(by_hand, CPU, m) {
    m.impl("segment_max", segment_max);
    m.impl("segment_max_gradient", segment_max_gradient);
    m.impl("nms", nms);
    m.impl("put_rows", put_rows);
}
TORCH_LIBRARY_IMPL(by_hand, Meta, m) {
    m.impl("segment_max", segment_max_meta);
    m.impl("segment_max_gradient", segment_max_gradient_meta);
    m.impl("put_rows", put_rows_meta);
}
TORCH_LIBRARY_IMPL(by_hand, Autograd, m) {
    m.impl("segment_max", segment_max_autograd);
    m.impl("put_rows", torch::autograd::autogradNotImplementedFallback());
}
TORCH_LIBRARY_IMPL(by_hand, ADInplaceOrView, m) {
    m.impl("put_rows", torch::autograd::autogradNotImplementedInplaceOrViewFallback());
}
