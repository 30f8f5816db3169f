// Exports: to_py() and to_py_like().
// SPDX-License-Identifier: Apache-2.0

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <isthmus/python/binding.h>
#include "export.h"
#include "object/tensor_type.h"

ISTHMUS_BEGIN

namespace detail {

/// The first export of all makes isthmus.Tensor's Python type: an extension that only imports never refers to it, so a
/// linker that drops unused sections leaves out the whole of object/.
ISTHMUS_COLD inline Result<PyObject*> export_first(Block* block, Framework framework, const ExportOptions& options) {
    if (!have_gil()) return explain_no_gil(nullptr, handing_out);
    const PendingException pending;
    if (shared_types() == nullptr)
        return error_from_exception(ErrorCode::consumer_failed, nullptr, "making isthmus.Tensor");
    return export_block(block, framework, options);
}
ISTHMUS_ALWAYS_INLINE bool has_exported() noexcept {
    const SharedRuntime* shared = *shared_state;
    return shared != nullptr && load_shared(shared->tensor) != nullptr;
}
ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_tensor(const Tensor& tensor, Framework framework,
                                                      const ExportOptions& options) {
    if (ISTHMUS_UNLIKELY(!tensor))
        return Error(ErrorCode::bad_argument, "argument 'tensor': it is empty (default-made or moved from)");
#if !defined(NDEBUG)
    if (!have_gil()) return explain_no_gil(nullptr, handing_out);
    if (!start_session()) return error_from_exception(ErrorCode::bad_thread, nullptr, "handing out a tensor");
#endif
    if (ISTHMUS_UNLIKELY(!has_exported())) return export_first(tensor.block(), framework, options);
    // NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDeleteLeaks): an Error moves into the Result, where the analyzer loses
    // it
    return export_block(tensor.block(), framework, options);
}

/// A debug build looks at the thread first, in export_tensor().
#if defined(NDEBUG)
inline constexpr bool in_release = true;
#else
inline constexpr bool in_release = false;
#endif

/// Whether the export of the block is just a capsule: no call, no order of streams, no notification.
ISTHMUS_ALWAYS_INLINE bool goes_out_alone(const Block* block) noexcept {
    return in_release && has_exported() && observer.load_relaxed() == nullptr &&
           (block->flags & (unowned_flag | tracked_flag)) == 0 && !has_streams(block->dl.device.device_type);
}
ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_given(Tensor tensor, Framework framework, const ExportOptions& options) {
    if (framework != Framework::capsule || ISTHMUS_UNLIKELY(!tensor) || !goes_out_alone(tensor.block()))
        return export_tensor(tensor, framework, options);
    const PendingException pending;
    if (ISTHMUS_UNLIKELY(!pending.has_python())) return explain_no_gil(nullptr, handing_out);
    PyObject* capsule = versioned_capsule_of_reference(tensor.release_block());
    if (ISTHMUS_LIKELY(capsule != nullptr)) return capsule;
    return error_from_exception(ErrorCode::out_of_memory, nullptr, "making a capsule");
}

ISTHMUS_ALWAYS_INLINE Result<PyObject*> export_like(const Tensor& tensor, PyObject* example,
                                                    const ExportOptions& options) {
    try {
        return export_tensor(tensor, framework_of_example(example), options);
    } catch (const Error& error) {
        return error;
    }
}

}  // namespace detail

Result<PyObject*> to_py(const Tensor& tensor, Framework framework, const ExportOptions& options) noexcept {
    return detail::surviving_exit([&]() ISTHMUS_INLINE_LAMBDA {
        return detail::with_memory([&]() ISTHMUS_INLINE_LAMBDA {
            // Most tensors come from C++. They take no further call here.
            if (detail::in_release && ISTHMUS_LIKELY(tensor) && ISTHMUS_LIKELY(detail::has_exported()) &&
                !detail::may_be_same_object(tensor.block(), framework))
                return detail::export_by_framework(tensor.block(), framework, options);
            return detail::export_tensor(tensor, framework, options);
        });
    });
}

Result<PyObject*> to_py(Tensor&& tensor, Framework framework, const ExportOptions& options) noexcept {
    return detail::surviving_exit([&] {
        return detail::with_memory([&] { return detail::export_given(std::move(tensor), framework, options); });
    });
}

Result<PyObject*> to_py_like(const Tensor& tensor, PyObject* example, const ExportOptions& options) noexcept {
    // The example is often the array that the tensor was made from; its type is looked up once then.
    if (detail::in_release && tensor && detail::has_exported() && tensor.block()->owner == example &&
        ISTHMUS_LIKELY(tensor.block()->ops == &detail::python_owners->array_object))
        if (PyObject* same = detail::same_plain_numpy(tensor.block(), Framework::numpy)) return same;
    return detail::surviving_exit(
        [&] { return detail::with_memory([&] { return detail::export_like(tensor, example, options); }); });
}

ISTHMUS_END
