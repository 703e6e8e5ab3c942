//! What calls bring, and how Python gets it.

use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Value {
    /// An object's content.
    Octets(Vec<u8>),
}

impl From<Vec<u8>> for Value {
    fn from(octets: Vec<u8>) -> Self {
        Value::Octets(octets)
    }
}

impl Value {
    pub(crate) fn into_python(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Value::Octets(octets) => PyBytes::new(py, &octets).into_py_any(py),
        }
    }
}
