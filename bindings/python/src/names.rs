//! Names in Python: NDN URIs as text.

use namely_wire::rdr;
use namely_wire::{Component, Name};
use pyo3::prelude::*;
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

/// The entries of a directory's listing (`<directory>/32=ls`): each name as a component, and
/// whether it is a directory.
#[pyfunction]
pub(crate) fn listing(octets: &[u8]) -> PyResult<Vec<(String, bool)>> {
    rdr::listing(octets)
        .map(|entry| match entry {
            Ok(entry) => Ok((Component::generic(entry.name).to_string(), entry.is_directory)),
            Err(error) => Err(Failure::new(Errno::BADMSG, format!("no listing: {error}")).into()),
        })
        .collect()
}
