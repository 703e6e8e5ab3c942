//! Detection of silence. After some time without data, the command reports the face that the router
//! forwards to, so that the user knows the neighbor that does not answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use namely_client::{Client, default_signer};
use namely_messages::FaceScope;
use namely_transport::connection::{Connection, Options};
use namely_wire::Name;

use crate::context::Context;
use crate::output::say;

/// Time without data after which the user is notified.
pub const SILENCE: Duration = Duration::from_secs(2);

/// Each report waits this many times as long as the one before. The face is looked up again for
/// each: the route may have moved to another neighbor.
const LONGER: u32 = 3;

/// Interval at which the silence is measured.
const LOOK: Duration = Duration::from_millis(100);

/// Maximum time for the router to report its faces.
const ASK: Duration = Duration::from_secs(2);

/// Watches for silence on a thread, which ends with this value.
#[derive(Debug)]
pub struct Silence {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// Time of the last data, in ms after the start.
    data_ms: AtomicU64,
    octets: AtomicU64,
    is_over: AtomicBool,
    is_bar: AtomicBool,
    /// The face that is silent, as text.
    face: Mutex<Option<String>>,
}

impl Silence {
    /// Watches while `name` is being fetched.
    pub fn watch(ctx: &Context<'_>, name: &Name) -> Self {
        let shared = Arc::new(Shared {
            started: Instant::now(),
            data_ms: AtomicU64::new(0),
            octets: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
            is_bar: AtomicBool::new(false),
            face: Mutex::new(None),
        });
        let silence = Silence { shared: shared.clone() };
        let (router, trusted) = (ctx.global.router.clone(), ctx.global.trusted());
        let (name, is_remarking) = (name.clone(), ctx.out.is_remarking());
        // Without the thread there is no notification, but the fetch continues.
        let _ = std::thread::Builder::new().name("silence".into()).spawn(move || {
            let mut reports = 0;
            while !shared.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                let silent = shared.silent_for();
                if silent < SILENCE {
                    reports = 0;
                    *shared.face() = None;
                } else if silent >= due(reports) {
                    reports += 1;
                    let face = query_face(router.as_deref(), &trusted, &name);
                    // The silence or the fetch may have ended during the query.
                    if shared.silent_for() < SILENCE || shared.is_over.load(Ordering::Relaxed) {
                        continue;
                    }
                    if is_remarking && !shared.is_bar.load(Ordering::Relaxed) {
                        shared.report(&name, face.as_ref());
                    }
                    *shared.face() = face.map(|(_, uri)| uri);
                }
            }
        });
        silence
    }

    /// Records the total of received octets.
    pub fn record(&self, octets: u64) {
        if self.shared.octets.swap(octets, Ordering::Relaxed) != octets {
            self.shared.record_time();
        }
    }

    /// Reports that a progress bar shows the silence, so that no remark is printed.
    pub fn has_bar(&self) {
        self.shared.is_bar.store(true, Ordering::Relaxed);
    }

    /// Returns the face that does not answer, if there is a silence and the router reported the
    /// face.
    pub fn face(&self) -> Option<String> {
        self.shared.face().clone()
    }
}

/// Returns the length of a silence from which on it is reported, after `reports` earlier reports.
fn due(reports: u32) -> Duration {
    SILENCE.saturating_mul(LONGER.saturating_pow(reports))
}

impl Drop for Silence {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn face(&self) -> std::sync::MutexGuard<'_, Option<String>> {
        self.face.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record_time(&self) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.data_ms.store(now_ms, Ordering::Relaxed);
    }

    fn silent_for(&self) -> Duration {
        self.started.elapsed().saturating_sub(Duration::from_millis(self.data_ms.load(Ordering::Relaxed)))
    }

    fn report(&self, name: &Name, face: Option<&(u64, String)>) {
        let seconds = self.silent_for().as_secs();
        match face {
            Some((id, uri)) => {
                say([
                    format!("no answer for {seconds} s to {name} from {uri}"),
                    format!("  hint: `namely face show {id}` shows whether packets arrive from there"),
                ]);
            }
            None => say(format!("no answer for {seconds} s to {name}")),
        }
    }
}

/// Returns the number and the remote address of the face that the router would forward `name` to.
fn query_face(router: Option<&str>, trusted: &str, name: &Name) -> Option<(u64, String)> {
    let options =
        Options { signer: default_signer(), trust_router_of: trusted.to_owned(), reconnect: Duration::ZERO };
    let queried_at = Instant::now();
    let mut client = Client::over(Connection::find(router, options).ok()?);
    let entries = client.fib().ok()?;
    let longest = entries.iter().filter(|entry| entry.prefix.is_prefix_of(name.as_name()));
    let entry = longest.max_by_key(|entry| entry.prefix.len())?;
    let id = entry.next_hops.iter().min_by_key(|next_hop| next_hop.cost)?.face_id;
    if queried_at.elapsed() > ASK {
        return None;
    }
    let faces = client.faces().ok()?;
    let face = faces.into_iter().find(|face| face.face_id == id)?;
    // The address of a local application's face does not identify the application to the user.
    let is_local = face.face_scope == FaceScope::Local;
    Some((id, if is_local { format!("an application of this host (face {id})") } else { face.uri }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_silence_is_reported_repeatedly() {
        assert_eq!([0, 1, 2, 3].map(|reports| due(reports).as_secs()), [2, 6, 18, 54]);
        assert!(due(u32::MAX) > Duration::from_secs(3600));
    }
}
