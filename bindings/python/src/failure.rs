//! Failures as the exceptions of `namely.errors`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

/// The exception for `errno`; `name` is what was asked for.
pub(crate) fn raise(errno: i32, message: impl ToString, name: Option<&str>) -> PyErr {
    static FROM_ERRNO: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    Python::attach(|py| {
        let exception = FROM_ERRNO
            .import(py, "namely.errors", "from_errno")
            .and_then(|from_errno| from_errno.call1((errno, message.to_string(), name)));
        exception.map_or_else(|error| error, PyErr::from_value)
    })
}
