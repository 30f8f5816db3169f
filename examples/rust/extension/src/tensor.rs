// SPDX-License-Identifier: Apache-2.0
//! A tensor that may be kept: a counted reference to a block, which keeps the memory's owner.

use std::ffi::{c_char, c_void, CStr};
use std::mem::{align_of, size_of, MaybeUninit};
use std::ptr::{drop_in_place, null, null_mut, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::cpython::PyObject;
use crate::module::{backend, raise, Raised, Result};
use crate::table::{
    self, Block, DLDevice, DLTensor, DefaultResult, ErrorState, Match, OwnerOps,
    TensorLoader,
};
use crate::view::{elements, Element, Requirement};

pub struct Tensor(NonNull<Block>);

// The count is atomic, and an owner may be released on any thread, with the GIL or without it.
unsafe impl Send for Tensor {}
unsafe impl Sync for Tensor {}

impl Clone for Tensor {
    #[inline]
    fn clone(&self) -> Tensor {
        self.block().refs.fetch_add(1, Ordering::Relaxed);
        Tensor(self.0)
    }
}

impl Drop for Tensor {
    #[inline]
    fn drop(&mut self) {
        let refs = &self.block().refs;
        if refs.load(Ordering::Acquire) == 1 || refs.fetch_sub(1, Ordering::AcqRel) == 1
        {
            unsafe { table::destroy_block(backend(), self.0.as_ptr()) }
        }
    }
}

/// A block, room for its sizes and strides, and what owns its elements.
#[repr(C)]
struct Owned<O> {
    block: Block,
    dims: [i64; 2 * INLINE],
    more: Vec<i64>,
    owner: O,
}
const INLINE: usize = 4;

extern "C" {
    fn malloc(size: usize) -> *mut c_void;
}

/// Ends the elements. The backend frees the block, and with it the whole allocation, which is therefore malloc's.
unsafe extern "C" fn end<O>(owner: *mut c_void) {
    let owned = owner.cast::<Owned<O>>();
    drop_in_place(&raw mut (*owned).more);
    drop_in_place(&raw mut (*owned).owner);
}
/// The same for an owner whose end frees memory and runs no other code.
unsafe extern "C" fn end_quietly<O>(owner: *mut c_void) -> bool {
    end::<O>(owner);
    true
}

struct Ops<O>(std::marker::PhantomData<O>);
impl<O: Send + 'static> Ops<O> {
    const QUIET: OwnerOps = OwnerOps {
        release_shared: Some(end_quietly::<O>),
        owns_memory: true,
        ..Self::OPS
    };
    const OPS: OwnerOps = OwnerOps {
        size: size_of::<OwnerOps>() as u32,
        framework: 0,
        release: Some(end::<O>),
        source: None,
        array: None,
        native: None,
        producer: null(),
        release_shared: None,
        owns_memory: false,
        private_pages: None,
    };
}
// It holds constants alone.
unsafe impl Sync for OwnerOps {}

impl Tensor {
    #[inline]
    fn block(&self) -> &Block {
        unsafe { self.0.as_ref() }
    }

