// SPDX-License-Identifier: Apache-2.0
//! Arguments for the length of a call, of one dtype and rank: checked by the backend, in the words of its errors.

use std::ffi::{c_char, c_void, CStr};
use std::marker::{PhantomData, PhantomPinned};
use std::mem::{align_of, size_of, MaybeUninit};
use std::pin::Pin;
use std::ptr::{null, null_mut};

use crate::cpython::PyObject;
use crate::module::{backend, Raised, Result};
use crate::table::{self, BorrowSlot, DLDataType, DLTensor, TextRef};

/// A Rust type that can be the element of a tensor.
///
/// # Safety
/// `DTYPE` has the size of the type, and every pattern of bits is a value of it.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    const DTYPE: DLDataType;
}
macro_rules! element {
    ($($t:ty: $code:expr),*) => {
        $(unsafe impl Element for $t {
            const DTYPE: DLDataType = DLDataType { code: $code, bits: 8 * size_of::<$t>() as u8, lanes: 1 };
        })*
    };
}
element!(i8: 0, i16: 0, i32: 0, i64: 0, u8: 1, u16: 1, u32: 1, u64: 1, f32: 2, f64: 2);

/// What a view asks of a tensor.
pub struct Requirement<T>(table::Requirement, PhantomData<T>);

// It points to constants alone.
unsafe impl<T> Sync for Requirement<T> {}

impl<T: Element> Requirement<T> {
    /// C-contiguous memory of the host, of `rank` dimensions; `words` say so in errors: "float32[:, :] C-contiguous".
    pub const fn contiguous(rank: i32, words: &'static str) -> Requirement<T> {
        let requirement = table::Requirement {
            accepts: None,
            dtype: T::DTYPE,
            writable: false,
            allow_grad: false,
            no_grad: false,
            order: table::ORDER_C,
            min_rank: rank,
            max_rank: rank,
            sizes: null(),
            size_count: -1,
            device_type: table::HOST_MEMORY,
            alignment: align_of::<T>(),
            words: TextRef {
                data: words.as_ptr() as *const c_char,
                size: words.len(),
            },
            convert: null(),
            converts: false,
            orders_clash: false,
            sizes_clash: false,
            ranks_clash: false,
            devices_clash: false,
            grads_clash: false,
        };
        Requirement(requirement, PhantomData)
    }
    /// The same, to be written to: read-only memory is refused, and autograd is told.
    pub const fn writable(rank: i32, words: &'static str) -> Requirement<Mut<T>> {
        let mut requirement = Self::contiguous(rank, words).0;
        requirement.writable = true;
        Requirement(requirement, PhantomData)
    }
}

impl<T> Requirement<T> {
    #[inline]
    pub(crate) fn of(&'static self) -> &'static table::Requirement {
        &self.0
    }
}

/// The elements of a Requirement::writable().
pub struct Mut<T>(PhantomData<T>);

/// Room on the stack for one borrowed tensor: `pin!(Slot::new())`.
pub struct Slot(BorrowSlot, PhantomPinned);

impl Slot {
    #[allow(clippy::new_without_default)]
    #[inline]
    pub fn new() -> Slot {
        let mut slot = Slot(BorrowSlot(MaybeUninit::uninit()), PhantomPinned);
        unsafe {
            *slot.at::<bool>(table::SLOT_MADE) = false;
            *slot.at::<*mut PyObject>(table::SLOT_PENDING) = null_mut();
        }
        slot
    }
    #[inline]
    fn at<X>(&mut self, offset: usize) -> *mut X {
        unsafe { self.0 .0.as_mut_ptr().cast::<u8>().add(offset).cast() }
    }

