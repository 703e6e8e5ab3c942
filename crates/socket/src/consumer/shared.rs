//! State shared by the threads of one consumer.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namely_security::{CryptoError, Signer, TrustPolicy, Verifier, sign_interest};
use namely_transport::Nonces;
use namely_transport::connection::{Answer, ConnectionError};
use namely_transport::object::Express;
use namely_wire::{FaceUri, InterestBuilder, Name};

use super::helpers::Helpers;
use super::queue::LOOK;
use super::replies::Datagrams;
use super::revocation::Revocations;
use super::role::{ConsumerRole, Deliver, Order};
use super::stats::Counts;
use crate::engine::{DrivingCall, Engine};
use crate::error::CallError;
use crate::options::ConsumerOptions;
use crate::pending::call;

/// Fetches and streams in progress on one consumer, each with a thread.
///
/// A stream that restarts at another position may have two for a moment.
///
/// # Limit
/// A further one is refused with `ENOBUFS`.
/// - Tests: `fetches_over_the_limits_are_refused`
pub const FETCHES_MAX: usize = 64;

/// Maximum number of verifiers retained for later fetches. Each retains the certificates that it
/// has verified.
const VERIFIERS_MAX: usize = 8;

/// A consumer.
pub(super) struct Shared {
    pub(super) prefix: Name,
    pub(super) router: FaceUri,
    pub(super) options: Mutex<ConsumerOptions>,
    pub(super) engine: Engine<ConsumerRole>,
    pub(super) counts: Arc<Counts>,
    pub(super) datagrams: Datagrams,
    pub(super) revocations: Revocations,
    pub(super) helpers: Helpers,
    policy: TrustPolicy,
    verifiers: Mutex<Vec<Verifier>>,
    nonces: Mutex<Nonces>,
    /// The signer of datagrams, and the SignatureTime of the last datagram, ms.
    signing: Option<(Signer, Mutex<u64>)>,
    fetches: AtomicUsize,
}

impl Shared {
    pub(super) fn new(
        prefix: Name,
        router: FaceUri,
        options: ConsumerOptions,
        policy: TrustPolicy,
        signer: Option<Signer>,
        engine: Engine<ConsumerRole>,
        counts: Arc<Counts>,
    ) -> std::io::Result<Self> {
        Ok(Shared {
            prefix,
            router,
            options: Mutex::new(options),
            engine,
            counts,
            datagrams: Datagrams::new()?,
            revocations: Revocations::default(),
            helpers: Helpers::default(),
            policy,
            verifiers: Mutex::new(Vec::new()),
            nonces: Mutex::new(Nonces::from_system()?),
            signing: signer.map(|signer| (signer, Mutex::new(0))),
            fetches: AtomicUsize::new(0),
        })
    }

    /// Returns the signed Interest if the socket signs its datagrams. Each SignatureTime is later
    /// than the previous one, because verifiers require it.
    pub(super) fn signed(
        &self,
        interest: &InterestBuilder,
        parameters: &[u8],
    ) -> Option<Result<Vec<u8>, CryptoError>> {
        let (signer, last_ms) = self.signing.as_ref()?;
        let mut last_ms = last_ms.lock().unwrap_or_else(PoisonError::into_inner);
        *last_ms = namely_host::clock::unix_ms().max(*last_ms + 1);
        Some(sign_interest(interest, parameters, signer, *last_ms))
    }

    /// Returns true if the socket signs its datagrams. Each of them then has a unique name.
    pub(super) fn signs(&self) -> bool {
        self.signing.is_some()
    }

