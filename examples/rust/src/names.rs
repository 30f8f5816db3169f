// SPDX-License-Identifier: Apache-2.0
use std::ffi::{c_char, CStr, CString};

use crate::error::check;
use crate::sys;
use crate::{Error, Result};

pub type DType = sys::isthmus_dtype;
pub type Device = sys::isthmus_device;

fn name_of(write: impl FnOnce(*mut c_char, usize) -> i32) -> Result<String> {
    let mut buffer = [0 as c_char; sys::NAME_SIZE];
    check(write(buffer.as_mut_ptr(), buffer.len()))?;
    Ok(unsafe { CStr::from_ptr(buffer.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}

impl DType {
    /// "float32".
    pub fn name(self) -> Result<String> {
        name_of(|buffer, size| unsafe { sys::isthmus_dtype_name(self, buffer, size) })
    }
}

impl Device {
    pub const CPU: Device = Device { kind: 1, id: 0 };

    /// "cuda:0".
    pub fn name(self) -> Result<String> {
        name_of(|buffer, size| unsafe { sys::isthmus_device_name(self, buffer, size) })
    }
    /// The device called `name`.
    pub fn parse(name: &str) -> Result<Device> {
        let name = CString::new(name)
            .map_err(|_| Error::bad_argument("argument 'name': has a NUL".into()))?;
        let mut out = Device::CPU;
        check(unsafe { sys::isthmus_device_parse(name.as_ptr(), &mut out) })?;
        Ok(out)
    }
}

/// A Rust type that can be the element of a tensor.
///
/// # Safety
/// `DTYPE` must have the size of the type, and every pattern of bits must be a value of it.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    const DTYPE: DType;
}

macro_rules! element {
    ($($t:ty: $code:expr),*) => {
        $(unsafe impl Element for $t {
            const DTYPE: DType = DType { code: $code, bits: 8 * std::mem::size_of::<$t>() as u8, lanes: 1 };
        })*
    };
}
element!(i8: 0, i16: 0, i32: 0, i64: 0, u8: 1, u16: 1, u32: 1, u64: 1, f32: 2, f64: 2);
