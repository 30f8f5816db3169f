// SPDX-License-Identifier: Apache-2.0
//! The backend's table (`isthmus/backend/functions.h`) in Rust: written by table.cpp, which a test runs again.
#![allow(clippy::missing_safety_doc, clippy::too_many_arguments)]

use std::ffi::{c_char, c_void};
use std::mem::{align_of, offset_of, size_of, transmute, MaybeUninit};
use std::sync::atomic::{AtomicPtr, AtomicU32};

use crate::cpython::PyObject;

/// A backend with fewer rows is too old.
pub const NEEDED: u32 = 198;
pub const VERSION: &std::ffi::CStr = c"0.1.0";

#[repr(C)]
pub struct BackendTable {
    pub count: u32,
    pub version: u32,
    pub version_text: *const c_char,
    pub observer: *const AtomicPtr<c_void>,
    pub functions: *const *const c_void,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDataType {
    pub code: u8,
    pub bits: u8,
    pub lanes: u16,
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct DLDevice {
    pub device_type: i32,
    pub device_id: i32,
}
#[repr(C)]
pub struct DLTensor {
    pub data: *mut c_void,
    pub device: DLDevice,
    pub ndim: i32,
    pub dtype: DLDataType,
    pub shape: *mut i64,
    pub strides: *mut i64,
    pub byte_offset: u64,
}
#[repr(C)]
pub struct OwnerOps {
    pub size: u32,
    pub framework: u32,
    pub release: Option<unsafe extern "C" fn(*mut c_void)>,
    pub source: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    pub array: Option<unsafe extern "C" fn(*mut c_void) -> *mut c_void>,
    pub native: Option<unsafe extern "C" fn(*mut c_void) -> *const c_void>,
    pub producer: *const c_char,
    pub release_shared: Option<unsafe extern "C" fn(*mut c_void) -> bool>,
    pub owns_memory: bool,
    pub private_pages: Option<unsafe extern "C" fn(*mut c_void, *const Block) -> *mut Block>,
}
#[repr(C)]
pub struct Block {
    pub dl: DLTensor,
    pub refs: AtomicU32,
    pub wrapper_aliases: u32,
    pub flags: u64,
    pub ops: *const OwnerOps,
    pub owner: *mut c_void,
    pub wrapper: AtomicPtr<c_void>,
    pub stream: i64,
}
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TextRef {
    pub data: *const c_char,
    pub size: usize,
}
#[repr(C)]
pub struct Requirement {
    pub accepts: Option<unsafe extern "C" fn(DLDataType) -> bool>,
    pub dtype: DLDataType,
    pub writable: bool,
    pub allow_grad: bool,
    pub no_grad: bool,
    pub order: u8,
    pub min_rank: i32,
    pub max_rank: i32,
    pub sizes: *const c_void,
    pub size_count: i32,
    pub device_type: i32,
    pub alignment: usize,
    pub words: TextRef,
    pub convert: *const c_void,
    pub converts: bool,
    pub orders_clash: bool,
    pub sizes_clash: bool,
    pub ranks_clash: bool,
    pub devices_clash: bool,
    pub grads_clash: bool,
}
#[derive(Clone, Copy)]
#[repr(C)]
pub struct DefaultResult {
    pub reply: bool,
    pub framework: u8,
}
#[repr(C)]
pub struct TensorLoader {
    pub capsule: *mut PyObject,
    pub taken: *mut *mut Block,
}

// BorrowSlot and Match, whose members are reached by their offsets.
pub const SLOT_SIZE: usize = 1208;
pub const SLOT_DESCRIPTOR: usize = 0;
pub const SLOT_FLAGS: usize = 48;
pub const SLOT_MADE: usize = 1192;
pub const SLOT_PENDING: usize = 1200;
pub const MATCH_SIZE: usize = 5136;
pub const MATCH_FUNCTION: usize = 0;
pub const MATCH_COUNT: usize = 5128;

// What the numbers mean.
pub const LOADED_YES: u8 = 0;
pub const READ_ONLY: u64 = 1;
pub const ORDER_ANY: u8 = 0;
pub const ORDER_C: u8 = 1;
pub const HOST_MEMORY: i32 = -1;
pub const BAD_LAYOUT: i32 = 6;
pub const BAD_ARGUMENT: i32 = 15;
pub const OUT_OF_MEMORY: i32 = 19;
pub const CPU: i32 = 1;
pub const TENSOR: u8 = 1;
pub const CAPSULE: u8 = 2;
pub const NUMPY: u8 = 4;
pub const TORCH: u8 = 5;
pub const MAX_NDIM: usize = 64;

#[repr(C)]
pub struct ErrorState {
    _opaque: [u8; 0],
}
/// A borrow in progress: zeros are an empty one. It may hold pointers into itself.
#[repr(C, align(8))]
pub struct BorrowSlot(pub MaybeUninit<[u8; SLOT_SIZE]>);
/// The names of the sizes of one call: empty with a function's name at MATCH_FUNCTION and 0 at MATCH_COUNT.
#[repr(C, align(8))]
pub struct Match(pub MaybeUninit<[u8; MATCH_SIZE]>);

const _: () = {
    assert!(size_of::<BackendTable>() == 32 && align_of::<BackendTable>() == 8);
    assert!(offset_of!(BackendTable, count) == 0);
    assert!(offset_of!(BackendTable, version) == 4);
    assert!(offset_of!(BackendTable, version_text) == 8);
    assert!(offset_of!(BackendTable, observer) == 16);
    assert!(offset_of!(BackendTable, functions) == 24);
    assert!(size_of::<DLDataType>() == 4 && align_of::<DLDataType>() == 2);
    assert!(offset_of!(DLDataType, code) == 0);
    assert!(offset_of!(DLDataType, bits) == 1);
    assert!(offset_of!(DLDataType, lanes) == 2);
    assert!(size_of::<DLDevice>() == 8 && align_of::<DLDevice>() == 4);
    assert!(offset_of!(DLDevice, device_type) == 0);
    assert!(offset_of!(DLDevice, device_id) == 4);
    assert!(size_of::<DLTensor>() == 48 && align_of::<DLTensor>() == 8);
    assert!(offset_of!(DLTensor, data) == 0);
    assert!(offset_of!(DLTensor, device) == 8);
    assert!(offset_of!(DLTensor, ndim) == 16);
    assert!(offset_of!(DLTensor, dtype) == 20);
    assert!(offset_of!(DLTensor, shape) == 24);
    assert!(offset_of!(DLTensor, strides) == 32);
    assert!(offset_of!(DLTensor, byte_offset) == 40);
    assert!(size_of::<OwnerOps>() == 72 && align_of::<OwnerOps>() == 8);
    assert!(offset_of!(OwnerOps, size) == 0);
    assert!(offset_of!(OwnerOps, framework) == 4);
    assert!(offset_of!(OwnerOps, release) == 8);
    assert!(offset_of!(OwnerOps, source) == 16);
    assert!(offset_of!(OwnerOps, array) == 24);
    assert!(offset_of!(OwnerOps, native) == 32);
    assert!(offset_of!(OwnerOps, producer) == 40);
    assert!(offset_of!(OwnerOps, release_shared) == 48);
    assert!(offset_of!(OwnerOps, owns_memory) == 56);
    assert!(offset_of!(OwnerOps, private_pages) == 64);
    assert!(size_of::<Block>() == 96 && align_of::<Block>() == 8);
    assert!(offset_of!(Block, dl) == 0);
    assert!(offset_of!(Block, refs) == 48);
    assert!(offset_of!(Block, wrapper_aliases) == 52);
    assert!(offset_of!(Block, flags) == 56);
    assert!(offset_of!(Block, ops) == 64);
    assert!(offset_of!(Block, owner) == 72);
    assert!(offset_of!(Block, wrapper) == 80);
    assert!(offset_of!(Block, stream) == 88);
    assert!(size_of::<TextRef>() == 16 && align_of::<TextRef>() == 8);
    assert!(offset_of!(TextRef, data) == 0);
    assert!(offset_of!(TextRef, size) == 8);
    assert!(size_of::<Requirement>() == 80 && align_of::<Requirement>() == 8);
    assert!(offset_of!(Requirement, accepts) == 0);
    assert!(offset_of!(Requirement, dtype) == 8);
    assert!(offset_of!(Requirement, writable) == 12);
    assert!(offset_of!(Requirement, allow_grad) == 13);
    assert!(offset_of!(Requirement, no_grad) == 14);
    assert!(offset_of!(Requirement, order) == 15);
    assert!(offset_of!(Requirement, min_rank) == 16);
    assert!(offset_of!(Requirement, max_rank) == 20);
    assert!(offset_of!(Requirement, sizes) == 24);
    assert!(offset_of!(Requirement, size_count) == 32);
    assert!(offset_of!(Requirement, device_type) == 36);
    assert!(offset_of!(Requirement, alignment) == 40);
    assert!(offset_of!(Requirement, words) == 48);
    assert!(offset_of!(Requirement, convert) == 64);
    assert!(offset_of!(Requirement, converts) == 72);
    assert!(offset_of!(Requirement, orders_clash) == 73);
    assert!(offset_of!(Requirement, sizes_clash) == 74);
    assert!(offset_of!(Requirement, ranks_clash) == 75);
    assert!(offset_of!(Requirement, devices_clash) == 76);
    assert!(offset_of!(Requirement, grads_clash) == 77);
    assert!(size_of::<DefaultResult>() == 2 && align_of::<DefaultResult>() == 1);
    assert!(offset_of!(DefaultResult, reply) == 0);
    assert!(offset_of!(DefaultResult, framework) == 1);
    assert!(size_of::<TensorLoader>() == 16 && align_of::<TensorLoader>() == 8);
    assert!(offset_of!(TensorLoader, capsule) == 0);
    assert!(offset_of!(TensorLoader, taken) == 8);
};

pub unsafe fn destroy_block(table: &BackendTable, a0: *mut Block) {
    let f: unsafe extern "C" fn(*mut Block) = transmute(*table.functions.add(24));
    f(a0)
}

pub unsafe fn notify_observer(table: &BackendTable, a0: *mut Block) {
    let f: unsafe extern "C" fn(*mut Block) = transmute(*table.functions.add(27));
    f(a0)
}

pub unsafe fn match_check_argument(table: &BackendTable, a0: *mut Match, a1: *const c_char, a2: *const DLTensor, a3: u64, a4: *const Requirement, a5: *mut *mut ErrorState) -> *mut ErrorState {
    let f: unsafe extern "C" fn(*mut Match, *const c_char, *const DLTensor, u64, *const Requirement, *mut *mut ErrorState) -> *mut ErrorState = transmute(*table.functions.add(63));
    f(a0, a1, a2, a3, a4, a5)
}

pub unsafe fn slot_load(table: &BackendTable, a0: *mut BorrowSlot, a1: *mut PyObject, a2: *const Requirement, a3: *const c_char, a4: *const c_char, a5: *mut Match) -> u8 {
    let f: unsafe extern "C" fn(*mut BorrowSlot, *mut PyObject, *const Requirement, *const c_char, *const c_char, *mut Match) -> u8 = transmute(*table.functions.add(114));
    f(a0, a1, a2, a3, a4, a5)
}

pub unsafe fn slot_commit_or_raise(table: &BackendTable, a0: *mut BorrowSlot, a1: *const c_char, a2: *const c_char) -> bool {
    let f: unsafe extern "C" fn(*mut BorrowSlot, *const c_char, *const c_char) -> bool = transmute(*table.functions.add(117));
    f(a0, a1, a2)
}

pub unsafe fn slot_end(table: &BackendTable, a0: *mut BorrowSlot) {
    let f: unsafe extern "C" fn(*mut BorrowSlot) = transmute(*table.functions.add(118));
    f(a0)
}

pub unsafe fn load_tensor(table: &BackendTable, a0: *mut TensorLoader, a1: *mut PyObject, a2: *mut *mut Block, a3: *const c_char, a4: *const c_char, a5: *mut Match) -> u8 {
    let f: unsafe extern "C" fn(*mut TensorLoader, *mut PyObject, *mut *mut Block, *const c_char, *const c_char, *mut Match) -> u8 = transmute(*table.functions.add(122));
    f(a0, a1, a2, a3, a4, a5)
}

pub unsafe fn roll_back_loaded_tensor(table: &BackendTable, a0: *mut TensorLoader, a1: *mut PyObject, a2: *mut *mut Block) {
    let f: unsafe extern "C" fn(*mut TensorLoader, *mut PyObject, *mut *mut Block) = transmute(*table.functions.add(124));
    f(a0, a1, a2)
}

pub unsafe fn to_result(table: &BackendTable, a0: *const *mut Block, a1: u8, a2: *mut PyObject) -> *mut PyObject {
    let f: unsafe extern "C" fn(*const *mut Block, u8, *mut PyObject) -> *mut PyObject = transmute(*table.functions.add(126));
    f(a0, a1, a2)
}

pub unsafe fn to_default_result(table: &BackendTable, a0: DefaultResult, a1: *const *mut Block, a2: *mut PyObject, a3: *mut PyObject) -> *mut PyObject {
    let f: unsafe extern "C" fn(DefaultResult, *const *mut Block, *mut PyObject, *mut PyObject) -> *mut PyObject = transmute(*table.functions.add(127));
    f(a0, a1, a2, a3)
}

pub unsafe fn raise_error(table: &BackendTable, a0: i32, a1: TextRef) {
    let f: unsafe extern "C" fn(i32, TextRef) = transmute(*table.functions.add(196));
    f(a0, a1)
}

pub unsafe fn raise_error_state(table: &BackendTable, a0: *mut ErrorState) {
    let f: unsafe extern "C" fn(*mut ErrorState) = transmute(*table.functions.add(197));
    f(a0)
}
