//! Input of a producer: requests that no publication answers, and pushes of clients.

use std::sync::{Arc, Mutex, PoisonError};

use namely_socket::{Producer, PublishOptions, Pushed};
use namely_wire::NackReason;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;

use crate::failure::{Failure, Fault};
use crate::sockets::Consumer;
use crate::waiting::on_a_thread;

fn answered() -> Failure {
    Failure::new(Errno::INVAL, "the request was answered before")
}

fn failed(error: &impl Fault) -> PyErr {
    Failure::of(error, None).into()
}

/// A request that no publication answers.
#[pyclass(frozen, module = "namely._native")]
pub(crate) struct Request {
    producer: Arc<Producer>,
    request: Mutex<Option<namely_socket::Request>>,
    name: String,
    object: String,
    parameters: Option<Vec<u8>>,
}

impl Request {
    pub(crate) fn new(producer: Arc<Producer>, request: namely_socket::Request) -> Self {
        Request {
            name: request.name().to_string(),
            object: request.object().to_string(),
            parameters: request.parameters().map(<[u8]>::to_vec),
            request: Mutex::new(Some(request)),
            producer,
        }
    }

    fn take(&self) -> Result<namely_socket::Request, Failure> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(answered)
    }
}

#[pymethods]
impl Request {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn object(&self) -> &str {
        &self.object
    }

    #[getter]
    fn parameters<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        self.parameters.as_ref().map(|octets| PyBytes::new(py, octets))
    }

    fn reply(&self, py: Python<'_>, content: &[u8], options: Vec<(String, String)>) -> PyResult<()> {
        let how = publish_options(&options)?;
        let request = self.take()?;
        let done = py.detach(|| self.producer.reply(&request, content, &how));
        done.map_err(|error| failed(&error))
    }

    fn deny(&self, py: Python<'_>) -> PyResult<()> {
        let request = self.take()?;
        py.detach(|| self.producer.deny(&request)).map_err(|error| failed(&error))
    }

    fn refuse(&self, py: Python<'_>, congestion: bool) -> PyResult<()> {
        let request = self.take()?;
        let reason = if congestion { NackReason::Congestion } else { NackReason::NoRoute };
        py.detach(|| self.producer.refuse(request, reason)).map_err(|error| failed(&error))
    }
}

/// An object that a client offers to push.
#[pyclass(frozen, module = "namely._native")]
pub(crate) struct Offer {
    producer: Arc<Producer>,
    pushed: Mutex<Option<Pushed>>,
    name: String,
    octets: Option<u64>,
}

impl Offer {
    pub(crate) fn new(producer: Arc<Producer>, pushed: Pushed) -> Self {
        let (name, octets) = (pushed.name().to_string(), pushed.octets());
        Offer { producer, pushed: Mutex::new(Some(pushed)), name, octets }
    }

    fn take(&self) -> Result<Pushed, Failure> {
        self.pushed.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(answered)
    }
}

#[pymethods]
impl Offer {
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    #[getter]
    fn octets(&self) -> Option<u64> {
        self.octets
    }

    fn pull<'py>(&self, py: Python<'py>, consumer: &Consumer) -> PyResult<Bound<'py, PyBytes>> {
        let (producer, consumer) = (self.producer.clone(), consumer.open()?.clone());
        let (pushed, name) = (self.take()?, self.name.clone());
        let content = on_a_thread(py, move || {
            pushed.pull(&consumer, &producer).map_err(|error| Failure::of(&error, Some(&name)))
        })?;
        Ok(PyBytes::new(py, &content))
    }

    fn refuse(&self, py: Python<'_>) -> PyResult<()> {
        let pushed = self.take()?;
        py.detach(|| pushed.refuse());
        Ok(())
    }
}

/// Options of one publication by name and text.
pub(crate) fn publish_options(options: &[(String, String)]) -> Result<PublishOptions, Failure> {
    let mut how = PublishOptions::default();
    for (name, value) in options {
        how.set(name, value).map_err(|error| Failure::of(&error, None))?;
    }
    Ok(how)
}
