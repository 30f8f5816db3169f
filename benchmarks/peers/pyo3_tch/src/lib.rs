// SPDX-License-Identifier: Apache-2.0
use pyo3::prelude::*;
use pyo3_tch::PyTensor;
use std::hint::black_box;
use std::sync::Mutex;

static HELD: Mutex<Vec<f32>> = Mutex::new(Vec::new());

#[pymodule]
mod bench_pyo3_tch {
    use super::*;

    #[pyfunction]
    fn own(x: PyTensor) {
        black_box(&x.0);
    }
    #[pyfunction]
    fn kernel(x: PyTensor, y: PyTensor, out: PyTensor) {
        black_box((&x.0, &y.0, &out.0));
    }
    #[pyfunction]
    fn round_trip(x: PyTensor) -> PyTensor {
        x
    }
    #[pyfunction]
    fn to_torch(_x: &Bound<'_, PyAny>) -> PyTensor {
        let held = HELD.lock().unwrap();
        let data = held.as_ptr() as *const u8;
        PyTensor(unsafe { tch::Tensor::from_blob(data, &[held.len() as i64], &[1], tch::Kind::Float, tch::Device::Cpu) })
    }
    #[pyfunction]
    fn set_size(n: usize) {
        *HELD.lock().unwrap() = vec![0.0; n];
    }
}
