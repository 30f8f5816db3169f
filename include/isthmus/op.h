// Operators: one typed C++ function in eager code, torch.compile, jax.jit and NumPy's broadcasting.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <initializer_list>

#include <isthmus/python/operator/register.h>

ISTHMUS_BEGIN

/// An input's name with its default: isthmus::arg("k") = 2.0.
class arg {
public:
    /// The name of the input.
    explicit constexpr arg(const char* name) noexcept : said_(name) {}
    constexpr detail::SaidInput operator=(double value) const noexcept {
        return with(detail::SaidInput::Default::number, {.number = value});
    }
    constexpr detail::SaidInput operator=(bool value) const noexcept {
        return with(detail::SaidInput::Default::boolean, {.boolean = value});
    }
    template <class Integer>
        requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>)
    constexpr detail::SaidInput operator=(Integer value) const noexcept {
        return with(detail::SaidInput::Default::integer, {.integer = static_cast<std::int64_t>(value)});
    }
    constexpr detail::SaidInput operator=(const char* value) const noexcept {
        detail::SaidInput said = with(detail::SaidInput::Default::text, {});
        said.text = value;
        return said;
    }
    constexpr operator detail::SaidInput() const noexcept { return said_; }

private:
    constexpr detail::SaidInput with(detail::SaidInput::Default kind, detail::ParameterValue value) const noexcept {
        detail::SaidInput said = said_;
        said.kind = kind;
        said.value = value;
        return said;
    }
    detail::SaidInput said_;
};

/// What op() is told of an operator beside its function.
struct OperatorOptions {
    /// Leading dimensions of the tensors broadcast, as NumPy's generalised ufuncs have it.
    bool batch = false;
    /// The operator's __doc__.
    const char* doc = "";
};

namespace detail {

/// One operator of this extension, with the functions that frameworks call.
template <Literal name, auto... f>
struct OperatorOf {
    static inline OperatorDefinition* definition = nullptr;

    template <bool batched>
    static void torch(std::uint64_t* stack, std::uint64_t, std::uint64_t) {
        run_in_torch(*definition, stack, batched);
    }
    static void* xla(void* frame) { return run_for_xla(*definition, frame, false); }
    static void* xla_cuda(void* frame) { return run_for_xla(*definition, frame, true); }
    /// Made anew where a module is imported again: frameworks that know the old one go by the new one.
    static OperatorDefinition& make() {
        auto* made = new OperatorDefinition;
        static_assert((!takes_stream(OverloadOf<f>::facts) && ...), "isthmus: only a function of .cuda<>() has a Stream");
        lay_out_operator(*made, name.text, OverloadSet<f...>::facts, OverloadSet<f...>::count);
        made->entries = {torch<false>, torch<true>, xla, xla_cuda};
        return *(definition = made);
    }
};

template <class M>
PyObject* module_object(M& module) {
    if constexpr (std::is_convertible_v<M&, PyObject*>)
        return module;
    else
        return module.ptr();
}

/// Throws what became a Python exception, or a C++ one, in the way that the module's binder knows.
template <bool bare, class F>
bool registering(F&& f) {
    if constexpr (bare) {
        try {
            return f();
        } catch (const Error& error) {
            set_python_error(error);
            return false;
        }
    } else {
        if (!f()) throw_registration_error();
        return true;
    }
}

}  // namespace detail

/// What op() returns, to say more of the operator.
template <bool bare, detail::Literal name, auto... f>
class RegisteredOperator {
public:
    /// For layers above: op() makes it.
    explicit RegisteredOperator(PyObject* object) noexcept : object_(object) {}
    RegisteredOperator(const RegisteredOperator&) = delete;
    RegisteredOperator& operator=(const RegisteredOperator&) = delete;
    /// All is said of the operator: the frameworks that were imported before this module get it.
    ~RegisteredOperator() {
        if (object_ != nullptr) detail::offer_operator(*detail::OperatorOf<name, f...>::definition, object_);
        Py_XDECREF(object_);
    }
    /// Whether all went well. With a module of the bare API a Python exception is set otherwise.
    explicit operator bool() const noexcept { return object_ != nullptr; }

    /// `g(gradients of the results…, inputs…, Outs…)` has one Out for each floating-point input, in their order, with its
    /// sizes. Of an overload set it is one too. Throws Error (bare API: sets the Python exception) where it does not fit.
    template <auto... g>
    RegisteredOperator& gradient() {
        if (object_ == nullptr) return *this;
        const bool good = detail::registering<bare>([] {
            using Gradient = detail::OperatorOf<name, g...>;
            detail::OperatorDefinition& made = Gradient::make();
            made.name += "_gradient";
            made.function += "_gradient";
            detail::join_gradient(*detail::OperatorOf<name, f...>::definition, made);
            return true;
        });
        if (!good) Py_CLEAR(object_);
        return *this;
    }

    /// Functions for tensors of a GPU: the parameters of the operator's, of device memory (View<const T, N, on_cuda>), and then
    /// an isthmus::Stream that they put their work on. Dtypes and sizes are those of the operator's functions, of which each
    /// may have one. Throws Error (bare API: sets the Python exception) where they differ.
    template <auto... device>
    RegisteredOperator& cuda() {
        static_assert((detail::is_device_form(detail::OverloadOf<device>::facts, detail::OverloadSet<f...>::facts[0]) && ...),
                      "isthmus: a device function has the parameters of the operator's function, then an isthmus::Stream");
        return join_device<device...>([] { return detail::OperatorOf<name, f...>::definition; });
    }
    /// The same for the gradient, which gradient() has named before.
    template <auto... device>
    RegisteredOperator& cuda_gradient() {
        return join_device<device...>([] {
            detail::OperatorDefinition& op = *detail::OperatorOf<name, f...>::definition;
            if (op.gradient == nullptr)
                detail::refuse_operator(op.name, "it has no gradient that could have a device function");
            return op.gradient;
        });
    }

private:
    template <auto... device, class Find>
    RegisteredOperator& join_device(Find&& find) {
        using Set = detail::OverloadSet<device...>;
        if (object_ == nullptr) return *this;
        const bool good = detail::registering<bare>([&] {
            detail::join_device(*find(), Set::facts, Set::count);
            return true;
        });
        if (!good) Py_CLEAR(object_);
        return *this;
    }

    PyObject* object_;
};

/// Makes `module.function` of a C++ function, or of an overload set that differs in dtypes: an operator of every framework.
///
///     isthmus::op<"geo::distance", distance>(module, {"a", "b"}).gradient<distance_backward>();
///
/// `module` is a PyObject*, nb::module_& or py::module_&; `names` are those of the inputs. Throws Error where it cannot be
/// made; with a PyObject* it sets the Python exception instead. The GIL must be held.
template <detail::Literal name, auto... f, class Module>
auto op(Module&& module, std::initializer_list<detail::SaidInput> names, const OperatorOptions& options = {}) {
    constexpr bool bare = std::is_convertible_v<Module&, PyObject*>;
    static_assert(sizeof...(f) > 0, "isthmus: op<\"namespace::name\", function> wants a function");
    PyObject* object = nullptr;
    detail::registering<bare>([&] {
        detail::OperatorDefinition& made = detail::OperatorOf<name, f...>::make();
        made.batch = options.batch;
        detail::name_operator(made, names.begin(), static_cast<int>(names.size()));
        object = detail::publish_operator(made, detail::module_object(module), options.doc);
        return object != nullptr;
    });
    return RegisteredOperator<bare, name, f...>(object);
}

ISTHMUS_END
