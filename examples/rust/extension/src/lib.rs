// SPDX-License-Identifier: Apache-2.0
//! Tensors of Python in Rust: a module calls the package `isthmus` through its table of C functions, so that one file
//! (`.abi3.so`) loads into every CPython from 3.10 on. The module needs no crate and links nothing.

pub mod cpython;
mod module;
#[rustfmt::skip]
pub mod table;
mod tensor;
mod view;

pub use module::{
    call, count, create, double_of, find_table, method, raise, Raised, Result, END,
};
pub use tensor::Tensor;
pub use view::{Element, Mut, Requirement, Slot, View};
