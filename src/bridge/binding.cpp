// What binders need: Argument, Reply, As, and how one tensor is borrowed for a call and handed out as its result.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/binding.h>

ISTHMUS_BEGIN

namespace detail {

bool BorrowSlot::borrow(PyObject* object, const Requirement& r, const char* argument) noexcept {
    ImportOptions options;
    options.require_writable = r.writable;
    options.announce = false;
    options.allow_grad = r.allow_grad;
    options.refuse_grad = true;
    options.argument = argument;
    clear();
    ::new (&result_) Result<Borrowed>(borrow_py(object, options));
    made_ = true;
    const bool ok = result_.has_value();
    if (ok && ISTHMUS_UNLIKELY((result_->flags() & unannounced_flag) || PyCapsule_CheckExact(object))) pending_ = object;
    return ok;
}
void BorrowSlot::give_back(PyObject* object) noexcept {
    pending_ = nullptr;
    if (made_ && result_.has_value()) isthmus::give_back(object, *result_);
}
Loaded BorrowSlot::try_load(PyObject* object, const Requirement& r, bool last) noexcept {
    if (is_no_tensor(object)) return Loaded::no;
    if (!borrow(object, r, nullptr)) return pass_on(result_.error(), last);
    SizeNames names;
    const bool fits = ISTHMUS_LIKELY(meets(descriptor(), result_->flags(), r)) &&
                      (r.size_count < 0 || has_sizes(descriptor(), r.sizes, names, nullptr));
    if (ISTHMUS_LIKELY(fits)) return Loaded::yes;
    if (r.convert == nullptr || !last) return Loaded::no;
    Match own;
    const Result<void> made = convert(object, r, nullptr, own);
    return made ? Loaded::yes : pass_on(made.error(), last);
}
/// What the producer lent is released as soon as the copy is made: a capsule can be consumed again.
ISTHMUS_RARE Result<void> BorrowSlot::convert(PyObject* object, const Requirement& r, const char* argument,
                                                          Match& match) noexcept {
    Requirement of_any_kind = r;
    of_any_kind.accepts = any_dtype::accepts;
    of_any_kind.order = Order::any;
    of_any_kind.alignment = 1;
    if (auto right = match.check_argument(argument, descriptor(), result_->flags(), of_any_kind); !right) return right;
    Result<Tensor> made = r.convert(descriptor(), r);
    if (!made) return made.error().prefixed(match.prefix(argument));
    if (pending_ != nullptr) give_back(object);
    *result_ = lend(std::move(*made));
    return {};
}
Result<void> BorrowSlot::announce_now(const char* function, const char* argument) noexcept {
    PyObject* object = std::exchange(pending_, nullptr);
    if (!(result_->flags() & unannounced_flag)) return {};
    return surviving_exit([&]() -> Result<void> {
        // A binder may have released the GIL before it asks for the value (pybind11::call_guard).
        const bool away = !have_gil();
        const PyGILState_STATE state = away ? PyGILState_Ensure() : PyGILState_STATE{};
        Result<void> announced = announce_write(object, argument);
        if (!announced) announced = announced.error().prefixed(call_prefix(function, nullptr));
        if (away) PyGILState_Release(state);
        return announced;
    });
}
Result<void> BorrowSlot::load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                                          Match* match) noexcept {
    if (!borrow(object, r, argument)) return argument_error(result_.error(), function);
    Match own(function);
    Match& of_call = match != nullptr ? *match : own;
    auto fits = of_call.check_argument(argument, descriptor(), result_->flags(), r);
    return ISTHMUS_LIKELY(fits.has_value()) || r.convert == nullptr ? fits : convert(object, r, argument, of_call);
}

}  // namespace detail

ISTHMUS_END
