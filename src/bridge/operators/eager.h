// An operator called from Python with arrays of any framework: arguments, results, and the call without the GIL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python.h>  // Python.h must come before any standard header

#include <isthmus/python/arguments.h>
#include "../dispatch/classify.h"
#include "call.h"
#include "redirect.h"
#include "thrown.h"
#include "../protocol/import_request.h"
#include "../results.h"

ISTHMUS_BEGIN

namespace detail {

/// Several objects of type X, constructed in place one after the other, and destroyed together.
template <class X, int most>
class Slots {
public:
    Slots() noexcept {}
    ~Slots() {
        for (int i = 0; i < count_; ++i) (*this)[i].~X();
    }
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;

    int size() const noexcept { return count_; }
    X& operator[](int i) noexcept { return *std::launder(reinterpret_cast<X*>(storage_[i])); }
    /// `make` returns an X.
    template <class F>
    X& add(F&& make) {
        X* made = ::new (static_cast<void*>(storage_[count_])) X(make());
        ++count_;
        return *made;
    }

private:
    int count_ = 0;
    alignas(X) unsigned char storage_[static_cast<std::size_t>(most)][sizeof(X)];
};

/// One eager call. What it borrows ends with it.
class EagerCall {
public:
    EagerCall(OperatorDefinition& op, PyObject* self) noexcept : op_(op), self_(self), call_(op) {}

    /// A new reference, or NULL with a Python exception set.
    PyObject* run(PyObject* const* args, Py_ssize_t positional, PyObject* kwnames);

private:
    const char* function() const noexcept { return op_.function.c_str(); }
    bool sort(PyObject* const* args, Py_ssize_t positional, PyObject* kwnames);
    bool load_all();
    bool load(int input);
    bool load_missing(int input);
    bool load_tensor(int input);
    template <class T>
    bool load_scalar(int input, T& value) {
        Parameter<T> parameter;
        Match unused;
        if (!parameter.load(objects_[input], function(), op_.inputs[input].name.c_str(), unused)) return false;
        value = parameter.value();
        return true;
    }
    bool fail(const Error& error) {
        set_python_error(error);
        return false;
    }
    bool announce_writes();
    bool place_outs();
    bool take_out(int out, PyObject* object, const SizesList& shape);
    bool stands_alone(int out);
    PyObject* given_out(int out);
    bool call();
    bool go_to_device();
    bool wait_for_tensors(std::int64_t stream);
    bool leave_tensors(std::int64_t stream);
    PyObject* reply();
    void give_all_back();
    PyObject* redirect();
    PyObject* redirect_to_jax();
    const char* watched_name();
    Error explain_watched(const char* name) const;

