// How op() registers an operator: what the library needs of its functions, and of each of its inputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/ref.h>  // Python.h must come before any standard header

#include <initializer_list>

#include <isthmus/python/operator/parameters.h>

ISTHMUS_BEGIN

/// What a gradient takes and what it is of: `.gradient<g>({.takes = {"grad_out", "rois"}, .of = {"input"}})`.
struct GradientOptions {
    /// The inputs of the gradient's function, in their order; what is not named is not kept for the backward pass.
    /// "grad_out" is the gradient of the result and "out" the result itself ("grad_out[1]" and "out[1]" of several),
    /// all others are arguments, or the name of a size of one, for a std::int64_t. Without names: the gradient of each
    /// result, then all arguments.
    std::initializer_list<const char*> takes = {};
    /// The arguments that the results of the gradient's function belong to, in their order. Without names: each
    /// floating-point argument.
    std::initializer_list<const char*> of = {};
};

/// Options of op().
struct OperatorOptions {
    /// Leading dimensions of the tensors broadcast, as NumPy's generalised ufuncs have it.
    bool batch = false;
    /// The operator's __doc__.
    const char* doc = "";
};

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

/// The facts of `f`, from its type.
template <auto f, class F = decltype(f)>
struct OverloadOf {
    static_assert(sizeof(F) == 0, "isthmus: an operator is made of a function that returns void and writes its Outs");
    static constexpr OverloadFacts facts{};  // the sentence above is the only error
};
template <auto f, class... A>
struct OverloadOf<f, void (*)(A...)> {
    static constexpr int count = sizeof...(A);
    static_assert(count > 0 && count <= max_parameters,
                  "isthmus: an operator has 1 to 40 parameters, its results included");
    static constexpr ParameterFacts parameters[] = {OperatorParameter<std::remove_cvref_t<A>>::facts...};

    template <std::size_t... i>
    static void unpack(const ParameterValue* values, std::index_sequence<i...>) {
        f(OperatorParameter<std::remove_cvref_t<A>>::get(values[i])...);
    }
    static void call(const ParameterValue* values, CapturedException& captured) {
        capturing([&] { unpack(values, std::index_sequence_for<A...>()); },
                  [&](CapturedException thrown) { captured = std::move(thrown); });
    }
    static constexpr OverloadFacts facts{parameters, count, call};
};
template <auto f, class... A>
struct OverloadOf<f, void (*)(A...) noexcept> : OverloadOf<static_cast<void (*)(A...)>(f)> {};

/// Whether a function begins with the parameters of another, up to their dtypes.
constexpr bool begins_alike(const OverloadFacts& a, const OverloadFacts& b) {
    if (a.count < b.count) return false;
    for (int i = 0; i < b.count; ++i)
        if (a.parameters[i].kind != b.parameters[i].kind || a.parameters[i].optional != b.parameters[i].optional)
            return false;
    return true;
}
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
    static_assert(((OverloadOf<f>::facts.count == facts[0].count && begins_alike(OverloadOf<f>::facts, facts[0])) &&
                   ...),
                  "isthmus: the functions of one operator have the same kinds of parameters, in the same order");
};

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

/// More of an operator than its functions: a gradient, a dtype for autocast, or a Jacobian-vector product.
struct OperatorExtension {
    enum class Kind : std::uint8_t { gradient, autocast, jvp };
    Kind kind = Kind::gradient;
    const OperatorFunctions* functions = nullptr;  ///< of the gradient or the product
    const char* named = nullptr;                   ///< of the gradient: another operator in place of functions
    GradientOptions options = {};
    DType dtype = {};  ///< of autocast
};

/// The part of RegisteredOperator that does not depend on the functions. An error is thrown as Error, or set as the
/// Python exception for a module of the bare API (`sets_error`).
class OperatorRegistration {
public:
    OperatorRegistration(const OperatorRegistration&) = delete;
    OperatorRegistration& operator=(const OperatorRegistration&) = delete;
    /// Whether all went well. With a module of the bare API a Python exception is set otherwise.
    explicit operator bool() const noexcept { return object_ != nullptr; }

protected:
    friend struct BackendAccess;
    OperatorRegistration(const OperatorFunctions& functions, PyObject* module, bool sets_error,
                         std::initializer_list<InputSpec> inputs, const OperatorOptions& options);
    /// The operator is complete: the frameworks that were imported before this module get it.
    ~OperatorRegistration();
    void add_gradient(const OperatorFunctions& functions);
    void extend(const OperatorExtension& more);
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

ISTHMUS_END

#if defined(ISTHMUS_BACKEND)
#include <isthmus/backend/call.h>
ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_OPERATORS)
ISTHMUS_BEGIN
namespace detail {
inline OperatorRegistration::OperatorRegistration(const OperatorFunctions& functions, PyObject* module, bool sets_error,
                                                  std::initializer_list<InputSpec> inputs,
                                                  const OperatorOptions& options) {
    backend::begin_registration(*this, functions, module, sets_error, inputs, options);
}
inline OperatorRegistration::~OperatorRegistration() { backend::end_registration(*this); }
}  // namespace detail
ISTHMUS_END
#endif
