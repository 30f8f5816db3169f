// For binders: how an argument, or a container of them, is loaded for a call, and a tensor returned as its result.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/owned.h>
#include <isthmus/python/binding.h>
#include <isthmus/python/containers.h>
#include <isthmus/python/distinct.h>

#include "dispatch/import.h"
#include "object_argument.h"
#include "runtime/errors.h"
#include "runtime/object_owner.h"

ISTHMUS_BEGIN

namespace detail {

void run_once(Atomic<bool>& done, void (*function)()) {
    static constinit StateMutex mutex;
    if (done.load_acquire()) return;
    const StateLock lock(mutex);
    if (done.load()) return;
    function();
    done.store(true);
}

bool is_no_tensor(PyObject* object) noexcept {
    const PyTypeObject* type = Py_TYPE(object);
    return object == Py_None || type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type ||
           type == &PyUnicode_Type || type == &PyList_Type || type == &PyTuple_Type || type == &PyDict_Type;
}

bool passes_through(const Error& error) noexcept {
    auto* cause = static_cast<PyObject*>(error.cause());
    return error.code() == ErrorCode::out_of_memory || (cause != nullptr && passes_through(cause));
}
ISTHMUS_RARE Loaded raise_in_call(const Error& error) noexcept {
    if (auto* cause = static_cast<PyObject*>(error.cause()); cause != nullptr && passes_through(cause))
        restore_exception(Py_NewRef(cause));
    else
        set_python_error(error);
    return Loaded::raised;
}
ISTHMUS_RARE Loaded pass_on(const Error& error, bool last) noexcept {
    if (!passes_through(error) && !(last && error.code() == ErrorCode::requires_grad)) return Loaded::no;
    return raise_in_call(error);
}
ISTHMUS_RARE Error argument_error(const Error& error, const char* function) {
    const Piece prefix = of_call(function, nullptr);
    if (error.code() == ErrorCode::read_only) return make_error(error.code(), ErrorKind::value, {prefix, error.what()});
    return prefixed(error, {prefix});
}

/// The tensor arguments of the calls that run on this thread, the latest first.
struct Like {
    const void* loader;
    PyObject* object;  // the call keeps it
    const void* call;
    Like* next;
};
static Like*& likes() noexcept {
    static ISTHMUS_THREAD_STATE Like* latest = nullptr;
    return latest;
}
void note_like(const void* loader, PyObject* object, const void* call) noexcept {
    if (auto* like = new (std::nothrow) Like{loader, object, call, likes()}; like != nullptr) likes() = like;
}
PyObject* find_like(const void* call) noexcept {
    PyObject* first = nullptr;
    for (const Like* like = likes(); like != nullptr; like = like->next)
        if (like->call == call) first = like->object;
    return first;
}
static ISTHMUS_COLD void forget_like(const void* loader) noexcept {
    for (Like** at = &likes(); *at != nullptr; at = &(*at)->next)
        if ((*at)->loader == loader) {
            delete std::exchange(*at, (*at)->next);
            return;
        }
}

bool show_array(PyObject* object, const Requirement& r, ArrayParts& parts) noexcept {
    const auto* array = reinterpret_cast<const NumpyArray*>(object);
    if (ISTHMUS_UNLIKELY(!is_known_array(object) || !meets_plainly(array, r))) return false;
    static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
    parts = {array->data, reinterpret_cast<const std::int64_t*>(array->dimensions),
             reinterpret_cast<const std::int64_t*>(array->strides)};
    return true;
}

/// A tensor that was made for the call.
template <class H>
H held_as(Tensor&& made) noexcept {
    if constexpr (std::is_same_v<H, Borrowed>)
        return lend(std::move(made));
    else
        return std::move(made);
}

/// Most arguments: an array of NumPy's, for the length of the call. False, and nothing held, for all others.
template <class H>
ISTHMUS_ALWAYS_INLINE bool TensorSlot<H>::read_array(PyObject* object, const Requirement& r) noexcept {
    if constexpr (std::is_same_v<H, Borrowed>) {
        clear();
        ::new (&result_) Result<Borrowed>(Uninitialised{});
        made_ = true;
        return borrow_array(object, r.writable, *result_);
    }
    return false;
}
template <class H>
bool TensorSlot<H>::read(PyObject* object, const Requirement& r, const char* argument) noexcept {
    ImportOptions options;
    options.require_writable = r.writable;
    options.announce = false;
    options.allow_grad = r.allow_grad;
    options.refuse_grad = true;
    options.argument = argument;
    clear();
    if constexpr (std::is_same_v<H, Borrowed>)
        ::new (&result_) Result<H>(borrow_py(object, options));
    else
        ::new (&result_) Result<H>(from_py(object, options));
    made_ = true;
    const bool ok = result_.has_value();
    if (ok && ISTHMUS_UNLIKELY((result_->flags() & unannounced_flag) || PyCapsule_CheckExact(object)))
        pending_ = object;
    return ok;
}
template <class H>
void TensorSlot<H>::end() noexcept {
    if (ISTHMUS_UNLIKELY(noted_)) forget_like(this);
    if (ISTHMUS_UNLIKELY(pending_ != nullptr)) roll_back(pending_);
    if (made_) result_.~Result();
    made_ = noted_ = false;
}
template <class H>
void TensorSlot<H>::roll_back(PyObject* object) noexcept {
    pending_ = nullptr;
    if (made_ && result_.has_value()) isthmus::roll_back(object, *result_);
}
template <class H>
Loaded TensorSlot<H>::try_load(PyObject* object, const Requirement& r, bool last) noexcept {
    const bool is_tensor = !is_no_tensor(object);
    if (ISTHMUS_UNLIKELY(!is_tensor || !read(object, r, nullptr))) {
        if (last && r.converts == Converts::objects && (!is_tensor || is_no_array(result_.error()))) {
            Match own;
            const Result<void> made = convert_object(object, r, nullptr, own);
            return made ? Loaded::yes : pass_on(made.error(), last);
        }
        return is_tensor ? pass_on(result_.error(), last) : Loaded::no;
    }
    SizeNames names;
    const bool fits = ISTHMUS_LIKELY(meets(descriptor(), result_->flags(), r)) &&
                      (r.size_count < 0 || has_sizes(descriptor(), r.sizes, names, nullptr));
    if (ISTHMUS_LIKELY(fits)) return Loaded::yes;
    if (r.convert == nullptr || !last) return Loaded::no;
    Match own;
    const Result<void> made = convert(object, r, nullptr, own);
    return made ? Loaded::yes : pass_on(made.error(), last);
}
/// The import is released as soon as the copy is made: a capsule can be consumed again.
template <class H>
ISTHMUS_RARE Result<void> TensorSlot<H>::convert(PyObject* object, const Requirement& r, const char* argument,
                                                 Match& match) noexcept {
    Requirement of_any_kind = r;
    if (r.converts != Converts::orders) of_any_kind.accepts = any_dtype::accepts;
    of_any_kind.order = Order::any;
    of_any_kind.alignment = 1;
    if (auto right = match.check_argument(argument, descriptor(), result_->flags(), of_any_kind); !right) return right;
    Result<Tensor> made = r.convert(descriptor(), r);
    if (!made) return prefixed(made.error(), {match.call_of(argument)});
    if (pending_ != nullptr) roll_back(object);
    *result_ = held_as<H>(std::move(*made));
    return {};
}
template <class H>
ISTHMUS_RARE Result<void> TensorSlot<H>::convert_object(PyObject* object, const Requirement& r, const char* argument,
                                                        Match& match) noexcept {
    Result<Tensor> made = tensor_of_object(object, r, argument, match);
    if (!made) return std::move(made).error();
    clear();
    ::new (&result_) Result<H>(held_as<H>(std::move(*made)));
    made_ = true;
    return {};
}
template <class H>
ISTHMUS_ALWAYS_INLINE Result<void> TensorSlot<H>::check_object(PyObject* object, const Requirement& r,
                                                               const char* function, const char* argument, Match* match,
                                                               bool is_read) noexcept {
    Match own(function);
    Match& of_call = match != nullptr ? *match : own;
    if (!is_read && !read(object, r, argument)) {
        if (r.converts == Converts::objects && is_no_array(result_.error()))
            return convert_object(object, r, argument, of_call);
        return argument_error(result_.error(), function);
    }
    auto fits = of_call.check_argument(argument, descriptor(), result_->flags(), r);
    return ISTHMUS_LIKELY(fits.has_value()) || r.convert == nullptr ? fits : convert(object, r, argument, of_call);
}
template <class H>
Loaded TensorSlot<H>::load(PyObject* object, const Requirement& r, const char* function, const char* argument,
                           Match* match) noexcept {
    const bool is_read = read_array(object, r);
    if (ISTHMUS_LIKELY(is_read && r.size_count < 0 && meets(descriptor(), result_->flags(), r))) return Loaded::yes;
    const Result<void> checked = check_object(object, r, function, argument, match, is_read);
    return ISTHMUS_LIKELY(checked.has_value()) ? Loaded::yes : raise_in_call(checked.error());
}
template <class H>
Result<void> TensorSlot<H>::commit_now(const char* function, const char* argument) noexcept {
    PyObject* object = std::exchange(pending_, nullptr);
    if (!(result_->flags() & unannounced_flag)) return {};
    // A binder may have released the GIL before it asks for the value (pybind11::call_guard).
    Result<void> notified = announce_write(object, argument);
    if (!notified) return prefixed(notified.error(), {of_call(function, nullptr)});
    if constexpr (std::is_same_v<H, Tensor>) result_->block()->flags &= ~unannounced_flag;  // nobody else has it yet
    return {};
}
template <class H>
bool TensorSlot<H>::commit_or_raise(const char* function, const char* argument) noexcept {
    const Result<void> committed = commit_now(function, argument);
    return committed.has_value() || raise_in_call(committed.error()) == Loaded::yes;
}

template class TensorSlot<Borrowed>;
template class TensorSlot<Tensor>;

template <class X>
Result<void> HandleLoader<X>::take(PyObject* object, X& value, const ImportOptions& options) noexcept {
    if (taken_ != nullptr) end();
    Result<X> result = [&] {
        if constexpr (std::is_same_v<X, Tensor>)
            return from_py(object, options);
        else
            return borrow_py(object, options);
    }();
    if (!result) return std::move(result).error();
    value = std::move(*result);
    if (PyCapsule_CheckExact(object)) {
        capsule_ = object;
        taken_ = &value;
    }
    return {};
}
template <class X>
Loaded HandleLoader<X>::try_load(PyObject* object, X& value, bool last) noexcept {
    if (is_no_tensor(object)) return Loaded::no;
    const Result<void> taken = take(object, value, default_import);
    return taken ? Loaded::yes : pass_on(taken.error(), last);
}
template <class X>
Loaded HandleLoader<X>::load(PyObject* object, X& value, const char* function, const char* argument, Match*) noexcept {
    ImportOptions options;
    options.argument = argument;
    const Result<void> taken = take(object, value, options);
    return taken ? Loaded::yes : raise_in_call(argument_error(taken.error(), function));
}
template <class X>
void HandleLoader<X>::end() noexcept {
    forget_like(this);
    if (capsule_ != nullptr) roll_back(capsule_, *taken_);
    taken_ = nullptr;
}
template <class X>
void HandleLoader<X>::roll_back(PyObject* object, X& value) noexcept {
    capsule_ = nullptr;
    isthmus::roll_back(object, value);
}
template class HandleLoader<Borrowed>;
template class HandleLoader<Tensor>;

/// The rows of a tensor that is not a sequence in Python, or cannot be read as one (a memoryview of several
/// dimensions): as those of an isthmus.Tensor.
static Loaded hold_rows(PyObject* object, Ref& held) noexcept {
    if (is_no_tensor(object) || PyCapsule_CheckExact(object)) return Loaded::no;
    const Result<Tensor> tensor = from_py(object);
    if (!tensor) return passes_through(tensor.error()) ? raise_in_call(tensor.error()) : Loaded::no;
    const Result<PyObject*> rows = tensor->ndim() > 0 ? to_py(*tensor) : Result<PyObject*>(nullptr);
    const Ref owner(rows ? *rows : nullptr);
    if (owner) held = Ref(PySequence_Tuple(owner.get()));
    return held ? Loaded::yes : is_interrupted() ? Loaded::raised : Loaded::no;
}
Loaded hold_elements(PyObject* object, Ref& held, Py_ssize_t count) noexcept {
    if (PyUnicode_Check(object) || PyBytes_Check(object)) return Loaded::no;
    held = Ref(PySequence_Check(object) ? PySequence_Tuple(object) : nullptr);
    if (!held && is_interrupted()) return Loaded::raised;
    if (!held)
        if (const Loaded read = hold_rows(object, held); read != Loaded::yes) return read;
    return count < 0 || PyTuple_GET_SIZE(held.get()) == count ? Loaded::yes : Loaded::no;
}

Loaded hold_items(PyObject* object, Ref& held) noexcept {
    if (PyDict_Check(object))
        held = Ref(PyDict_Items(object));
    else if (PyMapping_Check(object) && !PySequence_Check(object))
        held = Ref(PyMapping_Items(object));
    else
        return Loaded::no;
    if (!held) return is_interrupted() ? Loaded::raised : Loaded::no;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(held.get()); ++i) {
        PyObject* item = PyList_GET_ITEM(held.get(), i);
        if (!PyTuple_Check(item) || PyTuple_GET_SIZE(item) != 2) return Loaded::no;
    }
    return Loaded::yes;
}

