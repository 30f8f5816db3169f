// Operators: one typed C++ function in eager code, torch.compile, jax.jit and NumPy's broadcasting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <isthmus/python/operator/registration.h>

ISTHMUS_BEGIN

/// An input's name with its default: isthmus::arg("k") = 2.0.
class arg {
    using Kind = detail::ParameterKind;

public:
    /// The name of the input.
    explicit constexpr arg(const char* name) noexcept : name_(name) {}
    constexpr detail::InputSpec operator=(double value) const noexcept {
        return {name_, Kind::number, {.number = value}};
    }
    constexpr detail::InputSpec operator=(bool value) const noexcept {
        return {name_, Kind::boolean, {.boolean = value}};
    }
    template <class Integer>
        requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>)
    constexpr detail::InputSpec operator=(Integer value) const noexcept {
        return {name_, Kind::integer, {.integer = static_cast<std::int64_t>(value)}};
    }
    constexpr detail::InputSpec operator=(const char* value) const noexcept {
        return {name_, Kind::text, {.text = {value, std::string_view(value).size()}}};
    }
    constexpr detail::InputSpec operator=(DType value) const noexcept { return {name_, Kind::dtype, {.dtype = value}}; }
    constexpr operator detail::InputSpec() const noexcept { return name_; }

private:
    const char* name_;
};

/// The result of op(), to say more of the operator.
template <detail::Literal name, auto... f>
class RegisteredOperator : public detail::OperatorRegistration {
public:
    /// For layers above: op() makes it.
    RegisteredOperator(PyObject* module, bool sets_error, std::initializer_list<detail::InputSpec> inputs,
                       const OperatorOptions& options)
        : OperatorRegistration(detail::OperatorOf<name, f...>::functions, module, sets_error, inputs, options) {}

    /// `g(gradients of the results…, inputs…, Outs…)` has one Out for each floating-point input, in their order, with
    /// its sizes; `options` name other inputs and Outs. A std::optional<Out> is absent in a call that does not want
    /// that gradient. Of an overload set it is one too. A second call names the gradient of the first one's function.
    /// Throws Error (bare API: sets the Python exception) if it does not fit.
    template <auto... g>
    RegisteredOperator& gradient(const GradientOptions& options = {}) {
        this->extend({.functions = &detail::OperatorOf<name, g...>::functions, .options = options});
        return *this;
    }
    /// The gradient is another operator, by its name: .gradient<"scatter::gather">({.takes = {"grad_out", "index"}}).
    /// It must be registered when a framework first asks for the gradient.
    template <detail::Literal other>
    RegisteredOperator& gradient(const GradientOptions& options = {}) {
        this->extend({.named = other.text, .options = options});
        return *this;
    }

    /// Forward mode: `t(tangents of the floating-point tensor inputs…, inputs…, Outs…)` has one Out for each
    /// floating-point result, in their order. A std::optional tangent is absent if it is zero; that of an optional
    /// input is optional. Of an overload set it is one too. Throws Error (bare API: sets the Python exception) if it
    /// does not fit.
    template <auto... t>
    RegisteredOperator& jvp() {
        this->extend(
            {.kind = detail::OperatorExtension::Kind::jvp, .functions = &detail::OperatorOf<name, t...>::functions});
        return *this;
    }

    /// Under torch.autocast the floating-point arguments have this dtype, as those of torch's own operations that need
    /// it (float32), or gain by it (float16, bfloat16).
    RegisteredOperator& autocast(DType dtype) {
        this->extend({.kind = detail::OperatorExtension::Kind::autocast, .dtype = dtype});
        return *this;
    }

    /// Functions for tensors of a GPU: the parameters of the operator's, of device memory (View<const T, N, on_cuda>),
    /// and then an isthmus::Stream that they put their work on. Dtypes and sizes are those of the operator's functions,
    /// of which each may have one. Throws Error (bare API: sets the Python exception) if they differ.
    template <auto... device>
    RegisteredOperator& cuda() {
        static_assert(
            (detail::is_device_form(detail::OverloadOf<device>::facts, detail::OverloadSet<f...>::facts[0]) && ...),
            "isthmus: a device function has the parameters of the operator's function, then an isthmus::Stream");
        this->add_device(detail::OverloadSet<device...>::facts, sizeof...(device), false);
        return *this;
    }
    /// The same for the gradient, which gradient() has named before.
    template <auto... device>
    RegisteredOperator& cuda_gradient() {
        this->add_device(detail::OverloadSet<device...>::facts, sizeof...(device), true);
        return *this;
    }
};

/// Makes `module.function` of a C++ function, or of an overload set that differs in dtypes: an operator of every
/// framework.
///
///     isthmus::op<"geo::distance", distance>(module, {"a", "b"})
///         .gradient<distance_backward>();
///
/// `module` is a PyObject*, nb::module_& or py::module_&; `names` are those of the inputs. Throws Error if it cannot be
/// made; with a PyObject* it sets the Python exception instead. The GIL must be held.
template <detail::Literal name, auto... f, class Module>
auto op(Module&& module, std::initializer_list<detail::InputSpec> names, const OperatorOptions& options = {}) {
    static_assert(sizeof...(f) > 0, "isthmus: op<\"namespace::name\", function> wants a function");
    constexpr bool bare = std::is_convertible_v<Module&, PyObject*>;
    return RegisteredOperator<name, f...>(detail::module_object(module), bare, names, options);
}

ISTHMUS_END
