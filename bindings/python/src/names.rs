//! Names as Python has them: NDN URIs in text.

use namely_wire::rdr;
use namely_wire::{Component, Name};
use pyo3::prelude::*;

use crate::failure::raise;

const INVALID: i32 = rustix::io::Errno::INVAL.raw_os_error();
const BAD_MESSAGE: i32 = rustix::io::Errno::BADMSG.raw_os_error();

/// A name from its URI; with or without the scheme.
pub(crate) fn parse(name: &str) -> PyResult<Name> {
    name.parse().map_err(|error| raise(INVALID, format!("no name: {error}"), Some(name)))
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

/// The entries of a directory's listing (`<directory>/32=ls`): each name as a component, and whether it is a directory.
#[pyfunction]
pub(crate) fn listing(octets: &[u8]) -> PyResult<Vec<(String, bool)>> {
    rdr::listing(octets)
        .map(|entry| match entry {
            Ok(entry) => Ok((Component::generic(entry.name).to_string(), entry.is_directory)),
            Err(error) => Err(raise(BAD_MESSAGE, format!("no listing: {error}"), None)),
        })
        .collect()
}
