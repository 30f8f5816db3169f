// The bodies of Borrowed and PyOwner.
// SPDX-License-Identifier: Apache-2.0
#include <isthmus/python/api.h>
#include <isthmus/python/py_owner.h>
#include <isthmus/python/runtime/errors.h>
#include <isthmus/python/runtime/start_life.h>

ISTHMUS_BEGIN

void Borrowed::end() noexcept {
    detail::run_release(std::exchange(ops_, nullptr)->release, owner_ == nullptr ? &buffer_ : owner_);
}

PyObject* PyOwner::checked(PyObject* object) {
    if (object == nullptr) throw Error(ErrorCode::bad_argument, "argument 'owner': it is NULL; wanted a Python object");
    if (!have_gil()) throw Error(ErrorCode::bad_thread, "a PyOwner is made with the GIL held");
    if (!detail::start_life())
        throw detail::error_from_exception(ErrorCode::bad_thread, nullptr, "taking a Python object as the owner");
    return object;
}
const detail::OwnerOps* PyOwner::keeper() noexcept { return &detail::python_owners->keeper_object; }

ISTHMUS_END
