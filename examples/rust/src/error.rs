// SPDX-License-Identifier: Apache-2.0
use std::ffi::CStr;
use std::fmt;

use crate::sys;

/// An error of the library: its status and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    status: i32,
    text: String,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn bad_argument(text: String) -> Error {
        Error { status: 15, text }
    }
    /// `ISTHMUS_BAD_DTYPE` and its like, as a number.
    pub fn status(&self) -> i32 {
        self.status
    }
    /// The status's own name: "bad_dtype".
    pub fn name(&self) -> &'static str {
        // The library answers with static text, whatever the number.
        unsafe { CStr::from_ptr(sys::isthmus_status_name(self.status)) }
            .to_str()
            .unwrap_or("unknown")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.text)
    }
}

impl std::error::Error for Error {}

/// The error behind a status, read at once: the next failure on this thread overwrites it.
pub(crate) fn check(status: i32) -> Result<()> {
    if status == sys::OK {
        return Ok(());
    }
    let text = unsafe { CStr::from_ptr(sys::isthmus_last_error()) }
        .to_string_lossy()
        .into_owned();
    Err(Error { status, text })
}
