// OperatorDefinition: one operator as every back end knows it, and what the back ends offer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/operator/registration.h>  // Python.h must come before any standard header

#include <memory>
#include <string>
#include <vector>

ISTHMUS_BEGIN

namespace detail {

/// A run of dimensions by its name; in a call, the sizes that it stands for.
struct Run {
    TextRef name;
    const std::int64_t* sizes = nullptr;
    int ndim = 0;
    const char* argument = nullptr;  ///< whose sizes these are
};

/// An input by name, with its default.
struct OperatorInput {
    std::string name;
    int parameter = -1;
    bool has_default = false;
    ParameterValue default_value{};
    std::string default_text;  ///< the characters of a text default
};

/// Where a result of a set of dtypes has its dtype from: the parameter that says it, and, if that one may be absent, a
/// required one. -1: none.
struct DTypeSource {
    int parameter = -1;
    int otherwise = -1;
};

/// Where an input of a gradient comes from.
struct GradientSource {
    enum class Kind : std::uint8_t { grad, result, input, sizes, size, needed };
    Kind kind;
    int index = -1;         ///< the result or the input; of `sizes` an input whose elements the gradient does not read
    std::string size = {};  ///< of `size`: the name of a size of some input
};
/// What a gradient takes and gives, as back ends need it.
struct GradientPlan {
    std::vector<GradientSource> sources;  ///< by input of the gradient
    std::vector<int> of;                  ///< by result of the gradient, the input that it is of
    std::string named = {};               ///< the operator that is the gradient; empty: OperatorDefinition::gradient
};

/// An input of a gradient that its C++ function has no parameter for: the sizes of an argument that the gradient of
/// result `out` belongs to, or which results are needed (`out` is -1).
struct HiddenInput {
    int out = -1;
    bool optional = false;
};
/// The functions of a gradient with its hidden inputs as parameters behind those of the functions and a Stream.
struct ExtendedOverloads {
    std::unique_ptr<OverloadFacts[]> overloads;
    std::unique_ptr<ParameterFacts[]> parameters;
    std::unique_ptr<Requirement[]> requirements;
};

/// Never freed: torch and XLA cannot unregister a function.
struct OperatorDefinition {
    std::string name;      ///< "geo::distance"
    std::string space;     ///< "geo"
    std::string function;  ///< "distance"
    const OperatorFunctions& functions;
    const OverloadFacts* overloads;
    int overload_count;
    const OverloadFacts* device_overloads = nullptr;  ///< of .cuda<>(); NULL if there are none
    int device_overload_count = 0;
    OperatorInput inputs[max_parameters];
    int input_count = 0;
    int outs[max_parameters];  ///< the parameters that are results
    int out_count = 0;
    std::string out_names[max_parameters];  ///< "out", or "out[1]" if there are several
    /// The parameter whose sizes a result has, if its own type does not say; -1: none.
    int like[max_parameters];
    /// By overload, those of its results; and the same of the device's.
    std::unique_ptr<DTypeSource[]> sources, device_sources;
    int first_tensor = -1;  ///< the first tensor parameter that is an input
    bool batch = false;     ///< leading dimensions broadcast
    bool writes_inputs = false;
    bool has_formulas = false;      ///< some input has a size that is a formula of others
    bool has_runs = false;          ///< some input has a run of dimensions under one name
    bool has_bounds = false;        ///< some result says during the call how many rows it has
    bool has_lists = false;         ///< some input is a list of tensors
    bool packs_inputs = false;      ///< some function takes a row-major copy of an argument of another order
    bool offered_to_torch = false;  ///< torch.ops has it, or cannot have it
    OperatorDefinition* gradient = nullptr;
    GradientPlan plan;                ///< of its gradient; without sources if there is none
    int gradient_of[max_parameters];  ///< of a gradient: by result, the input of the operator that it belongs to
    std::string gradient_of_names[max_parameters];  ///< the same by name
    std::vector<HiddenInput> hidden;                ///< of a gradient
    std::vector<ExtendedOverloads> extended;
    OperatorDefinition* jvp = nullptr;       ///< the Jacobian-vector product
    bool is_jvp = false;                     ///< it is that of another operator
    std::vector<int> tangents_of, tangents;  ///< by it: the inputs and the results that have tangents
    int needed_parameter = -1;               ///< of a gradient: which of its results are needed, a bit for each
    DType autocast{};  ///< the dtype that torch's autocast gives its arguments; of 0 bits if none was named

    /// Sorts the parameters into inputs and results; `suffix` is appended to the name. Throws Error.
    explicit OperatorDefinition(const OperatorFunctions& functions, const char* suffix = "");
    OperatorDefinition(const OperatorDefinition&) = delete;
    OperatorDefinition& operator=(const OperatorDefinition&) = delete;

