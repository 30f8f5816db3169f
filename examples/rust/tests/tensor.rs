// SPDX-License-Identifier: Apache-2.0
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use isthmus::{DType, Device, Tensor};

struct Counted(Arc<AtomicUsize>);
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

const FLOAT32: DType = DType {
    code: 2,
    bits: 32,
    lanes: 1,
};

#[test]
fn the_library_is_the_one_the_header_describes() {
    assert_eq!(
        unsafe { isthmus::sys::isthmus_abi_version() },
        isthmus::sys::C_ABI_VERSION
    );
}

#[test]
fn a_vec_keeps_its_memory() {
    let elements = vec![1f32, 2., 3., 4., 5., 6.];
    let data = elements.as_ptr();
    let tensor = Tensor::from_vec(elements, &[2, 3]).unwrap();
    assert_eq!(tensor.data().cast_const().cast(), data);
    assert_eq!(tensor.shape(), [2, 3]);
    assert_eq!(tensor.strides(), [3, 1]);
    assert_eq!(tensor.dtype().name().unwrap(), "float32");
    assert_eq!(tensor.device().name().unwrap(), "cpu");
    assert_eq!(unsafe { tensor.as_slice::<f32>() }.unwrap()[5], 6.);
}

#[test]
fn the_owner_is_dropped_once_on_whichever_thread_is_last() {
    let drops = Arc::new(AtomicUsize::new(0));
    let mut memory = vec![0f32; 4];
    let data = memory.as_mut_ptr();
    let owner = (memory, Counted(drops.clone()));
    let tensor = unsafe {
        Tensor::wrap(data.cast(), &[4], None, FLOAT32, Device::CPU, false, owner)
    }
    .unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mine = tensor.clone();
            std::thread::spawn(move || {
                for _ in 0..100 {
                    drop(
                        unsafe {
                            Tensor::from_dlpack(mine.to_dlpack().unwrap().into_raw())
                        }
                        .unwrap(),
                    );
                    drop(mine.clone().to_dlpack().unwrap());
                }
            })
        })
        .collect();
    drop(tensor);
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn a_refused_owner_is_dropped_once() {
    let drops = Arc::new(AtomicUsize::new(0));
    for data in [std::ptr::null_mut(), 2 as *mut _] {
        let result = unsafe {
            Tensor::wrap(
                data,
                &[4],
                None,
                FLOAT32,
                Device::CPU,
                false,
                Counted(drops.clone()),
            )
        };
        assert!(["null_data", "needs_copy"].contains(&result.unwrap_err().name()));
    }
    assert_eq!(drops.load(Ordering::SeqCst), 2);
}

#[test]
fn errors_have_a_name_and_a_text() {
    let error = Tensor::empty(&[-1], FLOAT32).unwrap_err();
    assert_eq!(error.name(), "bad_layout");
    assert!(
        error.to_string().contains("(-1,) has a negative size"),
        "{error}"
    );
    assert_eq!(Device::parse("gpu").unwrap_err().name(), "bad_device");
    assert!(Tensor::from_vec(vec![0u8; 5], &[2, 3])
        .unwrap_err()
        .to_string()
        .contains("5 elements"));
    assert_eq!(
        unsafe { Tensor::from_dlpack(std::ptr::null_mut()) }
            .unwrap_err()
            .name(),
        "bad_capsule"
    );
}

#[test]
fn slices_are_of_the_right_type_and_writable_only_when_the_memory_is() {
    let tensor = Tensor::from_vec(vec![0i32; 4], &[4]).unwrap();
    unsafe {
        tensor.as_mut_slice::<i32>().unwrap()[1] = 7;
        assert!(tensor
            .as_slice::<f32>()
            .unwrap_err()
            .to_string()
            .contains("expected float32, got int32"));
        let read_only = tensor.as_read_only().unwrap();
        assert_eq!(read_only.as_slice::<i32>().unwrap(), [0, 7, 0, 0]);
        assert!(read_only.as_mut_slice::<i32>().is_err());
    }
    let scalar = Tensor::empty(&[], FLOAT32).unwrap();
    assert_eq!(scalar.numel(), 1);
}
