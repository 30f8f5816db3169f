// Python exceptions as isthmus::Error, and errors as the exception that is set.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <isthmus/python/api.h>  // Python.h must come before any standard header

#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include <isthmus/core/layout.h>
#include <isthmus/core/result.h>
#include "lookups.h"
#include "session.h"

ISTHMUS_BEGIN

namespace detail {

/// The exception that is set, normalised and with its traceback, taken off the thread; NULL when there is none.
inline PyObject* take_exception() {
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
    PyErr_Fetch(&type, &value, &trace);
    if (type == nullptr) return nullptr;
    PyErr_NormalizeException(&type, &value, &trace);
    if (trace != nullptr) PyException_SetTraceback(value, trace);
    Py_XDECREF(trace);
    Py_DECREF(type);
    return value;
#endif
}
inline void restore_exception(PyObject* stolen) {
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(stolen);
#else
    PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(stolen));
    Py_INCREF(type);
    PyErr_Restore(type, stolen, PyException_GetTraceback(stolen));
#endif
}

/// Why a function that works on Python objects did nothing; `doing`: "objects are imported".
ISTHMUS_COLD inline Error explain_no_gil(const char* argument, const char* doing) {
    return make_error(ErrorCode::bad_thread, argument,
                      {"called without the GIL, or in a subinterpreter; hold the main interpreter's "
                       "(PyGILState_Ensure) while ",
                       doing});
}

/// The state of the thread that holds the GIL; NULL if none does, and from CPython 3.12 on also if another one does.
inline const PyThreadState* state_of_holder() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
    return PyThreadState_GetUnchecked();
#else
    return _PyThreadState_UncheckedGet();
#endif
}
inline bool has_exception(const PyThreadState* state) noexcept {
#if PY_VERSION_HEX >= 0x030C0000
    return state->current_exception != nullptr;
#else
    return state->curexc_type != nullptr;
#endif
}

/// Sets aside an exception that was set before this call began, and sets it again at the end. Functions that run Python
/// code and may be called with an exception set begin with this; they must leave no other.
class PendingException {
public:
    explicit PendingException(bool have_python = true) noexcept : state_(have_python ? state_of_holder() : nullptr) {
        if (ISTHMUS_UNLIKELY(state_ != nullptr && has_exception(state_))) PyErr_Fetch(&type_, &value_, &trace_);
    }
    /// Whether somebody holds the GIL: this thread, if it keeps the rules. As good as free, unlike have_gil().
    bool has_python() const noexcept { return state_ != nullptr; }
    /// Without the GIL, as when the interpreter's end unwinds a stopped thread, the exception is leaked.
    ~PendingException() {
        if (ISTHMUS_UNLIKELY(type_ != nullptr) && have_gil()) PyErr_Restore(type_, value_, trace_);
    }
    PendingException(const PendingException&) = delete;
    PendingException& operator=(const PendingException&) = delete;

private:
    const PyThreadState* state_;
    PyObject *type_ = nullptr, *value_ = nullptr, *trace_ = nullptr;
};

/// The text of a str as UTF-8, whole even if it holds a NUL; it lives as long as the str. NULL, with a Python exception
/// set, for NULL and for what cannot be encoded (a lone surrogate).
inline std::string_view utf8_of(PyObject* text) noexcept {
    Py_ssize_t size = 0;
    const char* utf8 = text != nullptr ? PyUnicode_AsUTF8AndSize(text, &size) : nullptr;
    return utf8 != nullptr ? std::string_view(utf8, static_cast<std::size_t>(size))
                           : std::string_view();  // the size may be -1
}

/// "ValueError: no such buffer": an exception in one line. What its own __str__ raised and passes_through() stays set.
ISTHMUS_COLD inline TextBuffer exception_text(PyObject* exception) noexcept {
    TextBuffer text = compose({Py_TYPE(exception)->tp_name});
    Ref message(PyObject_Str(exception));
    const std::string_view utf8 = utf8_of(message.get());
    if (utf8.data() == nullptr) (void)is_interrupted();
    if (!utf8.empty()) (text += ": ") += utf8;
    return text;
}

/// A cause is an exception and nothing more: which of these functions drops it says which session it belongs to. An
/// error may outlive the interpreter, and the next one must not release what another has left. (It would have to
/// outlive four to be taken for a later session's.)
inline constexpr std::uint32_t session_slots = 4;
inline std::uint32_t session_slot() noexcept { return interpreter_session.generation.load_relaxed() % session_slots; }
template <std::uint32_t slot>
void drop_cause(void* cause) {
    if (session_slot() == slot) drop_object(static_cast<PyObject*>(cause));
}
inline constexpr void (*drop_cause_of_session[session_slots])(void*) = {drop_cause<0>, drop_cause<1>, drop_cause<2>,
                                                                        drop_cause<3>};

