// SPDX-License-Identifier: Apache-2.0
use numpy::ndarray::ArrayView1;
use numpy::{PyArray1, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn};
use pyo3::prelude::*;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

static HELD: Mutex<Option<Arc<Vec<f32>>>> = Mutex::new(None);

#[pyclass(frozen)]
struct Keeper(#[allow(dead_code)] Arc<Vec<f32>>);

#[pymodule]
mod bench_rust_numpy {
    use super::*;

    #[pyfunction]
    fn own(x: &Bound<'_, PyArrayDyn<f32>>) {
        black_box(x.data());
    }
    // With the crate's own check that nobody writes meanwhile.
    #[pyfunction]
    fn own_readonly(x: PyReadonlyArrayDyn<'_, f32>) {
        black_box(x.as_array().as_ptr());
    }
    #[pyfunction]
    fn kernel(x: &Bound<'_, PyArrayDyn<f32>>, y: &Bound<'_, PyArrayDyn<f32>>, out: &Bound<'_, PyArrayDyn<f32>>) {
        black_box((x.data(), y.data(), out.data()));
    }
    #[pyfunction]
    fn round_trip<'py>(x: &Bound<'py, PyArrayDyn<f32>>) -> Bound<'py, PyArrayDyn<f32>> {
        black_box(x.data());
        x.clone()
    }
    #[pyfunction]
    fn to_numpy<'py>(py: Python<'py>, _x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let owner = HELD.lock().unwrap().as_ref().unwrap().clone();
        let view = ArrayView1::from(unsafe { std::slice::from_raw_parts(owner.as_ptr(), owner.len()) });
        let keeper = Bound::new(py, Keeper(owner))?.into_any();
        // SAFETY: the keeper owns the memory, which never moves.
        Ok(unsafe { PyArray1::borrow_from_array(&view, keeper) })
    }
    #[pyfunction]
    fn copy_to_numpy<'py>(py: Python<'py>, _x: &Bound<'py, PyAny>) -> Bound<'py, PyArray1<f32>> {
        PyArray1::from_slice(py, HELD.lock().unwrap().as_ref().unwrap())
    }
    #[pyfunction]
    fn set_size(n: usize) {
        *HELD.lock().unwrap() = Some(Arc::new(vec![0.0; n]));
    }
}
