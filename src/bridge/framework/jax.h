// The export path to JAX on the host: jaxlib's own entry, if it makes the same array as jax.dlpack.from_dlpack.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "consumer.h"  // Python.h must come before any standard header

#include <isthmus/core/tensor.h>

ISTHMUS_BEGIN

namespace detail {

/// The entry that `jax.dlpack.from_dlpack` itself finally calls. All of it is private to JAX: it is used only if a
/// first array made each way has the same properties, and never with a version that has other names or makes something
/// else. Every reference is NULL then.
struct JaxHost {
    PyObject* make;         ///< jaxlib's dlpack_managed_tensor_to_buffer(capsule, device, stream, copy, device_type)
    PyObject* get_backend;  ///< asked each time: a program may clear the backends and make others
    PyObject* find_device;  ///< "device_from_local_hardware_id"
    PyObject* platform;     ///< "cpu"
    PyObject* number;       ///< of the device
    PyObject* device_type;  ///< DLPack's
    PyObject* config;       ///< jax.config
    PyObject* wide;         ///< "jax_enable_x64"

    /// The block's memory as an array; empty with a Python exception set.
    Ref array_of(Block* block) const {
        Ref backend(PyObject_CallOneArg(get_backend, platform));
        PyObject* const device_arguments[] = {backend.get(), number};
        const Ref device(backend ? PyObject_VectorcallMethod(find_device, device_arguments, 2, nullptr) : nullptr);
        const Ref capsule(device ? legacy_capsule(block) : nullptr);
        if (!capsule) return {};
        PyObject* const arguments[] = {capsule.get(), device.get(), Py_None, Py_None, device_type};
        return Ref(PyObject_Vectorcall(make, arguments, 5, nullptr));
    }
    /// Whether JAX keeps 64-bit dtypes now, a setting of the thread; without it JAX narrows what it is given to 32
    /// bits.
    bool has_wide_dtypes() const {
        const Ref answer(PyObject_GetAttr(config, wide));
        return answer && PyObject_IsTrue(answer.get()) > 0;
    }
    /// False with a Python exception set if this version of JAX has other names.
    bool find() {
        return (make = import_attribute("jaxlib._jax", "dlpack_managed_tensor_to_buffer")) != nullptr &&
               (get_backend = import_attribute("jax._src.xla_bridge", "get_backend")) != nullptr &&
               (config = import_attribute("jax", "config")) != nullptr &&
               (find_device = PyUnicode_InternFromString("device_from_local_hardware_id")) != nullptr &&
               (platform = PyUnicode_InternFromString("cpu")) != nullptr && (number = PyLong_FromLong(0)) != nullptr &&
               (device_type = PyLong_FromLong(kDLCPU)) != nullptr &&
               (wide = PyUnicode_InternFromString("jax_enable_x64")) != nullptr;
    }
    void release() {
        for (PyObject* held : {make, get_backend, find_device, platform, number, device_type, config, wide})
            Py_XDECREF(held);
        *this = {};
    }
};
struct JaxHostLooked {
    bool done;
    JaxHost host;
};
ISTHMUS_STATE PerSession<JaxHostLooked> jax_host;

/// Whether two arrays are the same to JAX: in all by which its compiled functions, its transformations and its
/// placement tell arrays apart, and in their memory.
ISTHMUS_COLD inline bool are_same_to_jax(PyObject* one, PyObject* other, const char* pointer) {
    bool same = Py_TYPE(one) == Py_TYPE(other);
    for (const char* fact : {"aval", "weak_type", "committed", "sharding", "dtype", "shape"}) {
        const Ref here(same ? PyObject_GetAttrString(one, fact) : nullptr);
        const Ref there(here ? PyObject_GetAttrString(other, fact) : nullptr);
        same = there && PyObject_RichCompareBool(here.get(), there.get(), Py_EQ) > 0;
    }
    const Ref here(same ? PyObject_CallMethod(one, pointer, nullptr) : nullptr);
    const Ref there(here ? PyObject_CallMethod(other, pointer, nullptr) : nullptr);
    return there && PyObject_RichCompareBool(here.get(), there.get(), Py_EQ) > 0;
}

/// Makes one array each way. False, with a Python exception or without, if they differ.
inline bool try_jax_host(const JaxHost& host, const FrameworkFacts& facts) {
    Result<Tensor> probe = Tensor::empty({3}, float32);
    if (!probe) return false;
    Result<PyObject*> known = export_by_consumer(probe->block(), facts, {});
    const Ref public_way(known ? *known : nullptr);
    const Ref direct(public_way ? host.array_of(probe->block()) : Ref());
    return direct && are_same_to_jax(public_way.get(), direct.get(), facts.pointer);
}

/// The first look, whose result is kept. False with a Python exception set, and nothing kept, on an interrupt.
ISTHMUS_COLD inline bool look_for_jax_host(const FrameworkFacts& facts) {
    JaxHostLooked found{true, {}};
    if (!found.host.find() || !try_jax_host(found.host, facts)) found.host.release();
    if (is_interrupted()) return found.host.release(), false;
    if (!jax_host.keep(found)) found.host.release();
    return true;
}
/// NULL if the entry is not to be used, with a Python exception set on an interrupt.
inline const JaxHost* find_jax_host(const FrameworkFacts& facts) {
    if (ISTHMUS_UNLIKELY(!jax_host->done) && !look_for_jax_host(facts)) return nullptr;
    return jax_host->host.make != nullptr ? &jax_host->host : nullptr;
}

/// Whether the numbers, or a complex number's parts, have 64 bits.
constexpr bool is_wide(DType dtype) noexcept { return dtype.bits() >= (dtype.code == kDLComplex ? 128 : 64); }

inline Result<PyObject*> export_to_jax(Block* block, const FrameworkFacts& facts, const ExportOptions& options) {
    const DLTensor& t = block->dl;
    if (Device(t.device) != Device::cpu() || legacy_loses_padding(block))
        return export_by_consumer(block, facts, options);
    if (auto taken = check_consumer_takes(t, facts, options); !taken) return std::move(taken).error();
    const JaxHost* host = find_jax_host(facts);
    if (ISTHMUS_LIKELY(host != nullptr) && (!is_wide(t.dtype) || host->has_wide_dtypes()))
        if (Ref array = host->array_of(block)) return check_not_copied(array.release(), t, facts, options);
    if (is_interrupted())
        return error_from_exception(ErrorCode::consumer_failed, nullptr, {"making an array of ", facts.name});
    return export_by_consumer(block, facts, options);
}

}  // namespace detail

ISTHMUS_END
