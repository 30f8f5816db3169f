// SPDX-License-Identifier: Apache-2.0
use pyo3::prelude::*;
use pyo3_dlpack::{cpu_device, dtype_f32, IntoDLPack, PyTensor, TensorInfo};
use std::ffi::c_void;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

static HELD: Mutex<Option<Arc<Vec<f32>>>> = Mutex::new(None);

struct Shown(Arc<Vec<f32>>);
impl IntoDLPack for Shown {
    fn tensor_info(&self) -> TensorInfo {
        TensorInfo::contiguous(self.0.as_ptr() as *mut c_void, cpu_device(), dtype_f32(), vec![self.0.len() as i64])
    }
}

struct Made(Vec<f32>);
impl IntoDLPack for Made {
    fn tensor_info(&self) -> TensorInfo {
        TensorInfo::contiguous(self.0.as_ptr() as *mut c_void, cpu_device(), dtype_f32(), vec![self.0.len() as i64])
    }
}

fn shown() -> Shown {
    Shown(HELD.lock().unwrap().as_ref().unwrap().clone())
}

#[pymodule]
mod bench_pyo3_dlpack {
    use super::*;

    #[pyfunction]
    fn own(py: Python<'_>, x: &Bound<'_, PyAny>) -> PyResult<()> {
        black_box(PyTensor::from_pyany(py, x)?.data_ptr());
        Ok(())
    }
    #[pyfunction]
    fn kernel(py: Python<'_>, x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let tensors = (PyTensor::from_pyany(py, x)?, PyTensor::from_pyany(py, y)?, PyTensor::from_pyany(py, out)?);
        black_box((tensors.0.data_ptr(), tensors.1.data_ptr(), tensors.2.data_ptr()));
        Ok(())
    }
    #[pyfunction]
    fn to_capsule(py: Python<'_>, _x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        shown().into_dlpack(py)
    }
    #[pyfunction]
    fn vector_to_capsule(py: Python<'_>, _x: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Made(vec![0.0; 16]).into_dlpack(py)
    }
    #[pyfunction]
    fn set_size(n: usize) {
        *HELD.lock().unwrap() = Some(Arc::new(vec![0.0; n]));
    }
}
