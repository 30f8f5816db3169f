// Operators: one typed C++ function in eager code, torch.compile, jax.jit and NumPy's broadcasting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/runtime/ref.h>  // Python.h must come before any standard header

#include <initializer_list>

#include <isthmus/python/operator/parameters.h>

ISTHMUS_BEGIN

namespace detail {

/// One input as its author writes it: a name, and perhaps a default, whose kind is `kind`.
struct InputSpec {
    const char* name;
    ParameterKind kind = ParameterKind::tensor;  ///< tensor: no default
    ParameterValue value{};

    constexpr InputSpec(const char* name_) noexcept : name(name_) {}
    constexpr InputSpec(const char* name_, ParameterKind kind_, ParameterValue value_) noexcept
        : name(name_), kind(kind_), value(value_) {}
};

}  // namespace detail

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
    constexpr operator detail::InputSpec() const noexcept { return name_; }

private:
    const char* name_;
};

/// Options of op().
struct OperatorOptions {
    /// Leading dimensions of the tensors broadcast, as NumPy's generalised ufuncs have it.
    bool batch = false;
    /// The operator's __doc__.
    const char* doc = "";
};

namespace detail {

struct OperatorDefinition;

/// Runs an operator as a kernel of torch's dispatcher, whose stack has `inputs` arguments.
void run_in_torch(const OperatorDefinition& op, std::uint64_t* stack, std::uint64_t inputs);
/// Runs an operator for a call frame of XLA: NULL, or XLA's error. `on_device`: the operands are a GPU's.
void* run_for_xla(const OperatorDefinition& op, void* frame, bool on_device) noexcept;

/// An operator as the compiler knows it. The functions that frameworks call are one set for each operator, since what a
/// framework passes does not identify it.
struct OperatorFunctions {
    const char* name;
    const OverloadFacts* overloads;
    int count;
    void (*torch)(std::uint64_t* stack, std::uint64_t inputs, std::uint64_t outputs);
    void* (*xla)(void* frame);
    void* (*xla_cuda)(void* frame);
    /// Replaced if a module is imported again: frameworks that know the old one then run the new one.
    OperatorDefinition** definition;
};
template <Literal name, auto... f>
struct OperatorOf {
    static_assert((!takes_stream(OverloadOf<f>::facts) && ...), "isthmus: only a function of .cuda<>() has a Stream");
    static inline OperatorDefinition* definition = nullptr;

    static void torch(std::uint64_t* stack, std::uint64_t inputs, std::uint64_t) {
        run_in_torch(*definition, stack, inputs);
    }
    template <bool on_device>
    static void* xla(void* frame) {
        return run_for_xla(*definition, frame, on_device);
    }
    static constexpr OperatorFunctions functions{
        name.text, OverloadSet<f...>::facts, OverloadSet<f...>::count, torch, xla<false>, xla<true>, &definition};
};

/// What RegisteredOperator does whatever the functions are. An error is thrown as Error, or set as the Python exception
/// for a module of the bare API (`sets_error`).
class OperatorRegistration {
public:
    OperatorRegistration(const OperatorRegistration&) = delete;
    OperatorRegistration& operator=(const OperatorRegistration&) = delete;
    /// Whether all went well. With a module of the bare API a Python exception is set otherwise.
    explicit operator bool() const noexcept { return object_ != nullptr; }

protected:
    OperatorRegistration(const OperatorFunctions& functions, PyObject* module, bool sets_error,
                         std::initializer_list<InputSpec> inputs, const OperatorOptions& options);
    /// The operator is complete: the frameworks that were imported before this module get it.
    ~OperatorRegistration();
    void add_gradient(const OperatorFunctions& functions);
    void add_device(const OverloadFacts* overloads, int count, bool of_gradient);

private:
    template <class F>
    void attempt(F&& f);

    OperatorDefinition* op_ = nullptr;
    PyObject* object_ = nullptr;
    bool sets_error_;
};

template <class M>
PyObject* module_object(M& module) {
    if constexpr (std::is_convertible_v<M&, PyObject*>)
        return module;
    else
        return module.ptr();
}

}  // namespace detail

/// What op() returns, to say more of the operator.
template <detail::Literal name, auto... f>
class RegisteredOperator : public detail::OperatorRegistration {
public:
    /// For layers above: op() makes it.
    RegisteredOperator(PyObject* module, bool sets_error, std::initializer_list<detail::InputSpec> inputs,
                       const OperatorOptions& options)
        : OperatorRegistration(detail::OperatorOf<name, f...>::functions, module, sets_error, inputs, options) {}

    /// `g(gradients of the results…, inputs…, Outs…)` has one Out for each floating-point input, in their order, with
    /// its sizes. Of an overload set it is one too. Throws Error (bare API: sets the Python exception) if it does not
    /// fit.
    template <auto... g>
    RegisteredOperator& gradient() {
        this->add_gradient(detail::OperatorOf<name, g...>::functions);
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
///     isthmus::op<"geo::distance", distance>(module, {"a", "b"}).gradient<distance_backward>();
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

#include <isthmus/python.h>  // last: with ISTHMUS_IMPLEMENTATION it brings the sources, which need the above
