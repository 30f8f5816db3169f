// SPDX-License-Identifier: Apache-2.0
//! The module `rusty`: functions of tensors for Python.

use std::ffi::CStr;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use isthmus_python::cpython::{
    none, PyFloat_FromDouble, PyLong_FromSize_t, PyMethodDef, PyObject, Py_IncRef,
};
use isthmus_python::{
    call, count, create, double_of, method, Requirement, Result, Slot, Tensor, END,
};

static VECTOR: Requirement<f32> =
    Requirement::contiguous(1, "float32[:] C-contiguous on cpu");
static OUTPUT: Requirement<isthmus_python::Mut<f32>> =
    Requirement::writable(1, "float32[:] C-contiguous on cpu");

static KEPT: Mutex<Option<Tensor>> = Mutex::new(None);
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// scale(x, k): multiplies the elements of `x` in place.
unsafe fn scale(args: &[*mut PyObject]) -> Result<*mut PyObject> {
    let mut slot = pin!(Slot::new());
    let x = slot.as_mut().load(args[0], &OUTPUT, c"scale", c"x")?;
    let k = double_of(args[1])? as f32;
    for element in x.commit()?.as_mut_slice() {
        *element *= k;
    }
    Py_IncRef(args[0]);
    Ok(args[0])
}

/// dot(a, b): of two vectors, which are only read.
unsafe fn dot(args: &[*mut PyObject]) -> Result<*mut PyObject> {
    let (mut first, mut second) = (pin!(Slot::new()), pin!(Slot::new()));
    let a = first.as_mut().load(args[0], &VECTOR, c"dot", c"a")?;
    let b = second.as_mut().load(args[1], &VECTOR, c"dot", c"b")?;
    let (a, b) = (a.commit()?, b.commit()?);
    assert_eq!(a.shape(), b.shape(), "the vectors differ in length");
    let sum: f64 = a
        .as_slice()
        .iter()
        .zip(b.as_slice())
        .map(|(x, y)| f64::from(x * y))
        .sum();
    Ok(PyFloat_FromDouble(sum))
}

/// squares(x): a new tensor, made by Rust, in the framework of `x`.
unsafe fn squares(args: &[*mut PyObject]) -> Result<*mut PyObject> {
    let x = Tensor::from_py(args[0], c"squares", c"x")?;
    let elements = x.as_slice(&VECTOR, c"squares", c"x")?;
    let values: Vec<f32> = elements.iter().map(|x| x * x).collect();
    Tensor::own(values, x.shape())?.to_py_like(args[0])
}

/// reshaped(x, n): `x` as a Vec, n to a row; refused if that does not come out even.
unsafe fn reshaped(args: &[*mut PyObject]) -> Result<*mut PyObject> {
    let x = Tensor::from_py(args[0], c"reshaped", c"x")?;
    let values = x.as_slice(&VECTOR, c"reshaped", c"x")?.to_vec();
    let width = double_of(args[1])? as i64;
    let shape = [values.len() as i64 / width.max(1), width];
    Tensor::own(values, &shape)?.to_py_like(args[0])
}

/// keep(x): holds a tensor until the next keep() or kept().
unsafe fn keep(args: &[*mut PyObject]) -> Result<*mut PyObject> {
    let x = Tensor::from_py(args[0], c"keep", c"x")?;
    let old = KEPT.lock().unwrap().replace(x);
    // Dropped on a thread that Python has never seen. To wait for it here, with the GIL, would be to wait forever.
    std::thread::spawn(move || drop(old));
    Ok(none())
}

/// kept(like): what keep() holds, in the framework of `like`.
unsafe fn kept(args: &[*mut PyObject]) -> Result<*mut PyObject> {
    match KEPT.lock().unwrap().take() {
        Some(tensor) => tensor.to_py_like(args[0]),
        None => Ok(none()),
    }
}

/// calls(): how often a function of this module was called.
unsafe fn calls(_: &[*mut PyObject]) -> Result<*mut PyObject> {
    Ok(PyLong_FromSize_t(CALLS.load(Ordering::Relaxed)))
}

macro_rules! functions {
    ($($name:ident($count:expr) = $text:expr),*) => {
        mod entries {
            $(pub unsafe extern "C" fn $name(_: *mut super::PyObject, args: *const *mut super::PyObject, given: isize)
                -> *mut super::PyObject {
                super::entry($text, $count, args, given, super::$name)
            })*
        }
        /// CPython's alone, and written to by nobody.
        struct Methods([PyMethodDef; [$($count),*].len() + 1]);
        unsafe impl Sync for Methods {}
        static METHODS: Methods = Methods([$(method($text, entries::$name)),*, END]);
    };
}
functions!(
    scale(2) = c"scale",
    dot(2) = c"dot",
    squares(1) = c"squares",
    reshaped(2) = c"reshaped",
    keep(1) = c"keep",
    kept(1) = c"kept",
    calls(0) = c"calls"
);

unsafe fn entry(
    name: &'static CStr,
    expected: isize,
    args: *const *mut PyObject,
    given: isize,
    body: unsafe fn(&[*mut PyObject]) -> Result<*mut PyObject>,
) -> *mut PyObject {
    CALLS.fetch_add(1, Ordering::Relaxed);
    call(name, || {
        count(name, expected, given)?;
        let args = if given == 0 {
            &[][..]
        } else {
            std::slice::from_raw_parts(args, given as usize)
        };
        body(args)
    })
}

/// # Safety
/// CPython calls it, once.
#[no_mangle]
pub unsafe extern "C" fn PyInit_rusty() -> *mut PyObject {
    create(c"rusty", METHODS.0.as_ptr().cast_mut())
}