    /// The tensor of any array object. It may be kept, and dropped on any thread.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub unsafe fn from_py(
        object: *mut PyObject,
        function: &CStr,
        argument: &CStr,
    ) -> Result<Tensor> {
        let mut block: *mut Block = null_mut();
        let mut loader = TensorLoader {
            capsule: null_mut(),
            taken: null_mut(),
        };
        let loaded = table::load_tensor(
            backend(),
            &mut loader,
            object,
            &mut block,
            function.as_ptr(),
            argument.as_ptr(),
            null_mut(),
        );
        // What is in `loader` would make a capsule whole again, for a call that is refused afterwards.
        match NonNull::new(block) {
            Some(block) if loaded == table::LOADED_YES => Ok(Tensor(block)),
            _ => Err(Raised),
        }
    }

    /// Takes a Vec, copies nothing. `shape` says how its elements lie, row by row.
    ///
    /// # Safety
    /// The GIL is held, for the error.
    #[inline]
    pub unsafe fn own<T: Element>(values: Vec<T>, shape: &[i64]) -> Result<Tensor> {
        let (data, count) = (values.as_ptr().cast_mut(), values.len());
        Self::with_ops(data, count, shape, values, const { &Ops::<Vec<T>>::QUIET })
    }

    /// Describes `count` elements at `data`, row by row, of which `owner` keeps the memory; it may be dropped on any
    /// thread, with the GIL or without it.
    ///
    /// # Safety
    /// The GIL is held, for the error, and the elements stay where they are as long as `owner`, wherever it is moved.
    #[inline]
    pub unsafe fn wrap<T: Element, O: Send + 'static>(
        data: *mut T,
        count: usize,
        shape: &[i64],
        owner: O,
    ) -> Result<Tensor> {
        Self::with_ops(data, count, shape, owner, const { &Ops::<O>::OPS })
    }

    #[inline]
    unsafe fn with_ops<T: Element, O: Send + 'static>(
        data: *mut T,
        held: usize,
        shape: &[i64],
        owner: O,
        ops: &'static OwnerOps,
    ) -> Result<Tensor> {
        let ndim = shape.len();
        let count = shape.iter().try_fold(1i64, |n, &size| {
            if size < 0 {
                None
            } else {
                n.checked_mul(size)
            }
        });
        if ndim > table::MAX_NDIM || count != i64::try_from(held).ok() {
            let text = format!("{held} elements cannot have the shape {shape:?}");
            return Err(raise(table::BAD_LAYOUT, &text));
        }
        const { assert!(align_of::<Owned<O>>() <= 16, "malloc() aligns to 16 bytes") };
        let owned = malloc(size_of::<Owned<O>>()).cast::<Owned<O>>();
        if owned.is_null() {
            return Err(raise(
                table::OUT_OF_MEMORY,
                "no memory for a tensor's description",
            ));
        }
        let mut more = if ndim > INLINE {
            vec![0; 2 * ndim]
        } else {
            Vec::new()
        };
        let room = if ndim > INLINE {
            more.as_mut_ptr()
        } else {
            (&raw mut (*owned).dims).cast()
        };
        let block = &raw mut (*owned).block;
        block.write(Block {
            dl: DLTensor {
                data: if held == 0 { null_mut() } else { data.cast() },
                device: DLDevice {
                    device_type: table::CPU,
                    device_id: 0,
                },
                ndim: ndim as i32,
                dtype: T::DTYPE,
                shape: room,
                strides: room.add(ndim),
                byte_offset: 0,
            },
            refs: AtomicU32::new(1),
            wrapper_aliases: 0,
            flags: 0,
            ops,
            owner: owned.cast(),
            wrapper: AtomicPtr::new(null_mut()),
            stream: 0,
        });
        (&raw mut (*owned).more).write(more);
        (&raw mut (*owned).owner).write(owner);
        let mut stride = 1;
        for i in (0..ndim).rev() {
            *room.add(i) = shape[i];
            *room.add(ndim + i) = stride;
            stride *= shape[i].max(1);
        }
        if !(*backend().observer).load(Ordering::Relaxed).is_null() {
            table::notify_observer(backend(), block);
        }
        Ok(Tensor(NonNull::new_unchecked(block)))
    }

    /// In the framework of `like`, an argument of the call; a new reference. A tensor that came from that framework and
    /// is unchanged is the same object again.
    ///
    /// # Safety
    /// The GIL is held, and `like` is an object.
    #[inline]
    pub unsafe fn to_py_like(self, like: *mut PyObject) -> Result<*mut PyObject> {
        let form = DefaultResult {
            reply: true,
            framework: table::TENSOR,
        };
        let block = self.0.as_ptr();
        new_reference(table::to_default_result(
            backend(),
            form,
            &block,
            like,
            null_mut(),
        ))
    }

    /// As an array of `framework` (`table::NUMPY`, …); a new reference.
    ///
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub unsafe fn to_py(self, framework: u8) -> Result<*mut PyObject> {
        let block = self.0.as_ptr();
        new_reference(table::to_result(backend(), &block, framework, null_mut()))
    }

    pub fn shape(&self) -> &[i64] {
        let dl = &self.block().dl;
        unsafe { std::slice::from_raw_parts(dl.shape, dl.ndim as usize) }
    }
    pub fn is_read_only(&self) -> bool {
        self.block().flags & table::READ_ONLY != 0
    }

    /// The elements, if they are as `requirement` says; otherwise isthmus.Error is raised.
    ///
    /// # Safety
    /// The GIL is held, for the error, and nobody writes to the elements as long as the slice is used.
    pub unsafe fn as_slice<T: Element>(
        &self,
        requirement: &'static Requirement<T>,
        function: &CStr,
        argument: &CStr,
    ) -> Result<&[T]> {
        let dl = &self.block().dl;
        let mut names = Match(MaybeUninit::uninit());
        let at = names.0.as_mut_ptr().cast::<u8>();
        *at.add(table::MATCH_FUNCTION).cast::<*const c_char>() = function.as_ptr();
        *at.add(table::MATCH_COUNT).cast::<i32>() = 0;
        let mut raised: *mut ErrorState = null_mut();
        let flags = self.block().flags;
        let what = table::match_check_argument(
            backend(),
            &mut names,
            argument.as_ptr(),
            dl,
            flags,
            requirement.of(),
            &mut raised,
        );
        let error = if raised.is_null() { what } else { raised };
        if !error.is_null() {
            table::raise_error_state(backend(), error);
            return Err(Raised);
        }
        let (data, count) = elements::<T>(dl);
        Ok(std::slice::from_raw_parts(data, count))
    }
}

#[inline]
fn new_reference(object: *mut PyObject) -> Result<*mut PyObject> {
    if object.is_null() {
        Err(Raised)
    } else {
        Ok(object)
    }
}
