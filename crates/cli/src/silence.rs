//! Who is waited for: when nothing has come for a while, the face that the router asks is named, so
//! that a person knows which neighbour is silent.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use namely_client::{Client, default_signer};
use namely_transport::connection::{Connection, Options};
use namely_wire::Name;
use namely_wire::mgmt::FaceScope;

use crate::context::Context;
use crate::output::say;

/// After so long without anything the person is told.
pub const SILENCE: Duration = Duration::from_secs(2);

/// How often the silence is measured.
const LOOK: Duration = Duration::from_millis(100);

/// How long the router may take to tell its faces.
const ASK: Duration = Duration::from_secs(2);

/// Watches for silence, on a thread of its own that ends with it.
#[derive(Debug)]
pub struct Silence {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    started: Instant,
    /// When something came last, ms after the start.
    heard_ms: AtomicU64,
    octets: AtomicU64,
    is_over: AtomicBool,
    is_bar: AtomicBool,
    /// The face that is silent, as text.
    face: Mutex<Option<String>>,
}

impl Silence {
    /// Watches while `name` is asked for.
    pub fn watch(ctx: &Context<'_>, name: &Name) -> Self {
        let shared = Arc::new(Shared {
            started: Instant::now(),
            heard_ms: AtomicU64::new(0),
            octets: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
            is_bar: AtomicBool::new(false),
            face: Mutex::new(None),
        });
        let silence = Silence { shared: shared.clone() };
        let (router, trusted) = (ctx.global.router.clone(), ctx.global.trusted());
        let (name, says) = (name.clone(), ctx.out.is_remarking());
        // Without the thread nobody is told, and everything else goes on.
        let _ = std::thread::Builder::new().name("silence".into()).spawn(move || {
            let mut is_told = false;
            while !shared.is_over.load(Ordering::Relaxed) {
                std::thread::sleep(LOOK);
                if shared.silent_for() < SILENCE {
                    is_told = false;
                    *shared.face() = None;
                } else if !std::mem::replace(&mut is_told, true) {
                    let face = asked_face(router.as_deref(), &trusted, &name);
                    if shared.silent_for() < SILENCE || shared.is_over.load(Ordering::Relaxed) {
                        continue;
                    }
                    if says && !shared.is_bar.load(Ordering::Relaxed) {
                        shared.say(&name, face.as_ref());
                    }
                    *shared.face() = face.map(|(_, uri)| uri);
                }
            }
        });
        silence
    }

    /// So many octets have come.
    pub fn heard(&self, octets: u64) {
        if self.shared.octets.swap(octets, Ordering::Relaxed) != octets {
            self.shared.hear();
        }
    }

    /// There is a progress bar, which tells of the silence from now on.
    pub fn has_bar(&self) {
        self.shared.is_bar.store(true, Ordering::Relaxed);
    }

    /// Where what does not come is asked for, if it does not come and the router told.
    pub fn face(&self) -> Option<String> {
        self.shared.face().clone()
    }
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

    fn hear(&self) {
        let now_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard_ms.store(now_ms, Ordering::Relaxed);
    }

    fn silent_for(&self) -> Duration {
        self.started.elapsed().saturating_sub(Duration::from_millis(self.heard_ms.load(Ordering::Relaxed)))
    }

    fn say(&self, name: &Name, face: Option<&(u64, String)>) {
        let seconds = self.silent_for().as_secs();
        match face {
            Some((id, uri)) => {
                say([
                    format!("no answer for {seconds} s to {name} from {uri}"),
                    format!("  hint: `namely face show {id}` tells whether anything comes from there"),
                ]);
            }
            None => say(format!("no answer for {seconds} s to {name}")),
        }
    }
}

/// The face that the router would send an Interest for `name` to: its number and remote address.
fn asked_face(router: Option<&str>, trusted: &str, name: &Name) -> Option<(u64, String)> {
    let options =
        Options { signer: default_signer(), trust_router_of: trusted.to_owned(), reconnect: Duration::ZERO };
    let asked = Instant::now();
    let mut client = Client::over(Connection::find(router, options).ok()?);
    let entries = client.fib().ok()?;
    let longest = entries.iter().filter(|entry| entry.prefix.is_prefix_of(name.as_name()));
    let entry = longest.max_by_key(|entry| entry.prefix.len())?;
    let id = entry.next_hops.iter().min_by_key(|next_hop| next_hop.cost)?.face_id;
    if asked.elapsed() > ASK {
        return None;
    }
    let faces = client.faces().ok()?;
    let face = faces.into_iter().find(|face| face.face_id == id)?;
    // The address of an application of this host says nothing.
    let is_local = face.face_scope == FaceScope::Local;
    Some((id, if is_local { format!("an application of this host (face {id})") } else { face.uri }))
}
