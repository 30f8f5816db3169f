// SPDX-License-Identifier: Apache-2.0
//! What the crate needs of CPython's limited API of 3.10.
#![allow(non_snake_case, non_upper_case_globals)]

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct PyObject {
    _opaque: [u8; 0],
}

pub type Function =
    unsafe extern "C" fn(*mut PyObject, *const *mut PyObject, isize) -> *mut PyObject;

#[repr(C)]
pub struct PyMethodDef {
    pub name: *const c_char,
    pub call: Option<Function>,
    pub flags: c_int,
    pub doc: *const c_char,
}

/// The head is a PyObject of the builds with the GIL: one reference, and a type that CPython fills in.
#[repr(C)]
pub struct PyModuleDef {
    pub references: isize,
    pub kind: *mut c_void,
    pub init: *mut c_void,
    pub index: isize,
    pub copy: *mut c_void,
    pub name: *const c_char,
    pub doc: *const c_char,
    pub size: isize,
    pub methods: *mut PyMethodDef,
    pub slots: *mut c_void,
    pub traverse: *mut c_void,
    pub clear: *mut c_void,
    pub free: *mut c_void,
}

pub const METH_FASTCALL: c_int = 0x80;
/// Of the stable ABI of Python 3.
pub const PYTHON_ABI_VERSION: c_int = 3;

extern "C" {
    pub static mut PyExc_ImportError: *mut PyObject;
    pub static mut PyExc_TypeError: *mut PyObject;
    pub static mut PyExc_RuntimeError: *mut PyObject;

    pub fn Py_IncRef(object: *mut PyObject);
    pub fn Py_DecRef(object: *mut PyObject);
    pub fn PyErr_SetString(kind: *mut PyObject, text: *const c_char);
    pub fn PyErr_Format(
        kind: *mut PyObject,
        format: *const c_char,
        ...
    ) -> *mut PyObject;
    pub fn PyErr_Fetch(
        kind: *mut *mut PyObject,
        value: *mut *mut PyObject,
        trace: *mut *mut PyObject,
    );
    pub fn PyErr_NormalizeException(
        kind: *mut *mut PyObject,
        value: *mut *mut PyObject,
        trace: *mut *mut PyObject,
    );
    pub fn PyErr_Restore(
        kind: *mut PyObject,
        value: *mut PyObject,
        trace: *mut PyObject,
    );
    pub fn PyErr_Occurred() -> *mut PyObject;
    pub fn PyErr_ExceptionMatches(kind: *mut PyObject) -> c_int;
    pub static mut PyExc_Exception: *mut PyObject;
    pub fn PyException_SetCause(exception: *mut PyObject, cause: *mut PyObject);
    pub fn PyImport_ImportModule(name: *const c_char) -> *mut PyObject;
    pub fn PyObject_GetAttrString(
        object: *mut PyObject,
        name: *const c_char,
    ) -> *mut PyObject;
    pub fn PyCapsule_GetPointer(
        capsule: *mut PyObject,
        name: *const c_char,
    ) -> *mut c_void;
    pub fn PyModule_Create2(
        definition: *mut PyModuleDef,
        version: c_int,
    ) -> *mut PyObject;
    pub fn PyFloat_AsDouble(object: *mut PyObject) -> f64;
    pub fn PyFloat_FromDouble(value: f64) -> *mut PyObject;
    pub fn PyLong_FromSize_t(value: usize) -> *mut PyObject;
    pub fn PyLong_AsSize_t(object: *mut PyObject) -> usize;
}

/// A new reference to None.
pub fn none() -> *mut PyObject {
    extern "C" {
        #[link_name = "_Py_NoneStruct"]
        static mut NONE: PyObject;
    }
    let none = &raw mut NONE;
    unsafe { Py_IncRef(none) };
    none
}