    /// Borrows the tensor for the call; raises if it is not what `requirement` says. Nothing is written and no capsule
    /// is taken before commit(), which comes when every argument has been loaded.
    ///
    /// # Safety
    /// The GIL is held, the slot was not loaded before, and the caller keeps `object` as long as the slot.
    #[inline]
    pub unsafe fn load<T>(
        self: Pin<&mut Self>,
        object: *mut PyObject,
        requirement: &'static Requirement<T>,
        function: &'static CStr,
        argument: &'static CStr,
    ) -> Result<Loaded<'_, T>> {
        let slot = self.get_unchecked_mut();
        let at = &raw mut slot.0;
        let loaded = table::slot_load(
            backend(),
            at,
            object,
            requirement.of(),
            function.as_ptr(),
            argument.as_ptr(),
            null_mut(),
        );
        if loaded != table::LOADED_YES {
            return Err(Raised);
        }
        Ok(Loaded {
            slot,
            function,
            argument,
            element: PhantomData,
        })
    }
}

impl Drop for Slot {
    #[inline]
    fn drop(&mut self) {
        unsafe {
            if *self.at::<bool>(table::SLOT_MADE) {
                table::slot_end(backend(), &mut self.0);
            }
        }
    }
}

/// A tensor that fits, of a call that may still be refused for another argument.
pub struct Loaded<'a, T> {
    slot: &'a mut Slot,
    function: &'static CStr,
    argument: &'static CStr,
    element: PhantomData<T>,
}

impl<'a, T> Loaded<'a, T> {
    #[inline]
    unsafe fn taken(self) -> Result<&'a DLTensor> {
        let pending = *self.slot.at::<*mut PyObject>(table::SLOT_PENDING);
        let at = &raw mut self.slot.0;
        if !pending.is_null()
            && !table::slot_commit_or_raise(
                backend(),
                at,
                self.function.as_ptr(),
                self.argument.as_ptr(),
            )
        {
            return Err(Raised);
        }
        Ok(&*self.slot.at::<DLTensor>(table::SLOT_DESCRIPTOR))
    }
}

/// The elements of a C-contiguous tensor. Another runtime may write to them, so the slices are unsafe.
pub struct View<'a, T> {
    tensor: &'a DLTensor,
    element: PhantomData<T>,
}

impl<'a, T: Element> Loaded<'a, T> {
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub unsafe fn commit(self) -> Result<View<'a, T>> {
        Ok(View {
            tensor: self.taken()?,
            element: PhantomData,
        })
    }
}
impl<'a, T: Element> Loaded<'a, Mut<T>> {
    /// # Safety
    /// The GIL is held.
    #[inline]
    pub unsafe fn commit(self) -> Result<View<'a, Mut<T>>> {
        Ok(View {
            tensor: self.taken()?,
            element: PhantomData,
        })
    }
}

/// The first element and how many there are, of memory that was checked.
#[inline]
pub(crate) unsafe fn elements<T>(tensor: &DLTensor) -> (*mut T, usize) {
    let sizes = std::slice::from_raw_parts(tensor.shape, tensor.ndim as usize);
    let count = sizes.iter().product::<i64>() as usize;
    if count == 0 {
        return (std::ptr::NonNull::dangling().as_ptr(), 0);
    }
    (
        tensor
            .data
            .cast::<u8>()
            .add(tensor.byte_offset as usize)
            .cast::<c_void>()
            .cast(),
        count,
    )
}

impl<'a, T: Element> View<'a, T> {
    /// # Safety
    /// Nobody writes to the elements as long as the slice is used.
    #[inline]
    pub unsafe fn as_slice(&self) -> &'a [T] {
        let (data, count) = elements::<T>(self.tensor);
        std::slice::from_raw_parts(data, count)
    }
}
impl<'a, T: Element> View<'a, Mut<T>> {
    /// # Safety
    /// Nobody else touches the elements as long as the slice is used.
    #[inline]
    pub unsafe fn as_mut_slice(&mut self) -> &'a mut [T] {
        let (data, count) = elements::<T>(self.tensor);
        std::slice::from_raw_parts_mut(data, count)
    }
}
impl<T> View<'_, T> {
    #[inline]
    pub fn shape(&self) -> &[i64] {
        unsafe {
            std::slice::from_raw_parts(self.tensor.shape, self.tensor.ndim as usize)
        }
    }
}