Result<void> check_distinct(const char* function, const char* argument, const DLTensor& t, const char* other,
                            const DLTensor& u) noexcept {
    if (Device(t.device) != Device(u.device) || !layout::share_elements(t, u)) return {};
    return make_error(ErrorCode::bad_argument, ErrorKind::value,
                      {of_call(function, argument), "shares memory with argument '", other,
                       "'; expected memory apart from the other arguments of the call"});
}

PyObject* finish(Result<PyObject*> result) noexcept {
    if (result) return *result;
    set_python_error(result.error());
    return nullptr;
}
/// The tensor for a caller who is to keep `parent` with it: held as well, unless the tensor is known to keep its
/// memory. Empty when memory is out.
ISTHMUS_NOINLINE inline Tensor kept_with(const Tensor& tensor, PyObject* parent) noexcept {
    const bool kept = source_of(tensor.block()) != nullptr || owns_memory(tensor.block());
    return kept ? tensor : Tensor::steal(block_kept_with(tensor.block(), parent));
}
PyObject* to_result(const Tensor& tensor, Framework framework, PyObject* parent) noexcept {
    if (!tensor) Py_RETURN_NONE;
    if (ISTHMUS_LIKELY(parent == nullptr)) return finish(to_py(tensor, framework));
    const Tensor kept = kept_with(tensor, parent);
    return kept ? finish(to_py(kept, framework)) : PyErr_NoMemory();
}
PyObject* to_result(const Reply& reply, PyObject* parent) noexcept {
    if (!reply.tensor) Py_RETURN_NONE;
    if (ISTHMUS_LIKELY(parent == nullptr)) return finish(to_py_like(reply.tensor, reply.like));
    const Tensor kept = kept_with(reply.tensor, parent);
    return kept ? finish(to_py_like(kept, reply.like)) : PyErr_NoMemory();
}
PyObject* to_default_result(DefaultResult form, const Tensor& tensor, PyObject* like, PyObject* parent) noexcept {
    if (ISTHMUS_UNLIKELY(form.reply) && like != nullptr) return to_result(Reply{tensor, like}, parent);
    return to_result(tensor, form.framework, parent);
}

}  // namespace detail

ISTHMUS_END
