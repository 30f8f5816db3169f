// An operator called from Python with arrays of any framework: arguments, results, and the call without the GIL.
// SPDX-License-Identifier: Apache-2.0
#include "call.h"  // Python.h must come before any standard header

#include <isthmus/python/arguments.h>
#include "../dispatch/classify.h"
#include "../protocol/import_request.h"
#include "../results.h"
#include "../runtime/names.h"
#include "refusals.h"
#include "slots.h"

ISTHMUS_BEGIN

namespace detail {

namespace {

/// A tensor borrowed for the call, and the object that it came from.
struct Loan {
    PyObject* lender;
    Result<Borrowed> tensor;
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
            const char* name = tracked_name();  // the loans know it until they are rolled back
            return redirect_or([&] { return explain_tracked(op_, name); });
        }
        if ((framework_ == Framework::torch || ISTHMUS_UNLIKELY(mixed_)) && ISTHMUS_UNLIKELY(is_seen_by_torch()))
            return redirect_or([&] { return explain_seen(op_); }, "torch");
        if (PyErr_Occurred() != nullptr) return nullptr;
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
            default:
                return load_tensor(input);
        }
    }
    bool load_optional(int input) {
        const int p = op_.inputs[input].parameter;
        const ParameterFacts& facts = op_.parameters()[p];
        if (objects_[input] == Py_None) return call_.set_absent(p), true;
        if (!load_given(input)) return false;
        if (!facts.is_tensor() && facts.kind != ParameterKind::text) call_.value(p).set_scalar_given();
        return true;
    }
    ISTHMUS_NOINLINE bool load_dtype(int input, ParameterValue& value) {
        DType dtype;
        const bool good = read_dtype(objects_[input], dtype, op_, op_.inputs[input].name);
        value.dtype = dtype;
        return good;
    }
    ISTHMUS_NOINLINE bool load_sizes(int input) {
        const Borrowed* tensor = borrow(objects_[input], op_.inputs[input].name, false);
        if (tensor != nullptr) call_.set_sizes(op_.inputs[input].parameter, tensor->descriptor(), tensor->flags());
        return tensor != nullptr;
    }
    /// Asks the package what a generator draws, once the framework of the call is known.
    ISTHMUS_NOINLINE bool load_random() {
        PyObject* given = objects_[random_] != nullptr ? objects_[random_] : Py_None;
        PyObject* beside = loans_.size() > 0 ? loans_[0].lender : Py_None;
        const Ref module(operators_module());
        if (!module && PyErr_Occurred() == nullptr)
            return fail(op_.argument_error(ErrorCode::bad_argument, op_.inputs[random_].name,
                                           "a source of random numbers needs the package isthmus, which is not "
                                           "installed"));
        const Ref words(module ? PyObject_CallMethod(module.get(), "_random_words", "OsOO", self_,
                                                     op_.inputs[random_].name.c_str(), given, beside)
                               : nullptr);
        static constexpr std::int64_t shape[] = {4}, strides[] = {1};
        if (!words || !PyArg_ParseTuple(words.get(), "iiii", words_, words_ + 1, words_ + 2, words_ + 3)) return false;
        call_.set_tensor(op_.inputs[random_].parameter,
                         DLTensor{words_, Device::cpu(), 1, int32, const_cast<std::int64_t*>(shape),
                                  const_cast<std::int64_t*>(strides), 0},
                         0);
        return true;
    }
    ISTHMUS_NOINLINE bool load_missing(int input) {
        const OperatorInput& facts = op_.inputs[input];
        if (facts.has_default)
            call_.value(facts.parameter) = facts.default_value;
        else if (op_.input_facts(input).optional)
            call_.set_absent(facts.parameter);
        else if (op_.input_facts(input).kind == ParameterKind::random)
            random_ = input;
        else
            return raise_missing(function(), facts.name.c_str());
        return true;
    }
    bool load_tensor(int input) {
        PyObject* object = objects_[input];
        const Borrowed* tensor =
            borrow(object, op_.inputs[input].name, op_.input_facts(input).kind == ParameterKind::in_out);
        if (ISTHMUS_UNLIKELY(tensor == nullptr)) return false;
        if (ISTHMUS_UNLIKELY(tensor->flags() & tracked_flag)) tracked_ = true;
        if (!has_tensor_) {
            has_tensor_ = true;
            device_ = tensor->device();
            framework_ = framework_of_example(object);
            first_type_ = Py_TYPE(object);
        } else if (ISTHMUS_UNLIKELY(Py_TYPE(object) != first_type_)) {
            mixed_ = true;
        }
        call_.set_tensor(op_.inputs[input].parameter, tensor->descriptor(), tensor->flags());
        return true;
    }
    /// Whether the call goes by torch's dispatcher.
    bool is_seen_by_torch() {
        if (ISTHMUS_UNLIKELY(mixed_)) return is_mixed_call_seen();
        return may_redirect_ && (!is_plain_torch_class(first_type_) || torch_must_see(op_, self_));
    }
    ISTHMUS_NOINLINE bool is_mixed_call_seen() {
        bool has_torch = false;
        for (int i = 0; may_redirect_ && i < loans_.size(); ++i) {
            if (framework_of_example(loans_[i].lender) != Framework::torch) continue;
            has_torch = true;
            if (!is_plain_torch_class(Py_TYPE(loans_[i].lender))) return true;
        }
        return has_torch && torch_must_see(op_, self_);
    }
    template <class T>
    bool load_scalar(int input, T& value) {
        return read_scalar(objects_[input], value, function(), op_.inputs[input].name.c_str());
    }
    /// NULL with a Python exception set.
    const Borrowed* borrow(PyObject* object, const std::string& argument, bool writes) {
        ImportOptions options;
        options.require_writable = options.refuse_grad = writes;
        options.announce = false;
        options.argument = argument.c_str();
        const Loan& loan = loans_.add([&] { return Loan{object, borrow_py(object, options)}; });
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
    bool check_overlap(int out) {
        const int last = loans_.size() - 1;
        const DLTensor& written = loans_[last].tensor->descriptor();
        int place = 0;
        const auto is_free = [&](const std::string& name) {
            return !layout::may_share(loans_[place++].tensor->descriptor(), written) ||
                   fail(op_.argument_error(ErrorCode::bad_argument, op_.out_names[out],
                                           {"shares memory with argument '", name, "'; expected memory of its own"}));
        };
        for (int i = 0; i < op_.input_count; ++i)
            if (op_.input_facts(i).is_tensor() && i != random_ &&
                call_.value(op_.inputs[i].parameter).tensor != nullptr && !is_free(op_.inputs[i].name))
                return false;
        for (int i = 0; place < last; ++i)
            if (!is_free(op_.out_names[i])) return false;
        return true;
    }
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
            auto result = make_result(made, framework_, call_.dtype_of(i), device_, shape);
            if (ISTHMUS_UNLIKELY(!result)) return fail(prefixed(result.error(), {of_call(function(), nullptr)}));
            call_.set_made(i, made.t);
        }
        return true;
    }
    /// Tells the owners of what will be written. Call when nothing can be refused any more.
    bool bump_versions() {
        const auto bump = [&](PyObject* object, const std::string& name) {
            auto bumped = announce_write(object, name.c_str());
            return bumped.has_value() || fail(argument_error(bumped.error(), function()));
        };
        for (int i = 0; i < op_.input_count; ++i)
            if (op_.input_facts(i).kind == ParameterKind::in_out &&
                call_.value(op_.inputs[i].parameter).tensor != nullptr && !bump(objects_[i], op_.inputs[i].name))
                return false;
        for (int i = 0; out_ != nullptr && i < op_.out_count; ++i)
            if (!bump(given_out(i), op_.out_names[i])) return false;
        return true;
    }
    /// For a call on a device: the work goes to the device and stream of the first tensor.
    ISTHMUS_NOINLINE bool go_to_device() {
        auto gone = call_.go_to(stream_.emplace(device_, stream_of(*loans_[0].tensor)));
        return gone.has_value() || fail(gone.error());
    }
    /// Makes the stream wait for the work on every tensor that is on another stream.
    ISTHMUS_NOINLINE bool order_before(std::int64_t stream) {
        for (int i = 0; i < loans_.size(); ++i) {
            auto ordered = order_after(*loans_[i].tensor, stream);
            if (!ordered) return fail(prefixed(ordered.error(), {of_call(function(), nullptr)}));
        }
        return true;
    }
    /// Makes the streams of the tensors wait for the function's work. Uses nothing of Python; sets no exception.
    ISTHMUS_NOINLINE bool order_after_call(std::int64_t stream) {
        bool good = true;
        for (int i = 0; i < loans_.size(); ++i) {
            const Borrowed& tensor = *loans_[i].tensor;
            if (has_streams(tensor.device().type))
                good = order_streams(tensor.device(), stream, stream_of(tensor)) && good;
        }
        return good;
    }
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
    ISTHMUS_NOINLINE bool narrow() {
        for (int i = 0; i < op_.out_count; ++i) {
            if (!op_.is_bounded(i) || call_.rows_of(i) == made_[i].t.shape[0]) continue;
            const Ref rows(PyLong_FromLongLong(call_.rows_of(i)));
            const Ref slice(rows ? PySlice_New(nullptr, rows.get(), nullptr) : nullptr);
            made_[i].object = Ref(slice ? PyObject_GetItem(made_[i].object.get(), slice.get()) : nullptr);
            if (!made_[i].object) return false;
        }
        return true;
    }
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
    ISTHMUS_COLD void roll_back() {
        const PendingException pending;
        for (int i = 0; i < loans_.size(); ++i)
            if (loans_[i].tensor.has_value()) isthmus::roll_back(loans_[i].lender, *loans_[i].tensor);
    }
    /// The argument that autograd tracks.
    ISTHMUS_COLD const char* tracked_name() {
        for (int i = 0; i < loans_.size(); ++i) {
            if (!loans_[i].tensor.has_value() || !(loans_[i].tensor->flags() & tracked_flag)) continue;
            for (int input = 0; input < op_.input_count; ++input)
                if (objects_[input] == loans_[i].lender) return op_.inputs[input].name.c_str();
        }
        return "";
    }
    /// Makes the call through the framework's own machinery, of the named one if one is known to see it: a new
    /// reference, or NULL, without an exception if that cannot make this call.
    ISTHMUS_COLD PyObject* redirect(const char* framework = nullptr) {
        if (!may_redirect_) return nullptr;
        Ref arguments(PyDict_New());
        for (int i = 0; arguments && i < op_.input_count; ++i)
            if (objects_[i] != nullptr &&
                PyDict_SetItemString(arguments.get(), op_.inputs[i].name.c_str(), objects_[i]) != 0)
                return nullptr;
        Ref module(arguments ? operators_module() : nullptr);
        if (!module) return nullptr;
        Ref result(PyObject_CallMethod(module.get(), "_redirect", "OOOz", self_, arguments.get(),
                                       out_ != nullptr ? out_ : Py_None, framework));
        return result.get() == Py_NotImplemented ? nullptr : result.release();
    }
    /// Called with an exception set: an argument that could not be borrowed may be one that its framework traces. If
    /// the call cannot be redirected the exception stays.
    ISTHMUS_COLD PyObject* redirect_after_error() {
        bool may_trace = false;
        for (int i = 0; i < op_.input_count; ++i)
            for (const char* package : {"torch", "jax", "jaxlib"})
                may_trace = may_trace || (objects_[i] != nullptr && has_base_of_package(Py_TYPE(objects_[i]), package));
        if (!may_trace || !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
        PyObject* exception = take_exception();
        PyObject* result = redirect();
        if (result == nullptr && PyErr_Occurred() == nullptr)
            restore_exception(exception);
        else
            Py_DECREF(exception);
        return result;
    }
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
    bool has_tensor_ = false;  ///< of the first tensor given are:
    Device device_ = Device::cpu();
    Framework framework_ = Framework::tensor;
    PyTypeObject* first_type_;
    bool mixed_ = false;            ///< a tensor given later is of another class
    bool tracked_ = false;          ///< by autograd: a gradient is to be recorded
    int random_ = -1;               ///< the input that is a source of random numbers
    int words_[4];                  ///< what it has drawn
    std::optional<Stream> stream_;  ///< the stream of a device function's work
    Slots<Loan, max_parameters> loans_;
    Slots<MadeResult, max_results> made_;
};

}  // namespace

PyObject* call_operator(OperatorDefinition& op, PyObject* self, PyObject* const* args, Py_ssize_t positional,
                        PyObject* kwnames, bool may_redirect) {
    return raising<PyObject*>(op.function.c_str(), nullptr,
                              [&] { return EagerCall(op, self, may_redirect).run(args, positional, kwnames); });
}

}  // namespace detail

ISTHMUS_END
