// SPDX-License-Identifier: Apache-2.0
//! Zero-copy tensor exchange: safe wrappers over the C interface of Isthmus (`isthmus/c/isthmus.h`).
//!
//! ```no_run
//! # fn main() -> isthmus::Result<()> {
//! let tensor = isthmus::Tensor::from_vec(vec![0f32; 6], &[2, 3])?; // takes the Vec, copies nothing
//! let managed = tensor.to_dlpack()?.into_raw(); // for any consumer of DLPack
//! # drop(unsafe { isthmus::Tensor::from_dlpack(managed)? });
//! # Ok(())
//! # }
//! ```

mod dlpack;
mod error;
mod names;
pub mod sys;
mod tensor;

pub use dlpack::ManagedTensor;
pub use error::{Error, Result};
pub use names::{DType, Device, Element};
pub use tensor::Tensor;
