// SPDX-License-Identifier: Apache-2.0
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

use crate::error::check;
use crate::sys::{self, isthmus_tensor, isthmus_tensor_info};
use crate::{DType, Device, Element, Error, Result};

/// One reference on a tensor: a clone shares the memory, and the memory's owner is dropped with the last of them.
#[derive(Debug)]
pub struct Tensor {
    raw: NonNull<isthmus_tensor>,
}

// References are counted atomically, the description never changes, and elements are only accessible through unsafe
// functions.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Clone for Tensor {
    fn clone(&self) -> Tensor {
        unsafe { sys::isthmus_retain(self.raw()) };
        Tensor { raw: self.raw }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe { sys::isthmus_release(self.raw()) };
    }
}

impl Tensor {
    /// New host memory, row-major and 64-byte aligned. The elements have whatever values the memory had.
    pub fn empty(shape: &[i64], dtype: DType) -> Result<Tensor> {
        Tensor::out(|out| unsafe {
            sys::isthmus_empty(shape.as_ptr(), shape.len() as i32, dtype, out)
        })
    }

    /// Takes a Vec without copying its elements, in row-major order.
    pub fn from_vec<T: Element>(mut elements: Vec<T>, shape: &[i64]) -> Result<Tensor> {
        let wanted = shape.iter().try_fold(1i64, |n, &size| n.checked_mul(size));
        if wanted != Some(elements.len() as i64) {
            return Err(Error::bad_argument(format!(
                "argument 'shape': {shape:?} does not hold the Vec's {} elements",
                elements.len()
            )));
        }
        let data = elements.as_mut_ptr();
        unsafe {
            Tensor::wrap(
                data.cast(),
                shape,
                None,
                T::DTYPE,
                Device::CPU,
                false,
                elements,
            )
        }
    }

    /// A tensor over memory that `owner` keeps alive; the owner is dropped, on whichever thread that is, with the last
    /// reference, or at once when the description is refused. Strides count elements; None is row-major.
    ///
    /// # Safety
    /// The memory is as described for as long as `owner` lives, also after `owner` has been moved.
    pub unsafe fn wrap<O: Send + 'static>(
        data: *mut c_void,
        shape: &[i64],
        strides: Option<&[i64]>,
        dtype: DType,
        device: Device,
        read_only: bool,
        owner: O,
    ) -> Result<Tensor> {
        if strides.is_some_and(|s| s.len() != shape.len()) {
            return Err(Error::bad_argument(format!(
                "argument 'strides': {strides:?}; expected one per dimension of {shape:?}"
            )));
        }
        unsafe extern "C" fn release<O>(owner: *mut c_void) {
            // A panic must not cross into C.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                drop(Box::from_raw(owner.cast::<O>()))
            }));
        }
        let flags = if read_only { sys::FLAG_READ_ONLY } else { 0 };
        let steps = strides.map_or(std::ptr::null(), <[i64]>::as_ptr);
        let owner = Box::into_raw(Box::new(owner)).cast();
        Tensor::out(|out| {
            sys::isthmus_wrap(
                data,
                shape.as_ptr(),
                steps,
                shape.len() as i32,
                dtype,
                device,
                flags,
                Some(release::<O>),
                owner,
                out,
            )
        })
    }

    /// The same memory, to be read only.
    pub fn as_read_only(&self) -> Result<Tensor> {
        Tensor::out(|out| unsafe { sys::isthmus_as_read_only(self.raw(), out) })
    }

    /// Address of the first element.
    pub fn data(&self) -> *mut c_void {
        self.info().data
    }
    pub fn shape(&self) -> &[i64] {
        self.dims(self.info().shape)
    }
    /// Steps in elements, one per dimension.
    pub fn strides(&self) -> &[i64] {
        self.dims(self.info().strides)
    }
    /// Number of elements.
    pub fn numel(&self) -> i64 {
        self.info().numel
    }
    pub fn dtype(&self) -> DType {
        self.info().dtype
    }
    pub fn device(&self) -> Device {
        self.info().device
    }
    pub fn read_only(&self) -> bool {
        self.info().flags & sys::FLAG_READ_ONLY != 0
    }

    /// The elements of contiguous host memory.
    ///
    /// # Safety
    /// Nobody writes to them, here or in another runtime, while the slice is in use.
    pub unsafe fn as_slice<T: Element>(&self) -> Result<&[T]> {
        let (data, len) = self.elements::<T>()?;
        Ok(slice::from_raw_parts(data, len))
    }

    /// The same, to be written to; refused for read-only memory.
    ///
    /// # Safety
    /// Nobody else reads or writes the elements, here or in another runtime, while the slice is in use.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn as_mut_slice<T: Element>(&self) -> Result<&mut [T]> {
        if self.read_only() {
            return Err(Error::bad_argument("the memory is read-only".into()));
        }
        let (data, len) = self.elements::<T>()?;
        Ok(slice::from_raw_parts_mut(data, len))
    }

    pub(crate) fn raw(&self) -> *mut isthmus_tensor {
        self.raw.as_ptr()
    }

    /// Runs a function of the library that writes a new reference.
    pub(crate) fn out(
        call: impl FnOnce(*mut *mut isthmus_tensor) -> i32,
    ) -> Result<Tensor> {
        let mut raw = std::ptr::null_mut();
        check(call(&mut raw))?;
        Ok(Tensor {
            raw: NonNull::new(raw).expect("the library succeeded without a result"),
        })
    }

    fn info(&self) -> isthmus_tensor_info {
        let mut info = MaybeUninit::uninit();
        // Fails for NULL alone, which a reference never is.
        let status = unsafe { sys::isthmus_describe(self.raw(), info.as_mut_ptr()) };
        assert_eq!(status, sys::OK);
        unsafe { info.assume_init() }
    }

    fn dims(&self, values: *const i64) -> &[i64] {
        // The library keeps them as long as the reference, and never changes them.
        unsafe { slice::from_raw_parts(values, self.info().ndim as usize) }
    }

    fn elements<T: Element>(&self) -> Result<(*mut T, usize)> {
        let info = self.info();
        if info.dtype != T::DTYPE {
            return Err(Error::bad_argument(format!(
                "expected {}, got {}",
                T::DTYPE.name()?,
                info.dtype.name()?
            )));
        }
        if info.device != Device::CPU {
            return Err(Error::bad_argument(format!(
                "expected memory of the host, got {}",
                info.device.name()?
            )));
        }
        if info.is_contiguous == 0 {
            return Err(Error::bad_argument(format!(
                "expected contiguous memory, got strides {:?}",
                self.strides()
            )));
        }
        let data = if info.numel == 0 {
            NonNull::dangling().as_ptr()
        } else {
            info.data.cast()
        };
        Ok((data, info.numel as usize))
    }
}
