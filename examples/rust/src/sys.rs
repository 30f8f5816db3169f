// SPDX-License-Identifier: Apache-2.0
//! `isthmus/c/isthmus.h` as Rust sees it, by hand: what the wrappers need of it.
#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

pub const C_ABI_VERSION: u32 = 1;
pub const OK: i32 = 0;
pub const FLAG_READ_ONLY: u32 = 1;
pub const NAME_SIZE: usize = 32;

#[repr(C)]
pub struct isthmus_tensor {
    _opaque: [u8; 0],
}

/// DLPack's struct. Only its first two fields are ever read here, the deleter through a managed tensor of one's own.
#[repr(C)]
pub struct DLManagedTensorVersioned {
    pub major: u32,
    pub minor: u32,
    pub manager_ctx: *mut c_void,
    pub deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    _rest: [u8; 0],
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct isthmus_dtype {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct isthmus_device {
    pub kind: i32,
    pub id: i32,
}

#[repr(C)]
pub struct isthmus_tensor_info {
    pub data: *mut c_void,
    pub shape: *const i64,
    pub strides: *const i64,
    pub numel: i64,
    pub nbytes: i64,
    pub itemsize: i64,
    pub byte_offset: u64,
    pub dtype: isthmus_dtype,
    pub device: isthmus_device,
    pub ndim: i32,
    pub flags: u32,
    pub is_contiguous: i32,
    pub reserved: i32,
}

pub type isthmus_release_fn = Option<unsafe extern "C" fn(*mut c_void)>;

extern "C" {
    pub fn isthmus_abi_version() -> u32;
    pub fn isthmus_last_error() -> *const c_char;
    pub fn isthmus_status_name(status: i32) -> *const c_char;
    pub fn isthmus_dtype_name(
        dtype: isthmus_dtype,
        buffer: *mut c_char,
        size: usize,
    ) -> i32;
    pub fn isthmus_device_name(
        device: isthmus_device,
        buffer: *mut c_char,
        size: usize,
    ) -> i32;
    pub fn isthmus_device_parse(name: *const c_char, out: *mut isthmus_device) -> i32;
    pub fn isthmus_empty(
        shape: *const i64,
        ndim: i32,
        dtype: isthmus_dtype,
        out: *mut *mut isthmus_tensor,
    ) -> i32;
    pub fn isthmus_wrap(
        data: *mut c_void,
        shape: *const i64,
        strides: *const i64,
        ndim: i32,
        dtype: isthmus_dtype,
        device: isthmus_device,
        flags: u32,
        release: isthmus_release_fn,
        owner: *mut c_void,
        out: *mut *mut isthmus_tensor,
    ) -> i32;
    pub fn isthmus_describe(
        tensor: *const isthmus_tensor,
        out: *mut isthmus_tensor_info,
    ) -> i32;
    pub fn isthmus_retain(tensor: *mut isthmus_tensor) -> i32;
    pub fn isthmus_release(tensor: *mut isthmus_tensor) -> i32;
    pub fn isthmus_as_read_only(
        tensor: *mut isthmus_tensor,
        out: *mut *mut isthmus_tensor,
    ) -> i32;
    pub fn isthmus_from_dlpack(
        managed: *mut DLManagedTensorVersioned,
        out: *mut *mut isthmus_tensor,
    ) -> i32;
    pub fn isthmus_to_dlpack(
        tensor: *mut isthmus_tensor,
        out: *mut *mut DLManagedTensorVersioned,
    ) -> i32;
}
