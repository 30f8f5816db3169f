// The import path: an object's type, its protocol, the protocol's result, checked, as a Borrowed or a Tensor.
// SPDX-License-Identifier: Apache-2.0

#include "dispatch/import.h"  // Python.h must come before any standard header

#include <isthmus/core/copy.h>
#include <isthmus/python/api.h>

ISTHMUS_BEGIN

namespace detail {

/// A capsule has no producer to ask for its memory on another device, or for a copy that only a producer can make.
ISTHMUS_COLD inline bool fail_capsule_elsewhere(ImportRequest& request) {
    const Device found = request.out.dl().device, wanted = request.options.device;
    roll_back(request.object, request.out.b);
    return request.fail(ErrorCode::bad_device,
                        {"the tensor of this capsule is on ", found, ", where it ",
                         (wanted.type == 0 ? "can be copied by its producer only" : "stays"), "; expected ",
                         (wanted.type == 0 ? Message("a copy") : Message({"it on ", wanted})),
                         ", for which the object that the capsule came from must be passed"});
}

/// Notifies the framework of the write, if that has not happened yet.
inline bool announce_now(ImportRequest& request) {
    ImportOptions options = request.options;
    options.announce = true;
    Borrowed nothing;
    ImportRequest announced{request.object, options, {nothing}, false, request.producer, request.outcome};
    request.out.flags() &= ~unannounced_flag;
    return bump_torch_version_later(announced);
}

/// Whether memory that a producer copied can be the copy that was requested: writable, and laid out so that it may be.
inline bool is_requested_copy(const BorrowedBuilder& out) noexcept {
    const Flags flags = out.flags();
    return (flags & (flag::copied | flag::read_only)) == flag::copied &&
           is_sound(out.dl(), flags & flag::dlpack_known) && !layout::overlaps(out.dl());
}

/// Copies what was imported, and releases it. The copy is host memory.
ISTHMUS_COLD inline bool copy_imported(ImportRequest& request, const ReadForCopy& read) {
    Result<Tensor> made = copy_of(request.out.dl(), request.out.flags() & flag::dlpack_known);
    if (!made) {
        roll_back(request.object, request.out.b);
        return request.fail(std::move(made).error());
    }
    if (read.as_bytes) {
        DLTensor& t = made->block()->dl;
        t.dtype = read.dtype;
        --t.ndim;
        for (int i = 0; i < t.ndim; ++i) t.strides[i] /= read.dtype.itemsize();
    }
    request.out.reset();
    request.out.hold_block(made->release_block());
    return true;
}

/// The producer moves its memory to the requested device, or copies memory that only it can copy.
ISTHMUS_COLD inline bool import_from_elsewhere(ImportRequest& request) {
    if (PyCapsule_CheckExact(request.object)) return fail_capsule_elsewhere(request);
    request.out.reset();
    if (request.options.copy != Copy::always) return import_dlpack_method(request);
    ImportOptions options = request.options;
    options.require_writable = false;
    ReadForCopy read;
    ImportRequest asked{request.object,   options,         request.out, request.owning,
                        request.producer, request.outcome, false,       &read};
    if (!import_dlpack_method(asked)) return false;
    if (Device(request.out.dl().device) == Device::cpu() && !is_requested_copy(request.out))
        return copy_imported(request, read);
    if (request.suits(request.out.flags())) return true;
    request.out.reset();
    return false;
}

/// Imports if a copy is allowed, or if a device is requested. We copy only host memory ourselves; for
/// everything else the producer copies.
ISTHMUS_COLD inline bool import_copying(ImportRequest& request) {
    request.keep_alive();
    const ImportOptions& options = request.options;
    const bool always = options.copy == Copy::always;
    ImportOptions plain = options;
    plain.device = Device{0, 0};
    plain.copy = Copy::from_producer;
    plain.require_writable = options.require_writable && !always;
    plain.announce = false;
    // Memory that is only read for a copy is not held, and so not marked.
    const Protocol by = request.producer.protocol;
    const bool torch = by == Protocol::torch_stable || by == Protocol::torch_exchange || by == Protocol::torch_method;
    const bool lent = torch && always;
    ReadForCopy read;
    ImportRequest shared{request.object,   plain,           request.out,       request.owning && !lent,
                         request.producer, request.outcome, request.immutable, always ? &read : nullptr};
    if (!import_by_protocol(shared)) return false;
    const Device found = request.out.dl().device;
    const bool copied = !lent && (request.out.flags() & flag::copied) != 0;
    const bool moved = options.device.type != 0 && options.device != found;
    const bool copy = always && (lent || !is_requested_copy(request.out));
    // Our copy is heap memory: one in memory of another kind must be made by the producer.
    const bool elsewhere = !found.is_host() || (options.device.type != 0 && found != Device::cpu());
    if (moved || (copy && elsewhere)) return import_from_elsewhere(request);
    if (copy) return copy_imported(request, read);
    if (copied && options.copy == Copy::never) {
        roll_back(request.object, request.out.b);
        return request.fail_copied();
    }
    const bool silent = !options.announce || (request.out.flags() & unannounced_flag) == 0;
    return silent || announce_now(request);
}

/// Why a type cannot be looked at: no object, no GIL, or an exception on the way.
ISTHMUS_COLD inline bool fail_early(ImportRequest& request) {
    if (!have_gil()) return request.fail(explain_no_gil(request.options.argument, "Python objects are imported"));
    if (request.object == nullptr)
        return request.fail(ErrorCode::not_a_tensor, "expected a tensor, got a NULL PyObject*");
    return request.fail_with_exception(ErrorCode::bad_thread, "looking at the type");
}

/// The type of an object that is not in the cache: looked at for the first time. NULL with a Python exception, or none,
/// set.
ISTHMUS_COLD inline const ProducerType* look_at_type(PyObject* object, ProducerType& scratch) {
    return object != nullptr && have_gil() && start_session() ? find_type(Py_TYPE(object), scratch) : nullptr;
}

/// The facts about the type of an object for the fast path: by the struct of its framework alone, so that no code of
/// anybody runs, an exception that is set stays set and the entry in the cache stays in place. False for all
/// others. `type` is the entry, or NULL; `copy` is storage for it.
ISTHMUS_ALWAYS_INLINE bool may_take_fast_path(PyObject* object, const ImportOptions& options, const ProducerType*& type,
                                              TypeCopy& copy) noexcept {
    type = ISTHMUS_LIKELY(is_ready(object)) ? cached_type(Py_TYPE(object), copy) : nullptr;
    return ISTHMUS_LIKELY(type != nullptr && options.copy != Copy::always && options.device.type == 0);
}
/// The tensors that are met most. False, and nothing held, for all others.
ISTHMUS_ALWAYS_INLINE bool borrow_on_fast_path(PyObject* object, const ImportOptions& options, Borrowed& out,
                                               const ProducerType*& type, TypeCopy& copy) noexcept {
    if (ISTHMUS_UNLIKELY(!may_take_fast_path(object, options, type, copy))) return false;
    if (type->protocol == Protocol::numpy) return borrow_numpy_fast(object, options.require_writable, {out});
    return type->protocol == Protocol::torch_stable && import_torch_fast(object, options, *type, {out}, false);
}

/// The slow path, for every other tensor: type → protocol → validation → `out`; on failure the error is left in
/// `outcome`. `type` is what is known of the type, or NULL.
ISTHMUS_ALWAYS_INLINE bool import_any(PyObject* object, const ImportOptions& options, const ProducerType* type,
                                      Borrowed& out, bool owning, ImportOutcome& outcome) {
    const PendingException pending(type != nullptr || have_gil());
    ProducerType known;
    if (ISTHMUS_UNLIKELY(type == nullptr)) type = look_at_type(object, known);
    if (ISTHMUS_UNLIKELY(type == nullptr || !pending.has_python())) {
        ImportRequest failed{object, options, {out}, owning, known, outcome};
        return fail_early(failed);
    }
    known = *type;  // code of the producer may import others, and one of them take this one's place in the cache
    ImportRequest request{object, options, {out}, owning, known, outcome};
    const bool copying = options.copy == Copy::always || options.device.type != 0;
    if (ISTHMUS_UNLIKELY(copying)) return import_copying(request);
    // Called by name, unlike the other import paths: for a parameter of a model or a tensor to be written, and for JAX.
    if (known.protocol == Protocol::torch_stable) return import_torch(request);
    if (known.protocol == Protocol::buffer_or_dlpack) return import_buffer_or_dlpack(request);
    return import_by_protocol(request);
}

/// Whether an import that failed may be made by a copy: with Copy::if_needed, of what cannot be shared as it is
/// required.
ISTHMUS_COLD inline bool copy_would_do(const ImportOptions& options, const Error& error) {
    const ErrorCode code = error.code();
    return options.copy == Copy::if_needed &&
           (code == ErrorCode::needs_copy || code == ErrorCode::read_only || code == ErrorCode::bad_layout);
}
template <class T>
using ImportOtherwise = void(PyObject* object, const ImportOptions& options, const ProducerType* type,
                             Result<T>& result);
/// The error of an import that failed, unless a copy would do and can be made.
template <class T, ImportOtherwise<T>& import_otherwise>
ISTHMUS_COLD void copy_or_fail(PyObject* object, const ImportOptions& options, Error error, Result<T>& result) {
    if (copy_would_do(options, error)) {
        ImportOptions copying = options;
        copying.copy = Copy::always;
        Result<T> copied{Uninitialised{}};
        import_otherwise(object, copying, nullptr, copied);  // NOLINT(readability-redundant-parentheses)
        if (copied) {
            *result = std::move(*copied);
            return;
        }
        if (passes_through(copied.error())) error = std::move(copied).error();
    }
    result.fail(std::move(error));
}

ISTHMUS_NOINLINE inline void borrow_otherwise(PyObject* object, const ImportOptions& options, const ProducerType* type,
                                              Result<Borrowed>& result) {
    ImportOutcome outcome;
    try {
        if (ISTHMUS_UNLIKELY(!import_any(object, options, type, *result, false, outcome)))
            copy_or_fail<Borrowed, borrow_otherwise>(object, options, outcome.error.take(), result);
    } catch (const std::bad_alloc&) {
        result.fail(no_memory_error());
    }
}

/// The block of what an owning import left in `borrowed`; `source` is for the way back.
ISTHMUS_ALWAYS_INLINE bool keep_borrowed(PyObject* source, Borrowed& borrowed, Result<Tensor>& result) noexcept {
    Block* block = nullptr;
    if (ISTHMUS_UNLIKELY(!BorrowedBuilder{borrowed}.into_block(block, source))) return false;
    *result = Tensor::steal(block);
    return true;
}
ISTHMUS_COLD inline void fail_to_keep(PyObject* object, Borrowed& borrowed, Result<Tensor>& result) {
    roll_back(object, borrowed);
    result.fail(Error(ErrorCode::out_of_memory, "no memory for a tensor handle"));
}

/// As borrow_on_fast_path(), for a tensor that is kept: an array goes straight into its block.
ISTHMUS_ALWAYS_INLINE bool own_on_fast_path(PyObject* object, const ImportOptions& options, Result<Tensor>& result,
                                            const ProducerType*& type, TypeCopy& copy) noexcept {
    if (ISTHMUS_UNLIKELY(!may_take_fast_path(object, options, type, copy))) return false;
    if (type->protocol == Protocol::numpy) {
        Block* block = own_numpy_fast(object, options.require_writable);
        if (ISTHMUS_UNLIKELY(block == nullptr)) return false;
        *result = Tensor::steal(block);
        return true;
    }
    if (type->protocol != Protocol::torch_stable) return false;
    Borrowed borrowed;
    if (!import_torch_fast(object, options, *type, {borrowed}, true)) return false;
    if (ISTHMUS_UNLIKELY(!keep_borrowed(object, borrowed, result))) fail_to_keep(object, borrowed, result);
    return true;
}

ISTHMUS_NOINLINE inline void own_otherwise(PyObject* object, const ImportOptions& options, const ProducerType* type,
                                           Result<Tensor>& result) {
    Borrowed borrowed;
    ImportOutcome outcome;
    try {
        if (ISTHMUS_UNLIKELY(!import_any(object, options, type, borrowed, true, outcome)))
            return copy_or_fail<Tensor, own_otherwise>(object, options, outcome.error.take(), result);
    } catch (const std::bad_alloc&) {
        return result.fail(no_memory_error());
    }
    if (!keep_borrowed(PyCapsule_CheckExact(object) ? nullptr : object, borrowed, result))
        fail_to_keep(object, borrowed, result);
}

}  // namespace detail

