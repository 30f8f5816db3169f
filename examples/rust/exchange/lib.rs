// SPDX-License-Identifier: Apache-2.0
//! The Rust side of exchange.py: takes tensors that Python made, and makes some that Python takes.

use std::cell::RefCell;
use std::ffi::{c_char, CString};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use isthmus::sys::DLManagedTensorVersioned;
use isthmus::{Device, Element, Tensor};

static RELEASED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

fn or_null<T>(result: isthmus::Result<*mut T>) -> *mut T {
    result.unwrap_or_else(|error| {
        LAST_ERROR.set(CString::new(error.to_string()).unwrap_or_default());
        null_mut()
    })
}

/// Why the last call that returned NULL on this thread did so.
#[no_mangle]
pub extern "C" fn exchange_error() -> *const c_char {
    LAST_ERROR.with_borrow(|text| text.as_ptr())
}

/// Takes a managed tensor of float32; NULL when it is refused.
///
/// # Safety
/// `managed` is a managed tensor that nobody else takes.
#[no_mangle]
pub unsafe extern "C" fn exchange_take(
    managed: *mut DLManagedTensorVersioned,
) -> *mut Tensor {
    or_null(Tensor::from_dlpack(managed).map(|tensor| Box::into_raw(Box::new(tensor))))
}

/// # Safety
/// `tensor` came from exchange_take() and was not dropped.
#[no_mangle]
pub unsafe extern "C" fn exchange_data(tensor: *const Tensor) -> usize {
    (*tensor).data() as usize
}

/// Doubles every element in place, and returns their sum; NaN for a tensor that cannot
/// be written.
///
/// # Safety
/// `tensor` came from exchange_take() and was not dropped; nobody else touches its
/// elements during the call.
#[no_mangle]
pub unsafe extern "C" fn exchange_double(tensor: *const Tensor) -> f64 {
    let mine = (*tensor).clone();
    // On another thread, to which the handle may go because it is Send.
    let work = std::thread::spawn(move || match mine.as_mut_slice::<f32>() {
        Ok(elements) => {
            elements.iter_mut().for_each(|x| *x *= 2.);
            elements.iter().map(|&x| f64::from(x)).sum()
        }
        Err(_) => f64::NAN,
    });
    work.join().unwrap_or(f64::NAN)
}

/// Drops it on a thread that Python has never seen.
///
/// # Safety
/// `tensor` came from exchange_take() and was not dropped.
#[no_mangle]
pub unsafe extern "C" fn exchange_drop(tensor: *mut Tensor) {
    let tensor = Box::from_raw(tensor);
    std::thread::spawn(move || drop(tensor)).join().ok();
}

struct Counted(#[allow(dead_code)] Vec<f32>);
impl Drop for Counted {
    fn drop(&mut self) {
        RELEASED.fetch_add(1, Ordering::SeqCst);
    }
}

/// How many Vecs made below have been dropped.
#[no_mangle]
pub extern "C" fn exchange_released() -> usize {
    RELEASED.load(Ordering::SeqCst)
}

/// 0, 1, 2, … in a Vec of Rust, `rows` x `columns`; `data` receives the address of its elements.
///
/// # Safety
/// `data` can be written to.
#[no_mangle]
pub unsafe extern "C" fn exchange_make(
    rows: u32,
    columns: u32,
    data: *mut usize,
) -> *mut DLManagedTensorVersioned {
    let mut elements: Vec<f32> = (0..rows * columns).map(|i| i as f32).collect();
    let start = elements.as_mut_ptr();
    *data = start as usize;
    let shape = [i64::from(rows), i64::from(columns)];
    let tensor = Tensor::wrap(
        start.cast(),
        &shape,
        None,
        f32::DTYPE,
        Device::CPU,
        false,
        Counted(elements),
    );
    or_null(tensor.and_then(|tensor| Ok(tensor.to_dlpack()?.into_raw())))
}
