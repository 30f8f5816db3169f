// at::Tensor and torch.Tensor by the libtorch that a file is linked to, with the bridge in the module (src/torch.cpp)
// or behind the backend's table (backend/torch.h). SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/torch/api.h>  // Python.h must come before any standard header

#include <cstddef>
#include <cstring>
#include <string>

#include <ATen/ops/from_blob.h>

// As torch/csrc/autograd/python_variable.h declares them. That header brings pybind11 and the whole of autograd.
TORCH_PYTHON_API extern PyObject* THPVariableClass;
TORCH_PYTHON_API extern PyObject* ParameterClass;
TORCH_PYTHON_API PyObject* THPVariable_Wrap(const at::TensorBase& var);

ISTHMUS_BEGIN

namespace detail {

/// The torch that this process runs, once it was found to be the one that this file was compiled for.
struct LinkedTorch {
    PyTypeObject* tensor = nullptr;     ///< torch.Tensor; NULL while nothing is known
    PyTypeObject* parameter = nullptr;  ///< torch.nn.Parameter
    std::ptrdiff_t offset = 0;          ///< of the at::Tensor inside a torch.Tensor's PyObject
    bool ready() const noexcept { return tensor != nullptr; }
    bool is_tensor(PyTypeObject* type) const noexcept {
        return type == tensor || type == parameter || PyType_IsSubtype(type, tensor);
    }
    const at::Tensor& tensor_of(PyObject* object) const noexcept {
        return *reinterpret_cast<const at::Tensor*>(reinterpret_cast<const char*>(object) + offset);
    }
};

/// borrow_py_torch(), from_py_torch() and to_py(). `State` keeps the LinkedTorch: known() reads it, keep(link) sets it,
/// begin() starts what that needs, or returns false with an exception set. import_torch() is a new reference or NULL;
/// failed(code, argument, what) an error of the exception that is set; name_of(object) the name of its type.
template <class State>
struct TorchLink {
    /// libtorch's exceptions have a C++ backtrace below the first line; a Python exception is kept as the cause.
    ISTHMUS_COLD static Error torch_error(ErrorCode code, const char* argument, const std::string& what,
                                          const char* text) {
        if (Py_IsInitialized() != 0 && have_gil() && PyErr_Occurred() != nullptr)
            return State::failed(code, argument, what);
        const std::string all = text;
        return make_error(code, argument, what + ": " + all.substr(0, all.find('\n')));
    }

    /// libtorch promises no layout across versions, so another one than that of the headers must not be touched.
    static Result<void> check_linked_version() {
        const std::string wanted = concat({TORCH_VERSION_MAJOR, ".", TORCH_VERSION_MINOR});
        Ref torch(State::import_torch());
        Ref version(torch ? PyObject_GetAttrString(torch.get(), "__version__") : nullptr);
        Ref text(version ? PyObject_Str(version.get()) : nullptr);
        const char* utf8 = text ? PyUnicode_AsUTF8AndSize(text.get(), nullptr) : nullptr;
        if (utf8 == nullptr) return State::failed(ErrorCode::unavailable, nullptr, "importing torch");
        const std::string found = utf8;
        if (found.compare(0, wanted.size() + 1, wanted + ".") == 0) return {};
        return Error(ErrorCode::unavailable, "torch is " + found + ", and this extension was compiled for " + wanted +
                                                 "; compile it against the installed one");
    }

    /// The struct behind a torch.Tensor is private, and has changed: up to 2.9 a flag stood before the at::Tensor. A
    /// tensor of our own shows its offset.
    static Result<std::ptrdiff_t> find_linked_offset() {
        float element = 0;
        const at::Tensor probe = at::from_blob(&element, {1});
        Ref object(THPVariable_Wrap(probe));
        if (!object) return State::failed(ErrorCode::unavailable, nullptr, "making a torch.Tensor");
        const auto* bytes = reinterpret_cast<const char*>(object.get());
        for (const std::size_t at : {sizeof(PyObject), sizeof(PyObject) + sizeof(void*)}) {
            void* found = nullptr;
            std::memcpy(&found, bytes + at, sizeof found);
            if (found == probe.unsafeGetTensorImpl()) return static_cast<std::ptrdiff_t>(at);
        }
        return Error(ErrorCode::unavailable, "this torch keeps the at::Tensor of a torch.Tensor in an unknown place");
    }

    ISTHMUS_COLD static Error explain_not_torch(PyObject* object, const char* argument) {
        if (object == nullptr)
            return make_error(ErrorCode::not_a_tensor, argument, "expected torch.Tensor, got a NULL PyObject*");
        return make_error(ErrorCode::not_a_tensor, argument, {"expected torch.Tensor, got ", State::name_of(object)});
    }

    /// Finds torch; without `import`, only if somebody else has imported it.
    ISTHMUS_NOINLINE static Result<void> start(bool import) {
        if (!State::begin()) return State::failed(ErrorCode::unavailable, nullptr, "starting isthmus");
        if (THPVariableClass == nullptr && !import) return Error(ErrorCode::unavailable, "torch is not imported");
        try {
            if (auto version = check_linked_version(); !version) return version;
            if (THPVariableClass == nullptr)
                return Error(ErrorCode::unavailable,
                             "the torch that Python imports is not the libtorch that this extension is linked to");
            auto offset = find_linked_offset();
            if (!offset) return std::move(offset).error();
            auto* tensor = reinterpret_cast<PyTypeObject*>(THPVariableClass);
            auto* parameter = ParameterClass != nullptr ? reinterpret_cast<PyTypeObject*>(ParameterClass) : tensor;
            State::keep({tensor, parameter, *offset});
        } catch (const std::exception& thrown) {
            return torch_error(ErrorCode::unavailable, nullptr, "torch cannot be used", thrown.what());
        }
        return {};
    }

