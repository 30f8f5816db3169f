// The memory behind a torch tensor: its storage, held so that no change of the tensor frees it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../../protocol/import_request.h"  // Python.h must come before any standard header

#include "shims.h"

ISTHMUS_BEGIN

namespace detail {

/// c10::StorageImpl of PyTorch 2.14 and 2.15, as declared in c10/core/StorageImpl.h and c10/util/intrusive_ptr.h. It is
/// private, so storages are used this way only after one that we made has confirmed the layout (TorchStorage::state).
struct TorchStorage {
    static constexpr std::uint64_t one = 1;
    static constexpr std::uint64_t one_weak = std::uint64_t{1} << 32;
    static constexpr std::uint64_t shown_to_python = std::uint64_t{1} << 63;

    using Function = void (*)(TorchStorage*);
    enum : int { destroy = 1, release_resources = 2, release_python = 4 };  // places in the virtual table

    const Function* functions;
    std::uint64_t counts;  ///< strong references; weak ones, and one for all strong ones together, from bit 32 on
    void* data;
    void* context;
    void (*deleter)(void*);
    std::uint64_t device;
    std::int64_t nbytes;
    bool nbytes_on_heap;
    bool resizable;

    void call(int place) noexcept { functions[place](this); }
    /// The owner of a tensor already holds a reference, so this never adds the first one beside Python's.
    void retain() noexcept { AtomicRef(counts).retain(one); }
    /// Drops one reference if it is neither the last nor the last beside Python's; false, with nothing done, if it may
    /// be.
    bool drop_shared() noexcept {
        std::uint64_t now = AtomicRef(counts).load_relaxed();
        if (ISTHMUS_UNLIKELY(static_cast<std::uint32_t>(now) <= ((now & shown_to_python) != 0 ? 2U : 1U))) return false;
        return AtomicRef(counts).compare_exchange(now, now - one);
    }
    void drop() noexcept {
        const std::uint64_t left = AtomicRef(counts).release(one) - one;
        const auto strong = static_cast<std::uint32_t>(left);
        if (ISTHMUS_LIKELY(strong > 1 || (strong == 1 && !(left & shown_to_python)))) return;
        if (strong == 1) return call(release_python);  // the only reference left is that of the storage's Python object
        if ((left & ~shown_to_python) != one_weak) {
            call(release_resources);
            if (((AtomicRef(counts).release(one_weak) - one_weak) & ~shown_to_python) != 0) return;
        }
        call(destroy);
    }
};

inline TorchStorage* torch_storage_of(void* handle) noexcept {
    return reinterpret_cast<TorchStorage*>(TorchShims::storage_of(handle));
}

/// The facts about the storages of the libtorch in this process.
struct TorchStorages {
    enum class State : std::uint8_t { unknown, as_above, other };
    State state = State::unknown;  ///< known once `markable` is
    bool markable = false;         ///< `resizable` has the expected offset
};
ISTHMUS_STATE TorchStorages torch_storages;

/// Makes libtorch create a tensor over our memory, holds its storage beyond the tensor's end, and releases it: whether
/// the memory is then released at the right moment, once.
ISTHMUS_COLD inline bool can_hold_torch_storage() noexcept {
    const TorchShims& torch = torch_shims;
    float element = 0;
    int drops = 0;
    const std::int64_t size = 1;
    TorchShims::Handle handle = nullptr;
    if (torch.storage_functions == nullptr ||
        torch.from_blob(
            &element, 1, &size, &size, 0, torch_dtype_table.number_of(float32), torch.device_cpu, -1, &handle,
            torch.layout_strided, nullptr, 0, [](void*, void* count) { ++*static_cast<int*>(count); }, &drops) != 0)
        return false;
    TorchStorage* storage = torch_storage_of(handle);
    constexpr int before_functions = 2;  // the offset to the object's start, and the type information
    const bool known = storage != nullptr && storage->functions == reinterpret_cast<const TorchStorage::Function*>(
                                                                       torch.storage_functions + before_functions);
    bool good = known && storage->counts == TorchStorage::one + TorchStorage::one_weak && storage->data == &element &&
                storage->nbytes == sizeof element && !storage->nbytes_on_heap && !storage->resizable;
    if (good) storage->retain();
    torch.delete_handle(handle);
    if (!good) return false;
    good = drops == 0 && storage->counts == TorchStorage::one + TorchStorage::one_weak;
    if (good) storage->drop();
    return good && drops == 1;
}

/// Whether the mark against resizing has the expected offset, checked on a storage made for the purpose.
ISTHMUS_COLD inline bool can_mark_torch_storage() {
    Ref torch(import_torch("torch"));
    Ref storage(torch ? PyObject_CallMethod(torch.get(), "UntypedStorage", "i", 8) : nullptr);
    Ref address(storage ? PyObject_GetAttrString(storage.get(), "_cdata") : nullptr);
    auto* own = address ? static_cast<TorchStorage*>(PyLong_AsVoidPtr(address.get())) : nullptr;
    const auto says = [&storage](PyObject* wanted) {
        Ref answer(PyObject_CallMethod(storage.get(), "resizable", nullptr));
        return answer.get() == wanted;
    };
    bool good = own != nullptr && own->nbytes == 8 && own->resizable && says(Py_True);
    if (good) {
        own->resizable = false;
        good = says(Py_False);
        own->resizable = true;
    }
    PyErr_Clear();
    return good;
}

ISTHMUS_NOINLINE inline bool find_torch_storages() {
    const bool known = can_hold_torch_storage();
    store_shared(torch_storages.markable, known && can_mark_torch_storage());
    store_shared(torch_storages.state, known ? TorchStorages::State::as_above : TorchStorages::State::other);
    return known;
}

inline void release_torch_storage(void* storage) {
    drop_torch([](void* held) { static_cast<TorchStorage*>(held)->drop(); }, storage);
}
inline bool release_shared_torch_storage(void* storage) noexcept {
    return static_cast<TorchStorage*>(storage)->drop_shared();
}
inline constexpr OwnerOps torch_storage_ops{.release = release_torch_storage,
                                            .release_shared = release_shared_torch_storage};

/// The same by Python, if storages do not have the known layout: the storage's Python object is held, and NumPy marks
/// those on the CPU. False with an error on an exception that must not be swallowed; if Python cannot tell, what is
/// held stays as it is.
ISTHMUS_NOINLINE inline bool hold_torch_storage_by_python(ImportRequest& request) {
    request.keep_alive();
    const DLTensor& t = request.out.dl();
    Ref storage(PyObject_CallMethod(request.object, "untyped_storage", nullptr));
    Ref start(storage ? PyObject_CallMethod(storage.get(), "data_ptr", nullptr) : nullptr);
    Ref size(start ? PyObject_CallMethod(storage.get(), "nbytes", nullptr) : nullptr);
    const auto first = reinterpret_cast<std::uintptr_t>(start ? PyLong_AsVoidPtr(start.get()) : nullptr);
    const std::uintptr_t bytes = size ? PyLong_AsSize_t(size.get()) : 0;
    const auto data = reinterpret_cast<std::uintptr_t>(t.data);
    if (PyErr_Occurred() == nullptr && data - first < bytes) {  // else it is a copy, which the held object keeps alive
        if (t.device.device_type == kDLCPU) {
            Ref torch(import_torch("torch"));
            Ref bytes_of_none(torch ? PyObject_CallMethod(torch.get(), "ByteTensor", nullptr) : nullptr);
            Ref all(bytes_of_none ? PyObject_CallMethod(bytes_of_none.get(), "set_", "O", storage.get()) : nullptr);
            Ref marked(all ? PyObject_CallMethod(all.get(), "numpy", nullptr) : nullptr);
            (void)is_interrupted();
        }
        request.out.keep_dims();
        request.out.reset();
        request.out.hold(storage.release(), python_owners->keeper_object);
    }
    return !is_interrupted() ||
           request.fail_with_exception(ErrorCode::producer_failed, {type_name(request.object), ".untyped_storage()"});
}

/// Holds a storage that has the known layout, and marks it.
ISTHMUS_ALWAYS_INLINE void hold_known_torch_storage(const BorrowedBuilder& out, TorchStorage* storage) noexcept {
    storage->retain();
    if (storage->resizable && load_shared(torch_storages.markable)) storage->resizable = false;
    out.hold(storage, torch_storage_ops);
}

/// Holds the storage, which a tensor may exchange (`x.data = y`, `x.set_(y)`), and makes torch refuse to resize it in
/// place, as x.numpy() does. The block also holds the object, for the way back.
ISTHMUS_ALWAYS_INLINE bool hold_torch_storage(ImportRequest& request, void* handle) {
    const bool known = ISTHMUS_LIKELY(load_shared(torch_storages.state) == TorchStorages::State::as_above) ||
                       (load_shared(torch_storages.state) == TorchStorages::State::unknown && find_torch_storages());
    TorchStorage* storage = ISTHMUS_LIKELY(known) ? torch_storage_of(handle) : nullptr;
    if (ISTHMUS_UNLIKELY(storage == nullptr)) return hold_torch_storage_by_python(request);
    request.out.reset();
    hold_known_torch_storage(request.out, storage);
    return true;
}

}  // namespace detail

ISTHMUS_END
