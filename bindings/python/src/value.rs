//! The results of calls, and their form in Python: tuples, from which the package's Python makes
//! named types.

use std::time::Duration;

use namely_socket::{ObjectInfo, ObjectStream, Received};
use namely_transport::object::SignatureMode;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::stream::Stream;

/// The result of a call.
#[derive(Debug)]
pub(crate) enum Value {
    /// An object's content.
    Octets(Vec<u8>),
    /// The content of several ranges of an object.
    Ranges(Vec<Vec<u8>>),
    /// The properties of an object.
    Info(ObjectInfo),
    /// An answer to a datagram.
    Received(Received),
    /// An object that is being read.
    Stream(Box<ObjectStream>),
}

macro_rules! from {
    ($($part:ty => $variant:ident),* $(,)?) => {
        $(impl From<$part> for Value {
            fn from(value: $part) -> Self {
                Value::$variant(value.into())
            }
        })*
    };
}

from! { Vec<u8> => Octets, Vec<Vec<u8>> => Ranges, ObjectInfo => Info, Received => Received, ObjectStream => Stream }

impl Value {
    /// `timeout` is the maximum wait of each call on the value, if it has calls.
    pub(crate) fn into_python(self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<Py<PyAny>> {
        match self {
            Value::Octets(octets) => PyBytes::new(py, &octets).into_py_any(py),
            Value::Ranges(ranges) => {
                let ranges: Vec<_> = ranges.iter().map(|octets| PyBytes::new(py, octets)).collect();
                ranges.into_py_any(py)
            }
            Value::Info(info) => info_tuple(&info).into_py_any(py),
            Value::Received(received) => {
                let content = PyBytes::new(py, &received.content);
                let signer = received.signer.map(|name| name.to_string());
                let (name, rtt) = (received.name.to_string(), received.rtt.as_secs_f64());
                (name, content, signer, rtt, received.content_type.number()).into_py_any(py)
            }
            Value::Stream(stream) => Stream::new(*stream, timeout).into_py_any(py),
        }
    }
}

/// Versioned name, octets, segments, the kind of their authentication, signer, whether it is a
/// directory, time of the last change in ns.
type InfoTuple = (String, Option<u64>, Option<u64>, &'static str, Option<String>, bool, Option<u64>);

fn info_tuple(info: &ObjectInfo) -> InfoTuple {
    let vouching = match info.signature_mode {
        SignatureMode::Manifests => "manifests",
        SignatureMode::Segments => "segments",
    };
    let signer = info.signer.as_ref().map(ToString::to_string);
    (info.name.to_string(), info.octets, info.segments, vouching, signer, info.is_directory, info.mtime_ns)
}