    const ParameterFacts* parameters() const noexcept { return overloads[0].parameters; }
    int parameter_count() const noexcept { return overloads[0].count; }
    /// Those of the C++ function on the host, behind which a device's has its Stream.
    int function_parameter_count() const noexcept { return functions.overloads[0].count; }
    const ParameterFacts& input_facts(int input) const noexcept { return parameters()[inputs[input].parameter]; }
    /// Where the results of an overload have their dtypes from. `on_device`: of an overload of the device.
    const DTypeSource* sources_of(const OverloadFacts* overload, bool on_device) const noexcept {
        return on_device ? device_sources.get() + (overload - device_overloads) * out_count
                         : sources.get() + (overload - overloads) * out_count;
    }
    /// Whether the number of rows of a result is known after a call alone.
    bool is_bounded(int out) const noexcept { return has_bounds && has_bound(*parameters()[outs[out]].requirement); }
    /// Whether some input is a list, of tensors or of integers.
    bool takes_lists() const noexcept {
        bool takes = has_lists;
        for (int i = 0; i < input_count; ++i) takes = takes || input_facts(i).kind == ParameterKind::integers;
        return takes;
    }
    bool has_device() const noexcept { return device_overloads != nullptr; }
    /// The name of a parameter, for an error.
    const char* name_of(int parameter) const noexcept;
    /// The integer argument that a size is named after; -1 if there is none.
    int integer_named(std::string_view size) const noexcept;
    /// The functions with the hidden inputs as parameters.
    const OverloadFacts* with_hidden_inputs(const OverloadFacts* functions, int count);
    void set_autocast(DType dtype);
    /// Throws the Error of an operator that cannot be registered, or cannot be a ufunc.
    [[noreturn]] void refuse(Message why) const;
    /// An error about one argument of a call.
    Error argument_error(ErrorCode code, const std::string& argument, Message what) const;
};

/// Checks the operator and completes it. All inputs must have their names. Throws Error if it cannot be one.
void finish_operator(OperatorDefinition& op);
/// Makes functions, or another operator, the gradient of `op`. Throws Error if they do not fit.
void add_gradient_to(OperatorDefinition& op, const OperatorExtension& extension);
/// Throws Error if the arguments' types do not tell the runs of dimensions apart.
void check_runs(const OperatorDefinition& op, const OverloadFacts& overload);
/// Makes functions the Jacobian-vector product of `op`. Throws Error if they do not fit.
void add_jvp_to(OperatorDefinition& op, const OperatorFunctions& functions);
/// By overload, where each of its results has its dtype from. Throws Error if one has none.
std::unique_ptr<DTypeSource[]> find_dtype_sources(const OperatorDefinition& op, const OverloadFacts* overloads,
                                                  int count);

/// A dtype argument: a dtype of a framework or of isthmus, or its name. False with a Python exception set.
bool read_dtype(PyObject* object, DType& dtype, const OperatorDefinition& op, const std::string& argument);

/// The operators of the process: a list in the interpreter's dictionary, where Python code finds those of every
/// extension. Empty with a Python exception set.
Ref all_operators();
/// A Python object of the operator. Like all functions below: a new reference, or NULL with a Python exception set.
PyObject* make_operator_object(OperatorDefinition* op);
/// The call of an operator from Python. `may_redirect`: a call that a framework must see is made by that framework; a
/// framework's own kernel says no.
PyObject* call_operator(OperatorDefinition& op, PyObject* self, PyObject* const* args, Py_ssize_t positional,
                        PyObject* kwnames, bool may_redirect = true);
/// The results of a call with tensors of these dtypes and sizes, [(dtype, sizes), …], or NULL with the exception that
/// the call would raise. `arguments`: by input, (dtype, sizes) for a tensor, None for one that is not given, a number
/// for a scalar, the name of a dtype. `leaves_formulas`: sizes that are formulas are not checked, and are -1 in
/// results.
PyObject* infer_operator(const OperatorDefinition& op, PyObject* arguments, int batch_ndim, bool leaves_formulas);
/// A numpy.ufunc of the operator, with a loop for each of its dtypes.
PyObject* make_ufunc(const OperatorDefinition& op);
/// isthmus.operators, which makes operators of the frameworks from ours; NULL without an exception if the package is
/// not installed.
PyObject* operators_module();

/// Registers with torch the first time that it is seen. Without the package only eager calls are available.
void offer_to_torch(OperatorDefinition& op, PyObject* self);
/// Registers the operator's kernels with torch for `key` ("CPU"). The operator and its batched form must be defined.
/// False if this torch has no shims for it, an Error if it refuses.
Result<bool> implement_in_torch(const OperatorDefinition& op, const char* key);
/// Whether torch's dispatcher would do more with a call in this thread than run the kernel: a mode, a tracer, a
/// transform of torch.func or autocast is at work. May set an exception.
bool torch_must_see(OperatorDefinition& op, PyObject* self);
/// Whether a class of torch's tensors leaves the calls to the dispatcher: torch.Tensor itself and torch.nn.Parameter.
bool is_plain_torch_class(PyTypeObject* type);

/// Takes over `stolen`, which is NULL if making it failed. False with a Python exception set.
inline bool put(PyObject* dict, const char* key, PyObject* stolen) {
    Ref value(stolen);
    return value && PyDict_SetItemString(dict, key, value.get()) == 0;
}

}  // namespace detail

ISTHMUS_END
