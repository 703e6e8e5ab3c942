//! Names in Python: NDN URIs as text.

use namely_wire::rdr;
use namely_wire::{Component, Name};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;

use crate::failure::Failure;

/// A name from its URI; with or without the scheme.
pub(crate) fn parse(name: &str) -> Result<Name, Failure> {
    name.parse().map_err(|error| Failure::new(Errno::INVAL, format!("no name: {error}")).with_name(name))
}

/// The version of the package.
#[pyfunction]
pub(crate) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// The name in its canonical form.
#[pyfunction]
pub(crate) fn canonical(name: &str) -> PyResult<String> {
    Ok(parse(name)?.to_string())
}

/// The name with Generic components of these texts below it.
#[pyfunction]
pub(crate) fn join(name: &str, components: Vec<String>) -> PyResult<String> {
    let mut joined = parse(name)?;
    for component in &components {
        joined.push(Component::generic(component.as_bytes()));
    }
    Ok(joined.to_string())
}

/// The components of the name, each in its canonical form.
#[pyfunction]
pub(crate) fn components(name: &str) -> PyResult<Vec<String>> {
    Ok(parse(name)?.components().map(|component| component.to_string()).collect())
}

/// The name of the file at a path: a Generic component for each file name.
#[pyfunction]
pub(crate) fn path_name(file_names: Vec<Vec<u8>>) -> String {
    let mut name = Name::new();
    for file_name in &file_names {
        name.push(Component::generic(file_name));
    }
    name.to_string()
}

/// The entries of a directory's listing (`<directory>/32=ls`): each file name, and whether it is a
/// directory.
#[pyfunction]
pub(crate) fn listing<'py>(py: Python<'py>, octets: &[u8]) -> PyResult<Vec<(Bound<'py, PyBytes>, bool)>> {
    rdr::listing(octets)
        .map(|entry| match entry {
            Ok(entry) => Ok((PyBytes::new(py, entry.name), entry.is_directory)),
            Err(error) => Err(Failure::new(Errno::BADMSG, format!("no listing: {error}")).into()),
        })
        .collect()
}
