// SPDX-License-Identifier: Apache-2.0
use isthmus_python::cpython::{none, PyLong_AsSize_t, PyMethodDef, PyObject};
use isthmus_python::{call, create, method, table, Mut, Requirement, Result, Slot, Tensor, END};
use std::hint::black_box;
use std::pin::pin;
use std::sync::Mutex;

static HELD: Mutex<Option<Tensor>> = Mutex::new(None);
static READ: Requirement<f32> = Requirement::contiguous(1, "float32[:] C-contiguous on cpu");
static WRITTEN: Requirement<Mut<f32>> = Requirement::writable(1, "float32[:] C-contiguous on cpu");

unsafe fn held() -> Tensor {
    HELD.lock().unwrap().as_ref().unwrap().clone()
}

macro_rules! functions {
    ($($name:ident($text:expr, $args:ident) $body:block)*) => {
        $(unsafe extern "C" fn $name(_: *mut PyObject, $args: *const *mut PyObject, _: isize) -> *mut PyObject {
            let run = || -> Result<*mut PyObject> { $body };
            call($text, run)
        })*
        struct Methods([PyMethodDef; [$($text),*].len() + 1]);
        unsafe impl Sync for Methods {}
        static METHODS: Methods = Methods([$(method($text, $name)),*, END]);
    };
}
functions! {
    borrow(c"borrow", args) {
        let mut slot = pin!(Slot::new());
        let x = slot.as_mut().load(*args, &READ, c"borrow", c"x")?.commit()?;
        black_box(x.as_slice().as_ptr());
        Ok(none())
    }
    own(c"own", args) {
        black_box(&Tensor::from_py(*args, c"own", c"x")?);
        Ok(none())
    }
    kernel(c"kernel", args) {
        let (mut x, mut y, mut out) = (pin!(Slot::new()), pin!(Slot::new()), pin!(Slot::new()));
        let x = x.as_mut().load(*args, &READ, c"kernel", c"x")?;
        let y = y.as_mut().load(*args.add(1), &READ, c"kernel", c"y")?;
        let out = out.as_mut().load(*args.add(2), &WRITTEN, c"kernel", c"out")?;
        let (x, y, mut out) = (x.commit()?, y.commit()?, out.commit()?);
        black_box((x.as_slice().as_ptr(), y.as_slice().as_ptr(), out.as_mut_slice().as_mut_ptr()));
        Ok(none())
    }
    to_capsule(c"to_capsule", _args) { held().to_py(table::CAPSULE) }
    to_torch(c"to_torch", _args) { held().to_py(table::TORCH) }
    to_numpy(c"to_numpy", _args) { held().to_py(table::NUMPY) }
    vector_to_capsule(c"vector_to_capsule", _args) {
        Tensor::own(vec![0f32; 16], &[16])?.to_py(table::CAPSULE)
    }
    set_size(c"set_size", args) {
        let count = PyLong_AsSize_t(*args);
        *HELD.lock().unwrap() = Some(Tensor::own(vec![0f32; count], &[count as i64])?);
        Ok(none())
    }
}

/// # Safety
/// CPython calls it, once.
#[no_mangle]
pub unsafe extern "C" fn PyInit_bench_isthmus_rust() -> *mut PyObject {
    create(c"bench_isthmus_rust", METHODS.0.as_ptr().cast_mut())
}