    ISTHMUS_COLD static Result<const at::Tensor*> look_at(PyObject* object, const char* argument) {
        if (object == nullptr) return explain_not_torch(object, argument);
        if (!State::known().ready()) {
            if (auto started = start(false); !started) {
                // Without torch in the process nothing is a torch.Tensor; the object is what is wrong.
                if (THPVariableClass == nullptr)
                    return make_error(
                        ErrorCode::not_a_tensor, argument,
                        std::string(explain_not_torch(object, nullptr).what()) + " (torch is not imported)");
                return std::move(started).error();
            }
        }
        // By the type itself: isinstance() would believe a mock that claims to be a tensor, and its memory is
        // something else.
        if (!State::known().is_tensor(Py_TYPE(object))) return explain_not_torch(object, argument);
        const at::Tensor& tensor = State::known().tensor_of(object);
        if (!tensor.defined())
            return make_error(ErrorCode::null_data, argument,
                              {"this ", State::name_of(object), " was cleared by the garbage collector"});
        return &tensor;
    }

    ISTHMUS_ALWAYS_INLINE static Result<const at::Tensor*> borrow(PyObject* object, const char* argument) noexcept {
        const LinkedTorch& torch = State::known();
        if (ISTHMUS_LIKELY(object != nullptr && torch.ready() &&
                           (Py_TYPE(object) == torch.tensor || Py_TYPE(object) == torch.parameter))) {
            const at::Tensor& tensor = torch.tensor_of(object);
            if (ISTHMUS_LIKELY(tensor.defined())) return &tensor;
        }
        return surviving_exit([&] { return look_at(object, argument); });
    }

    ISTHMUS_ALWAYS_INLINE static Result<at::Tensor> from_py(PyObject* object, const char* argument,
                                                            Undefined undefined) noexcept {
        if (ISTHMUS_UNLIKELY(object == Py_None) && undefined == Undefined::none) return at::Tensor();
        auto found = borrow_py_torch(object, argument);
        if (ISTHMUS_UNLIKELY(!found)) return std::move(found).error();
        return at::Tensor(**found);
    }

    ISTHMUS_ALWAYS_INLINE static Result<PyObject*> to_py(const at::Tensor& tensor, Undefined undefined) noexcept {
        return surviving_exit([&]() -> Result<PyObject*> {
            if (ISTHMUS_UNLIKELY(!tensor.defined())) {
                if (undefined == Undefined::error)
                    return Error(ErrorCode::null_data,
                                 "the at::Tensor is undefined; expected one with values, or Undefined::none");
                Py_INCREF(Py_None);
                return Py_None;
            }
            if (ISTHMUS_UNLIKELY(!State::known().ready()))
                if (auto started = start(true); !started) return std::move(started).error();
            try {
                if (PyObject* object = THPVariable_Wrap(tensor); ISTHMUS_LIKELY(object != nullptr)) return object;
            } catch (const std::exception& thrown) {
                return torch_error(ErrorCode::consumer_failed, nullptr, "torch made no object of the tensor",
                                   thrown.what());
            }
            return State::failed(ErrorCode::consumer_failed, nullptr, "making a torch.Tensor");
        });
    }

    /// try_from_torch() by `import`, which makes the tensor or throws torch's exceptions.
    template <class F>
    static Result<Tensor> try_from(const at::Tensor& tensor, const ImportOptions& options, F&& import) noexcept {
        const char* argument = options.argument;
        if (!tensor.defined())
            return make_error(ErrorCode::null_data, argument, "the at::Tensor is undefined; expected one with values");
        if (options.copy != Copy::never || options.has_stream() || options.device.type != 0)
            return make_error(
                ErrorCode::bad_argument, argument,
                "an at::Tensor copies and moves itself: call .clone() or .to() instead of copy, device or stream");
        return without_exceptions<Result<Tensor>>(ErrorCode::not_values, argument,
                                                  "torch refused to show the memory of this tensor", import);
    }

    /// to_torch() by `export_tensor`, which makes the at::Tensor or throws torch's exceptions.
    template <class F>
    static Result<at::Tensor> to_at(const Tensor& tensor, F&& export_tensor) noexcept {
        if (ISTHMUS_UNLIKELY(!tensor))
            return Error(ErrorCode::bad_argument, "argument 'tensor': it is empty (default-made or moved from)");
        return without_exceptions<Result<at::Tensor>>(ErrorCode::consumer_failed, nullptr,
                                                      "torch did not take the tensor", export_tensor);
    }

private:
    template <class R, class F>
    static R without_exceptions(ErrorCode code, const char* argument, const char* what, F& f) noexcept {
        return surviving_exit([&]() -> R {
            try {
                return f();
            } catch (const std::exception& thrown) {
                return torch_error(code, argument, what, thrown.what());
            }
        });
    }
};

}  // namespace detail

ISTHMUS_END