Result<Borrowed> borrow_py(PyObject* object, const ImportOptions& options) noexcept {
    Result<Borrowed> result{detail::Uninitialised{}};
    detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        detail::TypeCopy copy;
        const detail::ProducerType* type = nullptr;
        if (ISTHMUS_UNLIKELY(!detail::borrow_on_fast_path(object, options, *result, type, copy)))
            detail::borrow_otherwise(object, options, type, result);
    });
    return result;
}

Borrowed detail::lend(Tensor tensor) noexcept {
    Borrowed borrowed;
    BorrowedBuilder{borrowed}.hold_block(tensor.release_block());
    return borrowed;
}

namespace detail {

/// A capsule whose tensor was taken, as if nobody had asked: through the alias that has it, or what owns it.
static bool make_capsule_whole(PyObject* capsule, Block* alias, const void* owner) noexcept {
    return with_gil([&] { return alias != nullptr ? release_alias(capsule, alias) : restore_capsule(capsule, owner); },
                    [] { return false; });
}

}  // namespace detail

void roll_back(PyObject* object, Borrowed& borrowed) noexcept {
    const detail::BorrowedBuilder held{borrowed};
    if (held.owner() == nullptr || !PyCapsule_CheckExact(object)) return held.reset();
    detail::Block* alias = held.held_block();
    const bool given = detail::make_capsule_whole(object, alias, held.owner());
    if (given && alias == nullptr)
        held.forget();
    else
        held.reset();
}
void roll_back(PyObject* object, Tensor& tensor) noexcept {
    detail::Block* block = tensor.block();
    if (block != nullptr && block->owner != nullptr && PyCapsule_CheckExact(object) &&
        block->refs.load_acquire() == 1) {
        detail::Block* alias = (block->flags & detail::alias_flag) != 0 ? block : nullptr;
        const bool given = detail::make_capsule_whole(object, alias, block->owner);
        if (given && alias == nullptr) block->ops = &detail::no_owner_ops;
    }
    tensor = Tensor();
}

