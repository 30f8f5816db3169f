// EagerCall: an operator called from Python with arrays of any framework, up to the call without the GIL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "call.h"  // Python.h must come before any standard header

#include <deque>
#include <memory>
#include <vector>

#include <isthmus/python/arguments.h>
#include "../dispatch/classify.h"
#include "../protocol/import_request.h"
#include "../results.h"
#include "../runtime/names.h"
#include "refusals.h"
#include "slots.h"

ISTHMUS_BEGIN

namespace detail {

/// A tensor borrowed for the call, and the object that it came from.
struct Loan {
    PyObject* lender;
    Result<Borrowed> tensor;

    Loan(PyObject* object, const ImportOptions& options) : lender(object), tensor(borrow_py(object, options)) {}
};

/// The lists among the arguments of a call.
struct EagerLists {
    Ref tuples[max_parameters];  ///< by input: the elements, whatever becomes of the caller's list
    std::vector<std::int64_t> integers[max_parameters];
    std::deque<Loan> loans;  ///< of all elements that are tensors, in their order
};

/// One eager call. Its borrows end with it. Functions that return bool are false with a Python exception set.
class EagerCall {
public:
    EagerCall(OperatorDefinition& op, PyObject* self, bool may_redirect) noexcept
        : op_(op), self_(self), may_redirect_(may_redirect), call_(op) {}

