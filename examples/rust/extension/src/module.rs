// SPDX-License-Identifier: Apache-2.0
//! The module itself: how it finds the table, what its functions return, and how they raise.

use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::cpython::*;
use crate::table::{self, BackendTable, TextRef};

/// A Python exception is set.
#[derive(Debug)]
pub struct Raised;
pub type Result<T> = std::result::Result<T, Raised>;

static TABLE: AtomicPtr<BackendTable> = AtomicPtr::new(null_mut());

/// The table of the backend, which find_table() found when the module was imported.
#[inline]
pub(crate) fn backend() -> &'static BackendTable {
    // Every way in comes after find_table() has succeeded, and the table lives as long as the process.
    unsafe { &*TABLE.load(Ordering::Relaxed) }
}

fn raise_import_error(text: &CStr) {
    unsafe {
        if !PyErr_Occurred().is_null() && PyErr_ExceptionMatches(PyExc_Exception) == 0 {
            return; // an interrupt
        }
        let (mut kind, mut cause, mut trace) = (null_mut(), null_mut(), null_mut());
        PyErr_Fetch(&mut kind, &mut cause, &mut trace);
        PyErr_NormalizeException(&mut kind, &mut cause, &mut trace);
        PyErr_SetString(PyExc_ImportError, text.as_ptr());
        if !cause.is_null() {
            let (mut new_kind, mut value, mut new_trace) =
                (null_mut(), null_mut(), null_mut());
            PyErr_Fetch(&mut new_kind, &mut value, &mut new_trace);
            PyErr_NormalizeException(&mut new_kind, &mut value, &mut new_trace);
            PyException_SetCause(value, cause);
            PyErr_Restore(new_kind, value, new_trace);
        }
        for object in [kind, trace] {
            if !object.is_null() {
                Py_DecRef(object);
            }
        }
    }
}

/// Finds the table of the package `isthmus`; an ImportError says what to install.
///
/// # Safety
/// The GIL is held.
pub unsafe fn find_table() -> Result<()> {
    const NAME: &CStr = c"isthmus._backend.v1";
    let module = PyImport_ImportModule(c"isthmus._backend".as_ptr());
    let mut table: *mut BackendTable = null_mut();
    if !module.is_null() {
        let capsule = PyObject_GetAttrString(module, c"v1".as_ptr());
        Py_DecRef(module);
        if !capsule.is_null() {
            table = PyCapsule_GetPointer(capsule, NAME.as_ptr()).cast();
            Py_DecRef(capsule);
        }
    }
    let needed = table::VERSION.to_string_lossy();
    if table.is_null() {
        let text = format!(
            "this module needs the package isthmus {needed} or newer, and isthmus._backend cannot be imported: \
             pip install 'isthmus>={needed}'"
        );
        raise_import_error(&CString::new(text).unwrap_or_default());
        return Err(Raised);
    }
    if (*table).count < table::NEEDED {
        let text = format!(
            "found isthmus {}; this module needs isthmus {needed} or newer: pip install --upgrade 'isthmus>={needed}'",
            CStr::from_ptr((*table).version_text).to_string_lossy()
        );
        raise_import_error(&CString::new(text).unwrap_or_default());
        return Err(Raised);
    }
    TABLE.store(table, Ordering::Relaxed);
    Ok(())
}

/// Finds the table and makes the module; NULL with the exception set.
///
/// # Safety
/// The GIL is held; `methods` ends with END and lives as long as the process.
pub unsafe fn create(name: &'static CStr, methods: *mut PyMethodDef) -> *mut PyObject {
    if find_table().is_err() {
        return null_mut();
    }
    let definition = Box::leak(Box::new(PyModuleDef {
        references: 1,
        kind: null_mut(),
        init: null_mut(),
        index: 0,
        copy: null_mut(),
        name: name.as_ptr(),
        doc: null(),
        size: -1,
        methods,
        slots: null_mut(),
        traverse: null_mut(),
        clear: null_mut(),
        free: null_mut(),
    }));
    PyModule_Create2(definition, PYTHON_ABI_VERSION)
}

pub const fn method(name: &'static CStr, call: Function) -> PyMethodDef {
    PyMethodDef {
        name: name.as_ptr(),
        call: Some(call),
        flags: METH_FASTCALL,
        doc: null(),
    }
}
pub const END: PyMethodDef = PyMethodDef {
    name: null(),
    call: None,
    flags: 0,
    doc: null(),
};

/// Raises isthmus.Error with one of the codes of the table's constants.
///
/// # Safety
/// The GIL is held.
#[cold]
pub unsafe fn raise(code: i32, text: &str) -> Raised {
    table::raise_error(
        backend(),
        code,
        TextRef {
            data: text.as_ptr() as *const c_char,
            size: text.len(),
        },
    );
    Raised
}

/// The body of a function: what it returns, or NULL with the exception set. A panic is a RuntimeError.
pub fn call(
    function: &CStr,
    body: impl FnOnce() -> Result<*mut PyObject>,
) -> *mut PyObject {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result.unwrap_or(null_mut()),
        Err(panic) => {
            let words = panic
                .downcast_ref::<&str>()
                .map(|text| text.to_string())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic without a text".into());
            let text =
                CString::new(format!("{}(): {words}", function.to_string_lossy()))
                    .unwrap_or_default();
            unsafe { PyErr_SetString(PyExc_RuntimeError, text.as_ptr()) };
            null_mut()
        }
    }
}

/// Whether a call has that many arguments, else a TypeError.
///
/// # Safety
/// The GIL is held.
#[inline]
pub unsafe fn count(function: &CStr, expected: isize, found: isize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    PyErr_Format(
        PyExc_TypeError,
        c"%s() takes %zd arguments (%zd given)".as_ptr(),
        function.as_ptr(),
        expected,
        found,
    );
    Err(Raised)
}

/// # Safety
/// The GIL is held, and `object` is one.
pub unsafe fn double_of(object: *mut PyObject) -> Result<f64> {
    let value = PyFloat_AsDouble(object);
    if value == -1.0 && !PyErr_Occurred().is_null() {
        return Err(Raised);
    }
    Ok(value)
}

const _: () = assert!(
    std::mem::size_of::<*const c_void>() == 8,
    "the layouts are those of 64-bit systems"
);
