//! Faces are made on threads of their own: a name server that does not answer, or a peer that does not, must hold
//! up neither packets nor management.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use namely_mgmt::{CreateError, FaceSpec};
use namely_wire::mgmt::FaceStatus;
use namely_wire::{Endpoint, FaceUri};

use super::faces;
use crate::dataplane::DataPlane;

/// Faces being made at once. One more is refused, and asked for again later.
pub(crate) const FACES_IN_MAKING_MAX: usize = 64;

/// Makes faces, each on a short-lived thread.
pub(crate) struct FaceMaker {
    plane: Arc<DataPlane>,
    in_making: Arc<AtomicUsize>,
}

impl FaceMaker {
    /// A maker of faces on `plane`.
    pub(crate) fn new(plane: Arc<DataPlane>) -> Self {
        FaceMaker { plane, in_making: Arc::default() }
    }

    /// Makes a face and gives the outcome to `done`, on another thread. False if too many are being made.
    pub(crate) fn make(
        &self,
        spec: FaceSpec,
        done: impl FnOnce(Result<FaceStatus, CreateError>) + Send + 'static,
    ) -> bool {
        if self.in_making.fetch_add(1, Ordering::Relaxed) >= FACES_IN_MAKING_MAX {
            self.in_making.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        let (plane, in_making) = (self.plane.clone(), self.in_making.clone());
        let work = move || {
            let made = make(&plane, spec);
            in_making.fetch_sub(1, Ordering::Relaxed);
            done(made);
        };
        let started = thread::Builder::new().name("namely-face".into()).spawn(work);
        if started.is_err() {
            self.in_making.fetch_sub(1, Ordering::Relaxed);
        }
        started.is_ok()
    }
}

fn make(plane: &DataPlane, spec: FaceSpec) -> Result<FaceStatus, CreateError> {
    let remote = match spec.remote {
        FaceUri::Tcp(endpoint) => FaceUri::Tcp(Endpoint::Address(address(endpoint)?)),
        FaceUri::Udp(endpoint) => FaceUri::Udp(Endpoint::Address(address(endpoint)?)),
        other => other,
    };
    faces::create(plane, &FaceSpec { remote, ..spec })
}

/// The address of `endpoint`; a host name is looked up, which may take long.
fn address(endpoint: Endpoint) -> Result<SocketAddr, CreateError> {
    let (host, port, family) = match endpoint {
        Endpoint::Address(address) => return Ok(address),
        Endpoint::Host { name, port, family } => (name, port, family),
    };
    let addresses = (host.as_str(), port)
        .to_socket_addrs()
        .map_err(|error| CreateError::Failed(format!("cannot look up {host}: {error}")))?;
    addresses
        .into_iter()
        .find(|address| family.admits(&address.ip()))
        .ok_or_else(|| CreateError::Failed(format!("{host} has no address of the IP version asked for")))
}