namespace detail {

static Result<void> announce_here(PyObject* object, const char* argument) {
    ImportOptions options;
    options.argument = argument;
    Borrowed nothing;
    ImportOutcome outcome;
    const PendingException pending;
    ProducerType known;
    const ProducerType* type = look_at_type(object, known);
    if (type != nullptr) known = *type;  // code of anybody may run now, which replaces the entry
    ImportRequest request{object, options, {nothing}, false, known, outcome};
    const bool done = type != nullptr ? known.framework != Framework::torch || bump_torch_version_later(request)
                                      : fail_early(request);
    if (done) return {};
    return outcome.error.take();
}

}  // namespace detail

Result<void> announce_write(PyObject* object, const char* argument) noexcept {
    return detail::with_gil(
        [&] { return detail::with_memory([&] { return detail::announce_here(object, argument); }); },
        [&]() -> Result<void> { return detail::explain_no_gil(argument, "a write is announced"); });
}

Result<Tensor> from_py(PyObject* object, const ImportOptions& options) noexcept {
    Result<Tensor> result{detail::Uninitialised{}};
    detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        detail::TypeCopy copy;
        const detail::ProducerType* type = nullptr;
        if (ISTHMUS_UNLIKELY(!detail::own_on_fast_path(object, options, result, type, copy)))
            detail::own_otherwise(object, options, type, result);
    });
    return result;
}

ISTHMUS_END
