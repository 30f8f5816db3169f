// SPDX-License-Identifier: Apache-2.0
use dlpark::ffi::{DLDevice, DLManagedTensorVersioned};
use dlpark::metadata::Dynamic;
use dlpark::{versioned, DlpackElement};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

static HELD: Mutex<Option<Arc<Vec<f32>>>> = Mutex::new(None);

fn shown() -> PyResult<versioned::Dlpack> {
    let owner = HELD.lock().unwrap().as_ref().unwrap().clone();
    let (data, len) = (owner.as_ptr(), owner.len());
    owned_by(owner, data, len)
}

fn owned_by<T: Send + 'static>(owner: T, data: *const f32, len: usize) -> PyResult<versioned::Dlpack> {
    let prepared = Dynamic::new(&[len], &[1isize]).prepare_as::<DLManagedTensorVersioned>().map_err(|e| PyValueError::new_err(e.to_string()))?;
    let mut initialized = prepared.initialize(Box::new(owner));
    initialized.set_data(data as *mut std::ffi::c_void);
    initialized.set_dtype(<f32 as DlpackElement>::DTYPE);
    initialized.set_device(DLDevice::CPU);
    Ok(unsafe { initialized.finish() })
}

#[pymodule]
mod bench_dlpark {
    use super::*;

    #[pyfunction]
    fn own(x: &Bound<'_, PyAny>) -> PyResult<()> {
        black_box(&dlpark::python::from_dlpack(x.as_borrowed(), None, None)?);
        Ok(())
    }
    #[pyfunction]
    fn kernel(x: &Bound<'_, PyAny>, y: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let a = dlpark::python::from_dlpack(x.as_borrowed(), None, None)?;
        let b = dlpark::python::from_dlpack(y.as_borrowed(), None, None)?;
        let c = dlpark::python::from_dlpack(out.as_borrowed(), None, None)?;
        black_box((&a, &b, &c));
        Ok(())
    }
    #[pyfunction]
    fn to_capsule<'py>(py: Python<'py>, _x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        shown()?.into_pyobject(py)
    }
    #[pyfunction]
    fn vector_to_capsule<'py>(py: Python<'py>, _x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let owner = vec![0.0f32; 16];
        let data = owner.as_ptr();
        owned_by(owner, data, 16)?.into_pyobject(py)
    }
    #[pyfunction]
    fn set_size(n: usize) {
        *HELD.lock().unwrap() = Some(Arc::new(vec![0.0; n]));
    }
}