    OperatorDefinition& op_;
    PyObject* self_;
    OperatorCall call_;
    PyObject* objects_[max_parameters + 1];  ///< by input, and then the argument out=
    PyObject* out_ = nullptr;
    int first_ = -1;  ///< the input that is the first tensor given
    Device device_ = Device::cpu();
    Framework framework_ = Framework::tensor;
    bool watched_ = false;          ///< a gradient is to be recorded
    std::optional<Stream> stream_;  ///< where a device function's work goes
    Slots<Result<Borrowed>, max_parameters> borrowed_;
    PyObject* lenders_[max_parameters];
    Slots<MadeResult, max_results> made_;
};

/// The call of an operator from Python: NULL with an exception set.
PyObject* call_operator(OperatorDefinition& op, PyObject* self, PyObject* const* args, Py_ssize_t positional,
                                    PyObject* kwnames);


inline bool EagerCall::sort(PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
    const int inputs = op_.input_count;
    const char* names[max_parameters + 1];
    if (ISTHMUS_UNLIKELY(positional > inputs)) {
        PyErr_Format(PyExc_TypeError, "%s() takes %d positional arguments but %zd were given", function(), inputs, positional);
        return false;
    }
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

ISTHMUS_NOINLINE inline bool EagerCall::load_missing(int input) {
    const OperatorInput& facts = op_.inputs[input];
    if (facts.has_default)
        call_.value(facts.parameter) = facts.default_value;
    else if (op_.parameters()[facts.parameter].optional)
        call_.set_absent(facts.parameter);
    else
        return PyErr_Format(PyExc_TypeError, "%s() missing required argument '%s'", function(), facts.name.c_str()) != nullptr;
    return true;
}

inline bool EagerCall::load_tensor(int input) {
    PyObject* object = objects_[input];
    const OperatorInput& facts = op_.inputs[input];
    const ParameterFacts& parameter = op_.parameters()[facts.parameter];
    ImportOptions options;
    options.require_writable = parameter.kind == ParameterKind::in_out;
    options.announce = false;
    options.refuse_grad = options.require_writable;
    options.argument = facts.name.c_str();
    lenders_[borrowed_.size()] = object;
    const Result<Borrowed>& result = borrowed_.add([&] { return borrow_py(object, options); });
    if (ISTHMUS_UNLIKELY(!result)) return fail(argument_error(result.error(), function()));
    if (ISTHMUS_UNLIKELY(result->flags() & watched_flag)) watched_ = true;
    if (first_ < 0) {
        first_ = input;
        device_ = result->device();
        framework_ = framework_of_example(object);
    }
    call_.set_tensor(facts.parameter, result->descriptor(), result->flags());
    return true;
}

inline bool EagerCall::load(int input) {
    PyObject* object = objects_[input];
    if (ISTHMUS_UNLIKELY(object == nullptr)) return load_missing(input);
    const int p = op_.inputs[input].parameter;
    const ParameterFacts& facts = op_.parameters()[p];
    ParameterValue& value = call_.value(p);
    switch (facts.kind) {
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
        default:
            if (!facts.optional || object != Py_None) return load_tensor(input);
            call_.set_absent(p);
            return true;
    }
}

inline bool EagerCall::load_all() {
    for (int i = 0; i < op_.input_count; ++i)
        if (ISTHMUS_UNLIKELY(!load(i))) return false;
    return true;
}

/// What the caller brought for a result, borrowed; NULL with a Python exception set.
inline PyObject* EagerCall::given_out(int out) {
    if (op_.out_count == 1) return out_;
    if (PyTuple_Check(out_) && PyTuple_GET_SIZE(out_) == op_.out_count) return PyTuple_GET_ITEM(out_, out);
    raise_type(function(), "out", concat({"a tuple of ", op_.out_count, " tensors"}).c_str(), out_);
    return nullptr;
}

/// Whether the result borrowed last overlaps no other tensor: a function may read an argument after it has written a result, so
/// only an operator's author could know which results may lie in an argument's memory.
inline bool EagerCall::stands_alone(int out) {
    const int last = borrowed_.size() - 1;
    const DLTensor& written = borrowed_[last]->descriptor();
    int place = 0;
    const auto refuse_shared = [&](const std::string& name) {
        return fail(Error(ErrorCode::bad_argument, ErrorKind::value,
                          concat({call_prefix(function(), op_.out_names[out].c_str()), "shares memory with argument '", name,
                                  "'; wanted memory of its own"})));
    };
    for (int i = 0; i < op_.input_count; ++i) {
        const int p = op_.inputs[i].parameter;
        if (!op_.parameters()[p].is_tensor() || call_.value(p).tensor == nullptr) continue;
        if (layout::may_share(borrowed_[place++]->descriptor(), written)) return refuse_shared(op_.inputs[i].name);
    }
    for (int i = 0; place < last; ++i)
        if (layout::may_share(borrowed_[place++]->descriptor(), written)) return refuse_shared(op_.out_names[i]);
    return true;
}

inline bool EagerCall::take_out(int out, PyObject* object, const SizesList& shape) {
    ImportOptions options;
    options.require_writable = options.refuse_grad = true;
    options.announce = false;
    options.argument = op_.out_names[out].c_str();
    lenders_[borrowed_.size()] = object;
    const Result<Borrowed>& result = borrowed_.add([&] { return borrow_py(object, options); });
    if (!result) return fail(argument_error(result.error(), function()));
    auto set = call_.set_out(out, result->descriptor(), result->flags(), shape);
    return set.has_value() ? stands_alone(out) : fail(set.error());
}

inline bool EagerCall::place_outs() {
    SizesList shape;
    for (int i = 0; i < op_.out_count; ++i) {
        auto told = call_.shape_of(i, shape);
        if (ISTHMUS_UNLIKELY(!told)) return fail(told.error());
        if (ISTHMUS_UNLIKELY(out_ != nullptr)) {
            PyObject* given = given_out(i);
            if (given == nullptr || !take_out(i, given, shape)) return false;
            continue;
        }
        MadeResult& made = made_.add([] { return MadeResult(); });
        auto result = make_result(made, framework_, call_.dtype_of(i), device_, shape);
        if (ISTHMUS_UNLIKELY(!result)) return fail(result.error().prefixed(concat({function(), "(): "})));
        call_.set_made(i, made.t);
    }
    return true;
}

/// Call when nothing can be refused any more: a call that is not made must not announce a write.
inline bool EagerCall::announce_writes() {
    const auto announce = [&](PyObject* object, const std::string& name) {
        auto announced = announce_write(object, name.c_str());
        return announced.has_value() || fail(argument_error(announced.error(), function()));
    };
    for (int i = 0; i < op_.input_count; ++i) {
        const bool written = op_.parameters()[op_.inputs[i].parameter].kind == ParameterKind::in_out;
        if (written && !announce(objects_[i], op_.inputs[i].name)) return false;
    }
    for (int i = 0; out_ != nullptr && i < op_.out_count; ++i)
        if (!announce(given_out(i), op_.out_names[i])) return false;
    return true;
}

/// For a call on a device: the work goes to the device and stream of the first tensor.
ISTHMUS_NOINLINE inline bool EagerCall::go_to_device() {
    auto gone = call_.go_to(stream_.emplace(device_, stream_of(*borrowed_[0])));
    return gone.has_value() || fail(gone.error());
}

/// Makes the stream wait for the work on every tensor that is on another stream.
ISTHMUS_NOINLINE inline bool EagerCall::wait_for_tensors(std::int64_t stream) {
    for (int i = 0; i < borrowed_.size(); ++i) {
        auto ordered = order_after(*borrowed_[i], stream);
        if (!ordered) return fail(ordered.error().prefixed(concat({function(), "(): "})));
    }
    return true;
}

/// Makes the streams of the tensors wait for what the function has put on its own. Uses nothing of Python.
ISTHMUS_NOINLINE inline bool EagerCall::leave_tensors(std::int64_t stream) {
    bool good = true;
    for (int i = 0; i < borrowed_.size(); ++i) {
        const Borrowed& tensor = *borrowed_[i];
        if (has_streams(tensor.device().type)) good = order_streams(tensor.device(), stream, stream_of(tensor)) && good;
    }
    return good;
}

inline bool EagerCall::call() {
    if (ISTHMUS_UNLIKELY(stream_.has_value()) && !wait_for_tensors(stream_->number())) return false;
    bool left = true;
    PyThreadState* state = PyEval_SaveThread();
    const Thrown thrown = call_.run();
    if (ISTHMUS_UNLIKELY(stream_.has_value())) left = leave_tensors(stream_->number());
    PyEval_RestoreThread(state);
    if (ISTHMUS_UNLIKELY(!left) && !thrown)
        return fail(make_error(ErrorCode::producer_failed,
                               {function(), "(): the driver could not order the tensors' streams after the call"}));
    if (ISTHMUS_LIKELY(!thrown)) return true;
    set_thrown(op_, thrown);
    return false;
}

inline PyObject* EagerCall::reply() {
    if (op_.out_count == 0) Py_RETURN_NONE;
    if (ISTHMUS_UNLIKELY(out_ != nullptr)) return Py_NewRef(out_);
    if (ISTHMUS_LIKELY(op_.out_count == 1)) return made_[0].object.release();
    Ref tuple(PyTuple_New(op_.out_count));
    for (int i = 0; tuple && i < op_.out_count; ++i) PyTuple_SET_ITEM(tuple.get(), i, made_[i].object.release());
    return tuple.release();
}

/// Gives back what was taken for a call that will not be made.
ISTHMUS_COLD inline void EagerCall::give_all_back() {
    const PendingException pending;
    for (int i = 0; i < borrowed_.size(); ++i)
        if (borrowed_[i].has_value()) give_back(lenders_[i], *borrowed_[i]);
}

/// The argument that automatic differentiation watches.
ISTHMUS_COLD inline const char* EagerCall::watched_name() {
    for (int i = 0; i < borrowed_.size(); ++i) {
        if (!borrowed_[i].has_value() || !(borrowed_[i]->flags() & watched_flag)) continue;
        for (int input = 0; input < op_.input_count; ++input)
            if (objects_[input] == lenders_[i]) return op_.inputs[input].name.c_str();
    }
    return "";
}

/// Why a call that is to be recorded cannot be made.
ISTHMUS_COLD inline Error EagerCall::explain_watched(const char* name) const {
    const std::string prefix = call_prefix(function(), name);
    const char* why =
        op_.gradient == nullptr
            ? "it requires grad, and this operator has no gradient; register it with .gradient<g>(), call it under "
              "torch.no_grad(), or hand over x.detach()"
        : !loaded_module("isthmus.operators")
            ? "it requires grad, and recording that needs the package isthmus, which is not installed; call it under "
              "torch.no_grad(), or hand over x.detach()"
            : "it has a tangent, and operators have no forward mode; hand over torch.autograd.forward_ad.unpack_dual(x).primal";
    return Error(ErrorCode::requires_grad, prefix + why);
}

ISTHMUS_COLD inline PyObject* EagerCall::redirect() {
    const char* name = watched_name();
    give_all_back();
    PyObject* result = redirect_operator(op_, self_, objects_, out_);
    if (result == nullptr && PyErr_Occurred() == nullptr) fail(explain_watched(name));
    return result;
}

/// Only JAX makes arrays on its devices: the call is made through XLA.
ISTHMUS_COLD inline PyObject* EagerCall::redirect_to_jax() {
    give_all_back();
    PyObject* result = redirect_operator(op_, self_, objects_, out_);
    if (result == nullptr && PyErr_Occurred() == nullptr)
        fail(make_error(ErrorCode::bad_device, {function(), "(): a call with arrays of JAX on ", device_,
                                                " needs the package isthmus, which is not installed"}));
    return result;
}

inline PyObject* EagerCall::run(PyObject* const* args, Py_ssize_t positional, PyObject* kwnames) {
    if (ISTHMUS_UNLIKELY(!sort(args, positional, kwnames))) return nullptr;
    if (ISTHMUS_UNLIKELY(!load_all())) {
        give_all_back();
        return redirect_after_error(op_, self_, objects_, out_);
    }
    if (ISTHMUS_UNLIKELY(watched_ || (framework_ == Framework::torch && torch_must_see(op_, self_)))) return redirect();
    if (PyErr_Occurred() != nullptr) return nullptr;
    if (ISTHMUS_UNLIKELY(op_.has_device()) && has_streams(device_.type)) {
        if (framework_ == Framework::jax) return redirect_to_jax();
        if (!go_to_device()) return give_all_back(), nullptr;
    }
    auto chosen = call_.choose();
    if (ISTHMUS_UNLIKELY(!chosen)) fail(chosen.error());
    if (chosen && place_outs() && ((!op_.writes_inputs && out_ == nullptr) || announce_writes()) && call()) return reply();
    give_all_back();
    return nullptr;
}

PyObject* call_operator(OperatorDefinition& op, PyObject* self, PyObject* const* args, Py_ssize_t positional,
                                    PyObject* kwnames) {
    return surviving_exit([&]() -> PyObject* {
        try {
            EagerCall call(op, self);
            return call.run(args, positional, kwnames);
        } catch (const Error& error) {
            set_python_error(error);
        } catch (const std::bad_alloc&) {
            PyErr_NoMemory();
        }
        return nullptr;
    });
}

}  // namespace detail

ISTHMUS_END
