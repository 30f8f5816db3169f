// The functions of <isthmus/torch.h> in a module that reaches the bridge by the backend's table: an at::Tensor crosses
// as the torch.Tensor that it has in Python. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/torch/link.h>  // Python.h must come before any standard header

ISTHMUS_BACKEND_DEFINE(ISTHMUS_BACKEND_TORCH)

ISTHMUS_BEGIN

namespace detail {

/// The link of this module; NULL before torch was found.
ISTHMUS_STATE Atomic<const LinkedTorch*> module_link;

struct ModuleLink {
    static const LinkedTorch& known() noexcept {
        static constexpr LinkedTorch nothing;
        const LinkedTorch* found = module_link.load_acquire();
        return ISTHMUS_LIKELY(found != nullptr) ? *found : nothing;
    }
    static bool begin() noexcept { return true; }
    static void keep(const LinkedTorch& found) {
        static const LinkedTorch link = found;
        module_link.store(&link);
    }
    static PyObject* import_torch() noexcept { return backend::import_torch(); }
    static Error failed(ErrorCode code, const char* argument, Message what) noexcept {
        return backend::error_from_exception(code, argument, what);
    }
    static Piece name_of(PyObject* object) noexcept { return backend::piece_of_type(object); }
};
using Link = TorchLink<ModuleLink>;

/// The result of f, called with the GIL, which is taken if this thread does not hold it.
template <class R, class F>
R call_with_gil(F&& f) {
    if (have_gil()) return f();
    struct Call {
        F& f;
        R result;
    } call{f, Error(ErrorCode::bad_thread, "the interpreter has ended or is not the one that this thread runs")};
    (void)backend::take_gil_for([](void* of) { static_cast<Call*>(of)->result = static_cast<Call*>(of)->f(); }, &call);
    return std::move(call.result);
}

inline Result<Tensor> import_at_tensor(const at::Tensor& tensor, const ImportOptions& options) {
    return call_with_gil<Result<Tensor>>([&]() -> Result<Tensor> {
        auto object = to_py(tensor);
        if (!object) return std::move(object).error();
        const Ref held(*object);
        return from_py(held.get(), options);
    });
}
inline Result<at::Tensor> export_to_torch(const Tensor& tensor, const ExportOptions& options) {
    return call_with_gil<Result<at::Tensor>>([&]() -> Result<at::Tensor> {
        auto object = to_py(tensor, Framework::torch, options);
        if (!object) return std::move(object).error();
        const Ref held(*object);
        return from_py_torch(held.get());
    });
}

}  // namespace detail

inline Result<const at::Tensor*> borrow_py_torch(PyObject* object, const char* argument) noexcept {
    return detail::Link::borrow(object, argument);
}
inline Result<at::Tensor> from_py_torch(PyObject* object, const char* argument, Undefined undefined) noexcept {
    return detail::Link::from_py(object, argument, undefined);
}
inline Result<PyObject*> to_py(const at::Tensor& tensor, Undefined undefined) noexcept {
    return detail::Link::to_py(tensor, undefined);
}
inline Result<Tensor> try_from_torch(at::Tensor tensor, const ImportOptions& options) noexcept {
    return detail::Link::try_from(tensor, options, [&] { return detail::import_at_tensor(tensor, options); });
}
inline Result<at::Tensor> to_torch(const Tensor& tensor, const ExportOptions& options) noexcept {
    return detail::Link::to_at(tensor, [&] { return detail::export_to_torch(tensor, options); });
}

ISTHMUS_END
