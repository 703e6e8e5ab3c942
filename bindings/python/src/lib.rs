//! `namely._native`: the sockets of `namely-socket` and the management client of `namely-client` as
//! Python classes. Applications import the Python of `python/namely` above them (docs/python.md).
//!
//! Every wait releases the interpreter. No thread of the sockets calls into Python. The module has
//! no logic that the Rust sockets lack.
#![forbid(unsafe_code)]

mod failure;
mod management;
mod names;
mod pending;
mod producing;
mod sockets;
mod stream;
mod value;
mod waiting;

use pyo3::prelude::*;

/// The compiled part of the package; see `_native.pyi`.
#[pymodule]
mod _native {
    #[pymodule_export]
    use super::management::Router;
    #[pymodule_export]
    use super::names::{canonical, components, join, listing, path_name, version};
    #[pymodule_export]
    use super::pending::{Bell, Pending};
    #[pymodule_export]
    use super::producing::{Offer, Request};
    #[pymodule_export]
    use super::sockets::{Consumer, Producer, options};
    #[pymodule_export]
    use super::stream::Stream;
}
