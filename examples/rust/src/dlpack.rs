// SPDX-License-Identifier: Apache-2.0
use std::ptr::NonNull;

use crate::error::check;
use crate::sys::{self, DLManagedTensorVersioned};
use crate::{Result, Tensor};

/// A managed tensor of DLPack 1.x that nobody has taken yet; deletes it unless it is given away.
#[derive(Debug)]
pub struct ManagedTensor {
    raw: NonNull<DLManagedTensorVersioned>,
}

// The deleter may run on any thread, as DLPack asks of every producer.
unsafe impl Send for ManagedTensor {}

impl ManagedTensor {
    /// Gives it away: whoever takes the pointer calls the deleter, once.
    pub fn into_raw(self) -> *mut DLManagedTensorVersioned {
        let raw = self.raw.as_ptr();
        std::mem::forget(self);
        raw
    }
}

impl Drop for ManagedTensor {
    fn drop(&mut self) {
        unsafe {
            if let Some(deleter) = self.raw.as_ref().deleter {
                deleter(self.raw.as_ptr());
            }
        }
    }
}

impl Tensor {
    /// Takes a managed tensor, also when it is refused: its deleter has then been called.
    ///
    /// # Safety
    /// `managed` is NULL, or a managed tensor that is given to this call alone.
    pub unsafe fn from_dlpack(
        managed: *mut DLManagedTensorVersioned,
    ) -> Result<Tensor> {
        Tensor::out(|out| sys::isthmus_from_dlpack(managed, out))
    }

    /// A managed tensor that shares the memory and keeps its owner alive.
    pub fn to_dlpack(&self) -> Result<ManagedTensor> {
        let mut raw = std::ptr::null_mut();
        check(unsafe { sys::isthmus_to_dlpack(self.raw(), &mut raw) })?;
        Ok(ManagedTensor {
            raw: NonNull::new(raw).expect("the library succeeded without a result"),
        })
    }
}