    pub(super) fn options(&self) -> MutexGuard<'_, ConsumerOptions> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Nonce of an Interest.
    pub(super) fn nonce(&self) -> [u8; 4] {
        self.nonces.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Returns a verifier, preferably one with certificates of earlier fetches.
    pub(super) fn verifier(&self) -> Verifier {
        let known = self.verifiers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        known.unwrap_or_else(|| Verifier::new(self.policy.clone()))
    }

    /// Retains a verifier for the next fetch.
    pub(super) fn keep(&self, verifier: Verifier) {
        let mut verifiers = self.verifiers.lock().unwrap_or_else(PoisonError::into_inner);
        if verifiers.len() < VERIFIERS_MAX {
            verifiers.push(verifier);
        }
    }

    /// Runs `job` on a thread of its own. The job counts as in progress until it drops its slot.
    pub(super) fn spawn(
        self: &Arc<Self>,
        job: impl FnOnce(FetchSlot) + Send + 'static,
    ) -> Result<(), CallError> {
        self.spawn_within(FETCHES_MAX, job)
    }

    /// As `spawn`, with twice the limit, because the thread replaces one that is about to end.
    pub(super) fn spawn_instead(
        self: &Arc<Self>,
        job: impl FnOnce(FetchSlot) + Send + 'static,
    ) -> Result<(), CallError> {
        self.spawn_within(2 * FETCHES_MAX, job)
    }

    fn spawn_within(
        self: &Arc<Self>,
        max: usize,
        job: impl FnOnce(FetchSlot) + Send + 'static,
    ) -> Result<(), CallError> {
        let taken = self.fetches.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |fetches| {
            (fetches < max).then_some(fetches + 1)
        });
        if taken.is_err() {
            return Err(CallError::QueueFull);
        }
        let slot = FetchSlot(self.clone());
        let thread = std::thread::Builder::new().name("namely-fetch".into()).spawn(move || job(slot));
        thread.map(drop).map_err(|error| CallError::from_io(&error))
    }
}

/// One of the [`FETCHES_MAX`] fetches that may be in progress, until it is dropped.
pub(super) struct FetchSlot(Arc<Shared>);

impl std::ops::Deref for FetchSlot {
    type Target = Arc<Shared>;

    fn deref(&self) -> &Arc<Shared> {
        &self.0
    }
}

impl Drop for FetchSlot {
    fn drop(&mut self) {
        self.0.fetches.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Requests single packets for a thread that may block. Either another thread drives the socket, or
/// this thread does.
pub(super) struct PacketRequester<'s, 'a> {
    pub(super) shared: &'s Shared,
    pub(super) stopped: &'s dyn Fn() -> Option<CallError>,
    pub(super) here: Option<&'s mut DrivingCall<'a, ConsumerRole>>,
    /// The reason why it requests no more packets.
    pub(super) failed: Option<CallError>,
}

impl PacketRequester<'_, '_> {
    /// Sends the Interest `wire` once, and waits for its answer.
    pub(super) fn send(&mut self, wire: Vec<u8>) -> Result<Answer, CallError> {
        self.request(|deliver| Order::Send { wire, deliver })
    }

    fn request(&mut self, order: impl FnOnce(Deliver) -> Order) -> Result<Answer, CallError> {
        let (promise, mut pending) = call::<Result<Answer, CallError>>();
        self.shared.engine.order(order(Box::new(|answer| promise.complete(answer))))?;
        loop {
            let answer = match &mut self.here {
                Some(here) => {
                    here.turn(LOOK)?;
                    pending.try_take()
                }
                None => pending.wait(Some(LOOK)),
            };
            match answer {
                Err(CallError::WouldBlock | CallError::TimedOut | CallError::Interrupted) => {
                    if let Some(why) = (self.stopped)() {
                        return Err(why);
                    }
                }
                ended => return ended,
            }
        }
    }
}

impl Express for PacketRequester<'_, '_> {
    fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError> {
        let interest = interest.clone();
        self.request(|deliver| Order::Express { interest, attempts, deliver }).map_err(|failed| {
            self.failed = Some(failed);
            ConnectionError::Lost { uri: self.shared.router.clone(), after: Duration::ZERO }
        })
    }
}
