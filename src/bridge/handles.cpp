// The bodies of Borrowed, PyOwner and Ref.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/api.h>
#include <isthmus/python/py_owner.h>
#include "runtime/errors.h"
#include "runtime/lookups.h"
#include "runtime/object_owner.h"

ISTHMUS_BEGIN

namespace detail {

/// PyBuffer_FillInfo points sizes and strides at fields of the Py_buffer itself, where its exporter expects
/// them when the buffer is released.
void move_buffer(Py_buffer& to, const Py_buffer& from) noexcept {
    to = from;
    const auto rebase = [&](auto*& inside) {
        const auto offset = reinterpret_cast<std::uintptr_t>(inside) - reinterpret_cast<std::uintptr_t>(&from);
        if (offset < sizeof(Py_buffer))
            inside = reinterpret_cast<std::remove_reference_t<decltype(inside)>>(reinterpret_cast<char*>(&to) + offset);
    };
    rebase(to.shape);
    rebase(to.strides);
    rebase(to.suboffsets);
    rebase(to.format);
}

}  // namespace detail

void Borrowed::end() noexcept {
    detail::run_release(std::exchange(ops_, nullptr)->release, owner_ == nullptr ? &buffer_ : owner_);
}

PyObject* PyOwner::checked(PyObject* object) {
    if (object == nullptr)
        throw Error(ErrorCode::bad_argument, "argument 'owner': it is NULL; expected a Python object");
    if (!have_gil())
        throw Error(ErrorCode::bad_thread, detail::running_thread_state() == nullptr
                                               ? "a PyOwner is made with the GIL held"
                                               : "a PyOwner is made in the main interpreter; this thread runs "
                                                 "another one, and subinterpreters are not supported");
    if (!detail::start_session())
        throw detail::error_from_exception(ErrorCode::bad_thread, nullptr, "taking a Python object as the owner");
    return object;
}
const detail::OwnerOps* PyOwner::keeper() noexcept { return &detail::python_owners->keeper_object; }

// Not inlined: references end in several hundred places, and in as many that clean up after an exception.
void Ref::drop(PyObject* object) {
    if (!detail::drop_if_not_last(object) && have_gil()) Py_DECREF(object);
}

ISTHMUS_END