    /// A new reference, or NULL with a Python exception set.
    PyObject* run(PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
        if (ISTHMUS_UNLIKELY(!sort(args, positional, kwnames))) return nullptr;
        if (ISTHMUS_UNLIKELY(!load_all())) {
            roll_back();
            return redirect_after_error();
        }
        if (ISTHMUS_UNLIKELY(tracked_)) {
            const std::string name = tracked_name();  // the loans know it until they are rolled back
            return redirect_or([&] { return explain_tracked(op_, name.c_str()); });
        }
        if ((framework_ == Framework::torch || ISTHMUS_UNLIKELY(mixed_)) && ISTHMUS_UNLIKELY(is_seen_by_torch()))
            return redirect_or([&] { return explain_seen(op_); }, "torch");
        if (PyErr_Occurred() != nullptr) return nullptr;
        if (ISTHMUS_UNLIKELY(first_ == nullptr) && op_.first_tensor < 0) return fail(explain_no_tensor(op_)), nullptr;
        if (ISTHMUS_UNLIKELY(op_.has_device()) && has_streams(device_.type)) {
            if (framework_ == Framework::jax) return redirect_or([&] { return explain_jax(op_, device_); });
            if (!go_to_device()) return roll_back(), nullptr;
        }
        auto chosen = call_.choose();
        if (ISTHMUS_UNLIKELY(!chosen)) fail(chosen.error());
        if (ISTHMUS_UNLIKELY(!chosen || !place_outs())) {
            roll_back();
            // JAX may lack 64-bit integers; only a GPU's framework makes copies there.
            const bool elsewhere =
                framework_ == Framework::jax || (!chosen && chosen.error().code() == ErrorCode::needs_copy);
            return elsewhere ? redirect_after_error() : nullptr;
        }
        if (((!op_.writes_inputs && out_ == nullptr) || bump_versions()) && call()) return reply();
        roll_back();
        return nullptr;
    }

private:
    const char* function() const noexcept { return op_.function.c_str(); }
    bool fail(const Error& error) {
        set_python_error(error);
        return false;
    }
    bool sort(PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
        const int inputs = op_.input_count;
        const char* names[max_parameters + 1];
        if (ISTHMUS_UNLIKELY(positional > inputs))  // out= is by name only
            return sort_by_name(function(), nullptr, inputs, args, positional, nullptr, objects_);
        for (int i = 0; i <= inputs; ++i) objects_[i] = nullptr;
        if (ISTHMUS_LIKELY(kwnames == nullptr)) {
            for (Py_ssize_t i = 0; i < positional; ++i) objects_[i] = args[i];
            return true;
        }
        for (int i = 0; i < inputs; ++i) names[i] = op_.inputs[i].name.c_str();
        names[inputs] = "out";
        const int count = inputs + (op_.out_count > 0 ? 1 : 0);
        if (!sort_arguments(function(), names, count, args, positional, kwnames, objects_)) return false;
        if (objects_[inputs] != nullptr && objects_[inputs] != Py_None) out_ = objects_[inputs];
        return true;
    }
    bool load_all() {
        for (int i = 0; i < op_.input_count; ++i)
            if (ISTHMUS_UNLIKELY(!load(i))) return false;
        return ISTHMUS_LIKELY(random_ < 0) || load_random();
    }
    bool load(int input) {
        PyObject* object = objects_[input];
        if (ISTHMUS_UNLIKELY(object == nullptr)) return load_missing(input);
        const int p = op_.inputs[input].parameter;
        const ParameterFacts& facts = op_.parameters()[p];
        if (ISTHMUS_UNLIKELY(facts.optional)) return load_optional(input);
        return load_given(input);
    }
    bool load_given(int input) {
        const int p = op_.inputs[input].parameter;
        ParameterValue& value = call_.value(p);
        switch (op_.parameters()[p].kind) {
            case ParameterKind::number:
                return load_scalar(input, value.number);
            case ParameterKind::integer:
                return load_scalar(input, value.integer);
            case ParameterKind::boolean:
                return load_scalar(input, value.boolean);
            case ParameterKind::text: {
                std::string_view text;
                if (!load_scalar(input, text)) return false;
                value.text = {text.data(), text.size()};
                return true;
            }
            case ParameterKind::dtype:
                return load_dtype(input, value);
            case ParameterKind::sizes:
                return load_sizes(input);
            case ParameterKind::random:
                return random_ = input, true;
            case ParameterKind::tensors:
            case ParameterKind::in_outs:
                return load_tensors(input);
            case ParameterKind::integers:
                return load_integers(input, value);
            default:
                return load_tensor(input);
        }
    }
    bool load_optional(int input) {
        const int p = op_.inputs[input].parameter;
        const ParameterFacts& facts = op_.parameters()[p];
        if (objects_[input] == Py_None) return call_.set_absent(p), true;
        if (!load_given(input)) return false;
        if (facts.is_flagged()) call_.value(p).set_scalar_given();
        return true;
    }
    ISTHMUS_NOINLINE bool load_dtype(int input, ParameterValue& value);
    ISTHMUS_NOINLINE bool load_sizes(int input);
    /// Asks the package what a generator draws, once the framework of the call is known.
    ISTHMUS_NOINLINE bool load_random();
    ISTHMUS_NOINLINE bool load_missing(int input);
    bool load_tensor(int input) {
        PyObject* object = objects_[input];
        const Borrowed* tensor =
            borrow(object, op_.inputs[input].name, op_.input_facts(input).kind == ParameterKind::in_out);
        if (ISTHMUS_UNLIKELY(tensor == nullptr)) return false;
        note(object, *tensor);
        call_.set_tensor(op_.inputs[input].parameter, tensor->descriptor(), tensor->flags());
        return true;
    }
    /// What the call has to know of each of its tensors.
    void note(PyObject* object, const Borrowed& tensor) {
        if (ISTHMUS_UNLIKELY(tensor.flags() & tracked_flag)) tracked_ = true;
        if (first_ == nullptr) {
            first_ = &tensor;
            device_ = tensor.device();
            framework_ = framework_of_example(object);
            first_object_ = object;
            first_type_ = Py_TYPE(object);
        } else if (ISTHMUS_UNLIKELY(Py_TYPE(object) != first_type_)) {
            mixed_ = true;
        }
    }
    ISTHMUS_NOINLINE EagerLists* load_elements(int input, const char* expected);
    ISTHMUS_NOINLINE bool load_tensors(int input);
    ISTHMUS_NOINLINE bool load_integers(int input, ParameterValue& value);
    /// Calls `look` with each tensor that was borrowed, until it says false; what it said last.
    template <class F>
    bool each_loan(F&& look) {
        for (int i = 0; i < loans_.size(); ++i)
            if (!look(loans_[i])) return false;
        if (ISTHMUS_UNLIKELY(lists_ != nullptr))
            for (Loan& loan : lists_->loans)
                if (!look(loan)) return false;
        return true;
    }
    /// Whether the call goes by torch's dispatcher.
    bool is_seen_by_torch() {
        if (ISTHMUS_UNLIKELY(mixed_)) return is_mixed_call_seen();
        return may_redirect_ && (!is_plain_torch_class(first_type_) || torch_must_see(op_, self_));
    }
    ISTHMUS_NOINLINE bool is_mixed_call_seen();
    template <class T>
    bool load_scalar(int input, T& value) {
        return read_scalar(objects_[input], value, function(), op_.inputs[input].name.c_str());
    }
    /// NULL with a Python exception set.
    const Borrowed* borrow(PyObject* object, const std::string& argument, bool writes) {
        const ImportOptions options = options_for(argument, writes);
        return borrowed(loans_.add([&] { return Loan(object, options); }));
    }
    static ImportOptions options_for(const std::string& argument, bool writes) noexcept {
        ImportOptions options;
        options.require_writable = options.refuse_grad = writes;
        options.announce = false;
        options.argument = argument.c_str();
        return options;
    }
    const Borrowed* borrowed(const Loan& loan) {
        if (ISTHMUS_LIKELY(loan.tensor.has_value())) return &*loan.tensor;
        fail(argument_error(loan.tensor.error(), function()));
        return nullptr;
    }
    /// The caller's object for a result, borrowed; NULL with a Python exception set.
    PyObject* given_out(int out) {
        if (op_.out_count == 1) return out_;
        if (PyTuple_Check(out_) && PyTuple_GET_SIZE(out_) == op_.out_count) return PyTuple_GET_ITEM(out_, out);
        raise_type(function(), "out", {"a tuple of ", op_.out_count, " tensors"}, out_);
        return nullptr;
    }
    bool take_out(int out, PyObject* object, const SizesList& shape) {
        if (op_.is_bounded(out))
            return fail(op_.argument_error(ErrorCode::bad_argument, op_.out_names[out],
                                           "the call says how many rows there are; expected no out="));
        const Borrowed* tensor = borrow(object, op_.out_names[out], true);
        if (tensor == nullptr) return false;
        auto set = call_.set_out(out, tensor->descriptor(), tensor->flags(), shape);
        return set.has_value() ? check_overlap(out) : fail(set.error());
    }
    /// Refuses a result, borrowed last, that overlaps another tensor: a function may read an argument after it has
    /// written a result, so only an operator's author could know which results may lie in an argument's memory.
    bool check_overlap(int out);
    /// A tensor of Isthmus is thrown for if there is no memory.
    Result<void> make(MadeResult& made, int out, const SizesList& shape) {
        try {
            return make_result(made, framework_, call_.dtype_of(out), device_, shape);
        } catch (const Error& error) {
            return error;
        }
    }
    ISTHMUS_COLD Error explain_unmade(const Error& error) const;
    bool place_outs() {
        SizesList shape;
        for (int i = 0; i < op_.out_count; ++i) {
            auto shaped = call_.shape_of(i, shape);
            if (ISTHMUS_UNLIKELY(!shaped)) return fail(shaped.error());
            if (ISTHMUS_UNLIKELY(out_ != nullptr)) {
                PyObject* given = given_out(i);
                if (given == nullptr || !take_out(i, given, shape)) return false;
                continue;
            }
            MadeResult& made = made_.add([] { return MadeResult(); });
            auto result = make(made, i, shape);
            if (ISTHMUS_UNLIKELY(!result)) return fail(explain_unmade(result.error()));
            call_.set_made(i, made.t);
        }
        return true;
    }
    /// Tells the owners of what will be written. Call when nothing can be refused any more.
    bool bump_versions();
    /// For a call on a device: the work goes to the device and stream of the first tensor.
    ISTHMUS_NOINLINE bool go_to_device();
    /// Makes the stream wait for the work on every tensor that is on another stream.
    ISTHMUS_NOINLINE bool order_before(std::int64_t stream);
    /// Makes the streams of the tensors wait for the function's work. Uses nothing of Python; sets no exception.
    ISTHMUS_NOINLINE bool order_after_call(std::int64_t stream);
    bool call() {
        if (ISTHMUS_UNLIKELY(stream_.has_value()) && !order_before(stream_->number())) return false;
        bool ordered = true;
        PyThreadState* state = PyEval_SaveThread();
        const CapturedException captured = call_.run();
        if (ISTHMUS_UNLIKELY(stream_.has_value())) ordered = order_after_call(stream_->number());
        PyEval_RestoreThread(state);
        if (ISTHMUS_UNLIKELY(!ordered) && !captured)
            return fail(make_error(ErrorCode::producer_failed,
                                   {function(), "(): the driver could not order the tensors' streams after the call"}));
        if (ISTHMUS_LIKELY(!captured)) return true;
        raise_captured(function(), captured);
        return false;
    }
    /// Leaves the results the rows that they said they have.
    ISTHMUS_NOINLINE bool narrow();
    PyObject* reply() {
        if (op_.out_count == 0) Py_RETURN_NONE;
        if (ISTHMUS_UNLIKELY(op_.has_bounds) && !narrow()) return nullptr;
        if (ISTHMUS_UNLIKELY(out_ != nullptr)) return Py_NewRef(out_);
        if (ISTHMUS_LIKELY(op_.out_count == 1)) return made_[0].object.release();
        Ref tuple(PyTuple_New(op_.out_count));
        for (int i = 0; tuple && i < op_.out_count; ++i) PyTuple_SET_ITEM(tuple.get(), i, made_[i].object.release());
        return tuple.release();
    }
    /// Undoes the loans of a call that will not be made.
    ISTHMUS_COLD void roll_back();
    /// The argument that autograd tracks.
    ISTHMUS_COLD std::string tracked_name();
    /// Makes the call through the framework's own machinery, of the named one if one is known to see it: a new
    /// reference, or NULL, without an exception if that cannot make this call.
    ISTHMUS_COLD PyObject* redirect(const char* framework = nullptr);
    /// Called with an exception set: an argument that could not be borrowed may be one that its framework traces. If
    /// the call cannot be redirected the exception stays.
    ISTHMUS_COLD PyObject* redirect_after_error();
    /// redirect() in place of the call; `explain` makes the error if that is not possible.
    template <class F>
    ISTHMUS_COLD PyObject* redirect_or(F&& explain, const char* framework = nullptr) {
        roll_back();
        PyObject* result = redirect(framework);
        if (result == nullptr && PyErr_Occurred() == nullptr) fail(explain());
        return result;
    }

    OperatorDefinition& op_;
    PyObject* self_;
    const bool may_redirect_;
    OperatorCall call_;
    PyObject* objects_[max_parameters + 1];  ///< by input, and then the argument out=
    PyObject* out_ = nullptr;
    const Borrowed* first_ = nullptr;  ///< the first tensor given, of which are:
    Device device_ = Device::cpu();
    Framework framework_ = Framework::tensor;
    PyObject* first_object_ = nullptr;
    PyTypeObject* first_type_;
    bool mixed_ = false;            ///< a tensor given later is of another class
    bool tracked_ = false;          ///< by autograd: a gradient is to be recorded
    int random_ = -1;               ///< the input that is a source of random numbers
    int words_[4];                  ///< what it has drawn
    std::optional<Stream> stream_;  ///< the stream of a device function's work
    Slots<Loan, max_parameters> loans_;
    Slots<MadeResult, max_results> made_;
    std::unique_ptr<EagerLists> lists_;
};

}  // namespace detail

ISTHMUS_END
