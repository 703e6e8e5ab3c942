//! Makes faces on separate threads, because a name server or a peer that does not answer must block
//! neither packets nor management.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use namely_forwarder::FaceId;
use namely_messages::FaceStatus;
use namely_mgmt::{CreateFaceError, FaceSpec};
use namely_wire::{Endpoint, FaceUri};

use crate::confinement::lookup_refusal;
use crate::home::RouterHandle;

/// Faces that are being made at once.
///
/// # Limit
/// A command for a further face is refused with 504, and a configured neighbor is tried again
/// later.
/// - Tests: `face_creation_has_a_concurrency_limit`
pub(crate) const FACES_IN_MAKING_MAX: usize = 64;

/// Makes faces, each on a short-lived thread.
#[derive(Default)]
pub(crate) struct FaceMaker {
    permits: Arc<Permits>,
}

/// Number of permits in use.
#[derive(Debug, Default)]
struct Permits(AtomicUsize);

/// The right to make one face, returned when dropped.
#[derive(Debug)]
struct Permit(Arc<Permits>);

impl Permits {
    /// Returns a permit, or `None` if all are in use.
    fn acquire(self: &Arc<Self>) -> Option<Permit> {
        // A refused permit is dropped, which decrements the count again. The count orders no other
        // memory, so `Relaxed` is enough.
        let permit = Permit(self.clone());
        (self.0.fetch_add(1, Ordering::Relaxed) < FACES_IN_MAKING_MAX).then_some(permit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FaceMaker {
    /// Makes a face of the router `home` on another thread and passes the result to `done`. Returns
    /// false if too many faces are being made.
    pub(crate) fn make(
        &self,
        home: &RouterHandle,
        spec: FaceSpec,
        done: impl FnOnce(Result<FaceStatus, CreateFaceError>) + Send + 'static,
    ) -> bool {
        let Some(permit) = self.permits.acquire() else { return false };
        let home = home.clone();
        let work = move || {
            let made = make(&home, spec);
            drop(permit);
            done(made);
        };
        thread::Builder::new().name("namely-face".into()).spawn(work).is_ok()
    }
}

impl FaceMaker {
    /// Looks up a host on another thread and passes the result to `done`. Returns false if too many
    /// faces are being made.
    pub(crate) fn look_up(
        &self,
        endpoint: Endpoint,
        done: impl FnOnce(Result<Vec<SocketAddr>, String>) + Send + 'static,
    ) -> bool {
        let Some(permit) = self.permits.acquire() else { return false };
        let work = move || {
            let found = look_up(&endpoint);
            drop(permit);
            done(found);
        };
        thread::Builder::new().name("namely-lookup".into()).spawn(work).is_ok()
    }
}

fn make(home: &RouterHandle, spec: FaceSpec) -> Result<FaceStatus, CreateFaceError> {
    let given = spec.remote.clone();
    let remote = match spec.remote {
        FaceUri::Tcp(endpoint) => FaceUri::Tcp(Endpoint::Address(address(endpoint)?)),
        FaceUri::Udp(endpoint) => FaceUri::Udp(Endpoint::Address(address(endpoint)?)),
        other => other,
    };
    let is_name = remote.address().is_some() && given.ip().is_none();
    let spec = FaceSpec { remote, ..spec };
    match &home.kernel {
        Some(kernel) => kernel.create_face(spec),
        None => {
            let made = home.plane.create_face(spec)?;
            if is_name {
                home.plane.set_given_uri(FaceId(made.face_id), &given);
            }
            Ok(made)
        }
    }
}

/// The addresses of `endpoint`, or the reason for none.
fn look_up(endpoint: &Endpoint) -> Result<Vec<SocketAddr>, String> {
    namely_host::lookup(endpoint).map_err(|error| match lookup_refusal() {
        Some(why) => format!("{error}: {why}"),
        None => error.to_string(),
    })
}

/// The address of `endpoint`. A host name is resolved, which may take long.
fn address(endpoint: Endpoint) -> Result<SocketAddr, CreateFaceError> {
    let addresses = look_up(&endpoint).map_err(CreateFaceError::Failed)?;
    addresses.first().copied().ok_or_else(|| CreateFaceError::Failed("the host has no address".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(uri: &str) -> Endpoint {
        match uri.parse() {
            Ok(FaceUri::Udp(endpoint)) => endpoint,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn face_creation_has_a_concurrency_limit() {
        let permits = Arc::new(Permits::default());
        let mut taken: Vec<Permit> = (0..FACES_IN_MAKING_MAX).map(|_| permits.acquire().unwrap()).collect();
        assert!(permits.acquire().is_none());
        taken.pop();
        assert!(permits.acquire().is_some(), "a refusal takes no permit");
    }

    #[test]
    fn lookups_use_the_requested_ip_version() {
        assert_eq!(address(endpoint("udp4://localhost:7")), Ok(([127, 0, 0, 1], 7).into()));
        assert_eq!(address(endpoint("udp://192.0.2.1:7")), Ok(([192, 0, 2, 1], 7).into()));
        let Err(CreateFaceError::Failed(why)) = address(endpoint("udp6://127.0.0.1.nip.invalid:7")) else {
            panic!()
        };
        assert!(why.contains("nip.invalid"), "{why}");
    }
}
