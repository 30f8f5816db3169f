// What only some calls of an operator from Python need: lists, devices, random numbers, a framework that has to see
// them. SPDX-License-Identifier: Apache-2.0
#include "eager.h"  // Python.h must come before any standard header

ISTHMUS_BEGIN

namespace detail {

bool EagerCall::load_dtype(int input, ParameterValue& value) {
    DType dtype;
    const bool good = read_dtype(objects_[input], dtype, op_, op_.inputs[input].name);
    value.dtype = dtype;
    return good;
}

bool EagerCall::load_sizes(int input) {
    const Borrowed* tensor = borrow(objects_[input], op_.inputs[input].name, false);
    if (tensor != nullptr) call_.set_sizes(op_.inputs[input].parameter, tensor->descriptor(), tensor->flags());
    return tensor != nullptr;
}

bool EagerCall::load_random() {
    PyObject* given = objects_[random_] != nullptr ? objects_[random_] : Py_None;
    PyObject* beside = first_object_ != nullptr ? first_object_ : Py_None;
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

bool EagerCall::load_missing(int input) {
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

/// Without memory a framework's own MemoryError is the cause, which has no name of the operator.
Error EagerCall::explain_unmade(const Error& error) const {
    auto* cause = static_cast<PyObject*>(error.cause());
    Error named = prefixed(error, {of_call(function(), nullptr)});
    if (cause == nullptr || PyErr_GivenExceptionMatches(cause, PyExc_MemoryError) == 0) return named;
    return make_error(ErrorCode::out_of_memory, {named.what()});
}

/// NULL with a Python exception set.
EagerLists* EagerCall::load_elements(int input, const char* expected) {
    PyObject* object = objects_[input];
    if (!PyList_Check(object) && !PyTuple_Check(object)) {
        raise_type(function(), op_.inputs[input].name.c_str(), expected, object);
        return nullptr;
    }
    if (lists_ == nullptr) lists_ = std::make_unique<EagerLists>();
    lists_->tuples[input] = Ref(PySequence_Tuple(object));
    return lists_->tuples[input] ? lists_.get() : nullptr;
}

bool EagerCall::load_tensors(int input) {
    EagerLists* lists = load_elements(input, "a list or tuple of tensors");
    PyObject* elements = lists != nullptr ? lists->tuples[input].get() : nullptr;
    ListArgument& given = call_.list(op_.inputs[input].parameter);
    for (Py_ssize_t k = 0; elements != nullptr && k < PyTuple_GET_SIZE(elements); ++k) {
        PyObject* element = PyTuple_GET_ITEM(elements, k);
        const std::string name = name_of_element(op_.inputs[input].name, static_cast<std::size_t>(k));
        const Borrowed* tensor = borrowed(lists->loans.emplace_back(
            element, options_for(name, op_.input_facts(input).kind == ParameterKind::in_outs)));
        if (tensor == nullptr) return false;
        note(element, *tensor);
        given.add(tensor->descriptor(), tensor->flags());
    }
    return elements != nullptr;
}

bool EagerCall::load_integers(int input, ParameterValue& value) {
    const EagerLists* lists = load_elements(input, "a list or tuple of integers");
    if (lists == nullptr) return false;
    PyObject* elements = lists->tuples[input].get();
    std::vector<std::int64_t>& integers = lists_->integers[input];
    integers.resize(static_cast<std::size_t>(PyTuple_GET_SIZE(elements)) + 1);  // data() is an address if it is empty
    for (std::size_t k = 0; k + 1 < integers.size(); ++k) {
        const std::string name = name_of_element(op_.inputs[input].name, k);
        if (!read_scalar(PyTuple_GET_ITEM(elements, static_cast<Py_ssize_t>(k)), integers[k], function(), name.c_str()))
            return false;
    }
    value.integers = {integers.data(), integers.size() - 1};
    return true;
}

bool EagerCall::is_mixed_call_seen() {
    if (!may_redirect_) return false;
    bool has_torch = false;
    const bool all_plain = each_loan([&](const Loan& loan) {
        if (framework_of_example(loan.lender) != Framework::torch) return true;
        has_torch = true;
        return is_plain_torch_class(Py_TYPE(loan.lender));
    });
    return !all_plain || (has_torch && torch_must_see(op_, self_));
}

bool EagerCall::check_overlap(int out) {
    const int last = loans_.size() - 1;
    const DLTensor& written = loans_[last].tensor->descriptor();
    int place = 0;
    const auto is_free = [&](const std::string& name) {
        return !layout::may_share(loans_[place++].tensor->descriptor(), written) ||
               fail(op_.argument_error(ErrorCode::bad_argument, op_.out_names[out],
                                       {"shares memory with argument '", name, "'; expected memory of its own"}));
    };
    for (int i = 0; i < op_.input_count; ++i)
        if (op_.input_facts(i).is_tensor() && i != random_ && call_.value(op_.inputs[i].parameter).tensor != nullptr &&
            !is_free(op_.inputs[i].name))
            return false;
    for (int i = 0; place < last; ++i)
        if (!is_free(op_.out_names[i])) return false;
    for (int i = 0; lists_ != nullptr && i < op_.input_count; ++i)
        for (const DLTensor& t : call_.list(op_.inputs[i].parameter).tensors)
            if (layout::may_share(t, written))
                return fail(op_.argument_error(
                    ErrorCode::bad_argument, op_.out_names[out],
                    {"shares memory with argument '", op_.inputs[i].name, "'; expected memory of its own"}));
    return true;
}

bool EagerCall::bump_versions() {
    const auto bump = [&](PyObject* object, const std::string& name) {
        auto bumped = announce_write(object, name.c_str());
        return bumped.has_value() || fail(argument_error(bumped.error(), function()));
    };
    for (int i = 0; i < op_.input_count; ++i)
        if (op_.input_facts(i).kind == ParameterKind::in_out &&
            call_.value(op_.inputs[i].parameter).tensor != nullptr && !bump(objects_[i], op_.inputs[i].name))
            return false;
    for (int i = 0; lists_ != nullptr && i < op_.input_count; ++i) {
        PyObject* elements = op_.input_facts(i).kind == ParameterKind::in_outs ? lists_->tuples[i].get() : nullptr;
        for (Py_ssize_t k = 0; elements != nullptr && k < PyTuple_GET_SIZE(elements); ++k)
            if (!bump(PyTuple_GET_ITEM(elements, k), op_.inputs[i].name)) return false;
    }
    for (int i = 0; out_ != nullptr && i < op_.out_count; ++i)
        if (!bump(given_out(i), op_.out_names[i])) return false;
    return true;
}

bool EagerCall::go_to_device() {
    auto gone = call_.go_to(stream_.emplace(device_, stream_of(*first_)));
    return gone.has_value() || fail(gone.error());
}

bool EagerCall::order_before(std::int64_t stream) {
    return each_loan([&](const Loan& loan) {
        auto ordered = order_after(*loan.tensor, stream);
        return ordered.has_value() || fail(prefixed(ordered.error(), {of_call(function(), nullptr)}));
    });
}

bool EagerCall::order_after_call(std::int64_t stream) {
    bool good = true;
    (void)each_loan([&](const Loan& loan) {
        const Borrowed& tensor = *loan.tensor;
        if (has_streams(tensor.device().type)) good = order_streams(tensor.device(), stream, stream_of(tensor)) && good;
        return true;
    });
    return good;
}

bool EagerCall::narrow() {
    for (int i = 0; i < op_.out_count; ++i) {
        if (!op_.is_bounded(i) || call_.rows_of(i) == made_[i].t.shape[0]) continue;
        const Ref rows(PyLong_FromLongLong(call_.rows_of(i)));
        const Ref slice(rows ? PySlice_New(nullptr, rows.get(), nullptr) : nullptr);
        made_[i].object = Ref(slice ? PyObject_GetItem(made_[i].object.get(), slice.get()) : nullptr);
        if (!made_[i].object) return false;
    }
    return true;
}

void EagerCall::roll_back() {
    const PendingException pending;
    (void)each_loan([](Loan& loan) {
        if (loan.tensor.has_value()) isthmus::roll_back(loan.lender, *loan.tensor);
        return true;
    });
}

std::string EagerCall::tracked_name() {
    const auto is_tracked = [](const Loan& loan) {
        return loan.tensor.has_value() && (loan.tensor->flags() & tracked_flag) != 0;
    };
    for (int i = 0; i < loans_.size(); ++i)
        for (int input = 0; is_tracked(loans_[i]) && input < op_.input_count; ++input)
            if (objects_[input] == loans_[i].lender) return op_.inputs[input].name;
    for (int input = 0; lists_ != nullptr && input < op_.input_count; ++input) {
        PyObject* elements = lists_->tuples[input].get();
        for (Py_ssize_t k = 0; elements != nullptr && k < PyTuple_GET_SIZE(elements); ++k)
            for (const Loan& loan : lists_->loans)
                if (loan.lender == PyTuple_GET_ITEM(elements, k) && is_tracked(loan))
                    return name_of_element(op_.inputs[input].name, static_cast<std::size_t>(k));
    }
    return {};
}

PyObject* EagerCall::redirect(const char* framework) {
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

PyObject* EagerCall::redirect_after_error() {
    bool may_trace = false;
    const auto look = [&](PyObject* object) {
        for (const char* package : {"torch", "jax", "jaxlib"})
            may_trace = may_trace || (object != nullptr && has_base_of_package(Py_TYPE(object), package));
    };
    for (int i = 0; i < op_.input_count; ++i) {
        look(objects_[i]);
        PyObject* elements = lists_ != nullptr ? lists_->tuples[i].get() : nullptr;
        for (Py_ssize_t k = 0; elements != nullptr && k < PyTuple_GET_SIZE(elements); ++k)
            look(PyTuple_GET_ITEM(elements, k));
    }
    if (!may_trace || !PyErr_ExceptionMatches(PyExc_Exception)) return nullptr;
    PyObject* exception = take_exception();
    PyObject* result = redirect();
    if (result == nullptr && PyErr_Occurred() == nullptr)
        restore_exception(exception);
    else
        Py_DECREF(exception);
    return result;
}

PyObject* call_operator(OperatorDefinition& op, PyObject* self, PyObject* const* args, Py_ssize_t positional,
                        PyObject* kwnames, bool may_redirect) {
    return raising<PyObject*>(op.function.c_str(), nullptr,
                              [&] { return EagerCall(op, self, may_redirect).run(args, positional, kwnames); });
}

}  // namespace detail

ISTHMUS_END