/// An error whose cause is the exception now set, which is cleared; of ErrorCode::out_of_memory if that is a
/// MemoryError. With none set (a producer that failed and did not say why) the text says so. Of another interpreter's
/// exception the words alone are kept: a cause is released to our interpreter, whose allocator does not know it.
ISTHMUS_COLD inline Error error_from_exception(ErrorCode code, const char* argument, Message what) {
    PyObject* exception = take_exception();
    if (exception == nullptr) return make_error(code, argument, {what, " failed without setting an exception"});
    TextBuffer words = exception_text(exception);
    if (PyErr_Occurred() != nullptr) {  // an interrupt, or no memory for the words
        Py_DECREF(exception);
        exception = take_exception();
        words = compose({Py_TYPE(exception)->tp_name});
    }
    // torch raises the second for C++'s own exception.
    if (PyErr_GivenExceptionMatches(exception, PyExc_MemoryError) || words.view() == "RuntimeError: std::bad_alloc")
        code = ErrorCode::out_of_memory;
    Error error = make_error(code, argument, {what, " raised ", words});
    const PyInterpreterState* ours = interpreter_session.interpreter.load_relaxed();
    if (ours != nullptr && ours != PyInterpreterState_Get())
        Py_DECREF(exception);
    else
        error.set_cause(exception, drop_cause_of_session[session_slot()]);
    return error;
}

/// The same error with more words, which follow a semicolon.
ISTHMUS_COLD inline Error with_more(const Error& first, Message more) {
    Error both = make_error(first.code(), first.kind(), {first.what(), "; ", more});
    auto* cause = static_cast<PyObject*>(first.cause());
    if (cause != nullptr) both.set_cause(Py_NewRef(cause), drop_cause_of_session[session_slot()]);
    return both;
}

/// str() of an object; empty if that fails or the object is NULL (the result of a call that failed), with no exception
/// but one that passes_through().
inline std::string text_of(PyObject* object) {
    Ref text(object != nullptr ? PyObject_Str(object) : nullptr);
    const std::string_view utf8 = utf8_of(text.get());
    if (utf8.data() == nullptr) (void)is_interrupted();
    return std::string(utf8);
}
/// A str; NULL with MemoryError set if there was no memory for the text.
inline PyObject* unicode_of(const TextBuffer& text) noexcept {
    if (text.failed()) return PyErr_NoMemory();
    return PyUnicode_FromStringAndSize(text.view().data(), static_cast<Py_ssize_t>(text.view().size()));
}
inline PyObject* unicode_of(std::initializer_list<Piece> pieces) noexcept { return unicode_of(compose(pieces)); }

ISTHMUS_COLD inline void append_type_name(TextBuffer& out, const void* of, Piece::Number) noexcept {
    const auto* type = static_cast<const PyTypeObject*>(of);
    const PendingException pending;
    const bool heap = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && type->tp_dict != nullptr;
    const Ref home = heap ? dict_item(type->tp_dict, "__module__") : Ref();
    const char* utf8 = home && PyUnicode_Check(home.get()) ? PyUnicode_AsUTF8(home.get()) : nullptr;
    const char* name = type->tp_name;
    if (utf8 == nullptr) {
        if (PyErr_Occurred() != nullptr && PyErr_ExceptionMatches(PyExc_MemoryError)) out.fail();
        PyErr_Clear();
    } else {
        if (const char* dot = std::strrchr(name, '.')) name = dot + 1;
        if (std::strcmp(utf8, "builtins") != 0) (out += utf8) += '.';
    }
    out += name;
}
/// "numpy.ndarray", "list": a type as users write it. Runs no code of the type: asks only the class itself, no
/// metaclass and no attribute lookup.
inline Piece type_name(PyTypeObject* type) noexcept { return {append_type_name, type, 0}; }
inline Piece type_name(PyObject* object) noexcept { return type_name(Py_TYPE(object)); }

/// Sets an exception of a builtin class.
ISTHMUS_COLD inline void set_exception(PyObject* type, Message text) noexcept {
    const Ref words(unicode_of({text}));
    if (words) PyErr_SetObject(type, words.get());
}

ISTHMUS_COLD inline Error no_memory_error() noexcept { return Error(no_memory_error_state()); }

/// Calls what may throw std::bad_alloc, for a caller that must not throw: a MemoryError then, as the error of a Result
/// or as the exception that is set, with `failed` as the result.
template <class F, class R>
ISTHMUS_ALWAYS_INLINE auto with_memory(F&& f, R failed) -> decltype(f()) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
        return failed;
    }
}
template <class F>
ISTHMUS_ALWAYS_INLINE auto with_memory(F&& f) -> decltype(f()) {
    try {
        return f();
    } catch (const std::bad_alloc&) {
        return no_memory_error();
    }
}

/// Calls what may throw Error or std::bad_alloc, in a function that Python calls: NULL with the exception set then.
template <class F>
ISTHMUS_ALWAYS_INLINE PyObject* guarded(F&& f) {
    try {
        return f();
    } catch (const Error& error) {
        set_python_error(error);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    return nullptr;
}

/// Sets the exception of a new error; NULL, for a function of Python's to return.
ISTHMUS_COLD inline PyObject* raise(ErrorCode code, ErrorKind kind, Message text) {
    set_python_error(make_error(code, kind, text));
    return nullptr;
}

/// The error about an argument, unless an exception that passes_through() is set: that one then.
ISTHMUS_COLD inline PyObject* raise_found(Piece where, PyObject* found, Message wanted, ErrorKind kind) {
    if (is_interrupted()) return nullptr;
    Ref text(PyObject_Repr(found));
    const std::string_view utf8 = utf8_of(text.get());
    if (utf8.data() == nullptr) return nullptr;
    return raise(ErrorCode::bad_argument, kind, {where, "found ", utf8, "; expected ", wanted});
}
ISTHMUS_COLD inline PyObject* raise_argument(const char* name, PyObject* found, Message wanted,
                                             ErrorKind kind = ErrorKind::value) {
    return raise_found(of_argument(name), found, wanted, kind);
}

}  // namespace detail

ISTHMUS_END
