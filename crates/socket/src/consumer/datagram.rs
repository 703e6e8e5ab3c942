//! Datagrams: one Interest, one Data (HT-07, IS-21). Interests are not retransmitted. The first
//! datagram starts a thread that verifies answers. The results wait in a bounded queue until the
//! application receives them.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use namely_security::sha256;
use namely_transport::connection::{self, Answer};
use namely_transport::object::{Discovery, ObjectError, full_name};
use namely_wire::{ContentType, InterestBuilder, Name, PACKET_OCTETS_MAX};

use super::error::{RecvError, SendError};
use super::job::{FetchParams, Job};
use super::replies::{Received, Reply, ReplyTarget};
use super::role::Order;
use super::shared::Shared;
use crate::error::{CallError, FetchError};
use crate::namespace;

/// Datagrams of a consumer with answers that the application has not taken.
///
/// # Limit
/// A further datagram is refused with `ENOBUFS`.
/// - Tests: `open_datagrams_are_limited`
pub const DATAGRAMS_MAX: usize = 256;

/// Copies of an answer by a revoked key after which the Interest is sent again: this router's, and
/// that of a cache behind it.
const REVOKED_COPIES_MAX: u32 = 2;

/// A request of one Interest. Fields that are `None` have the values of the socket's options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datagram {
    /// The name, below the socket's prefix.
    pub name: Name,
    /// ApplicationParameters. Their digest is appended to the name. A socket that signs its
    /// datagrams (option `identity`) appends a digest even if there are no parameters.
    pub parameters: Option<Vec<u8>>,
    /// InterestLifetime: the time to wait for an answer.
    pub lifetime: Option<Duration>,
    /// Whether Data with a longer name may answer.
    pub can_be_prefix: Option<bool>,
    /// Whether stale Data is excluded; by default it is.
    pub must_be_fresh: Option<bool>,
}

impl Datagram {
    /// Creates an Interest for `name`.
    pub fn new(name: Name) -> Self {
        Datagram { name, ..Datagram::default() }
    }

    /// Returns the datagram with parameters.
    pub fn with_parameters(self, parameters: impl Into<Vec<u8>>) -> Self {
        Datagram { parameters: Some(parameters.into()), ..self }
    }
}

/// Sends `datagram`. The answer is delivered to `to`.
pub(super) fn send(shared: &Arc<Shared>, datagram: &Datagram, to: ReplyTarget) -> Result<(), SendError> {
    shared.engine.check_process()?;
    namespace::check_name(&shared.prefix, datagram.name.as_name())?;
    let wire = wire(shared, datagram, false)?;
    if wire.len() > PACKET_OCTETS_MAX {
        return Err(SendError::TooLong { octets: wire.len() });
    }
    start(shared)?;
    let datagrams = &shared.datagrams;
    let counted = datagrams.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |open| {
        (open < DATAGRAMS_MAX).then_some(open + 1)
    });
    if counted.is_err() {
        return Err(CallError::QueueFull.into());
    }
    let (datagram, owner) = (datagram.clone(), Arc::downgrade(shared));
    let deliver = Box::new(move |answer| {
        if let Some(shared) = owner.upgrade() {
            shared.datagrams.reply(Reply { datagram, answer, to });
        }
    });
    shared.engine.order(Order::Send { wire, deliver }).inspect_err(|_| datagrams.taken())?;
    shared.counts.datagrams_sent.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// Builds the Interest. `past_caches` excludes stale Data also where the datagram permits it.
fn wire(shared: &Shared, datagram: &Datagram, past_caches: bool) -> Result<Vec<u8>, SendError> {
    let options = shared.options();
    let lifetime_ms = datagram.lifetime.map(|lifetime| lifetime.as_millis() as u64);
    let mut interest = InterestBuilder::new(datagram.name.clone())
        .nonce(shared.nonce())
        .lifetime_ms(lifetime_ms.unwrap_or(options.read.lifetime_ms).max(1));
    if datagram.can_be_prefix.unwrap_or(options.can_be_prefix) {
        interest = interest.can_be_prefix();
    }
    if past_caches || datagram.must_be_fresh.unwrap_or(options.must_be_fresh) {
        interest = interest.must_be_fresh();
    }
    let parameters = datagram.parameters.as_ref();
    if let Some(signed) = shared.signed(&interest, parameters.map_or(&[], |parameters| &parameters[..])) {
        return Ok(signed?);
    }
    Ok(parameters
        .map_or_else(|| interest.build(), |parameters| interest.build_with_parameters(parameters, sha256)))
}

/// Starts the thread that verifies answers, unless it was started before.
fn start(shared: &Arc<Shared>) -> Result<(), CallError> {
    let mut replies = shared.datagrams.replies.lock().unwrap_or_else(PoisonError::into_inner);
    if !replies.started {
        shared.spawn(|shared| {
            while let Some(reply) = shared.datagrams.next() {
                finish(&shared, reply);
            }
        })?;
        replies.started = true;
    }
    Ok(())
}

fn finish(shared: &Shared, Reply { datagram, answer, to }: Reply) {
    let outcome = match answer {
        Ok(answer) => believe(shared, &datagram, answer).map_err(|error| match error {
            FetchError::Call(stopped) => RecvError::Call(stopped),
            error => RecvError::Failed { name: datagram.name, error: Box::new(error) },
        }),
        Err(stopped) => Err(RecvError::Call(stopped)),
    };
    shared.counts.datagrams_received.fetch_add(1, Ordering::Relaxed);
    match to {
        ReplyTarget::Inbox => shared.datagrams.inbox.put(outcome),
        ReplyTarget::Caller(promise) => {
            shared.datagrams.taken();
            promise.complete(outcome);
        }
    }
}

/// Verifies an answer. One that a revoked key signed may come from a cache, although the producer
/// has another key by now, so the Interest is sent again past the caches.
fn believe(shared: &Shared, datagram: &Datagram, answer: Answer) -> Result<Received, FetchError> {
    let name = &datagram.name;
    let params = FetchParams::of(&shared.options());
    let stopped = || shared.engine.is_closed().then_some(CallError::Closed);
    let mut job = Job::new(shared, params, &stopped);
    let mut reply = data_of(answer, name)?;
    let mut copies_left = REVOKED_COPIES_MAX;
    let data = loop {
        let wire = std::mem::take(&mut reply.wire);
        let data = job.requesting(|requester, verifier| {
            Discovery::new(requester, verifier, params.read).verified(wire)
        })?;
        shared.counts.signatures.fetch_add(1, Ordering::Relaxed);
        let Err(error) = job.check_revocation(data.reason()) else { break data };
        // The name of a signed Interest is unique, so its answer comes from no cache.
        let is_cached = matches!(error, FetchError::Revoked { .. }) && !shared.signs();
        if !is_cached || copies_left == 0 {
            return Err(error);
        }
        copies_left -= 1;
        job.report(Some(full_name(&data)))?;
        let Ok(wire) = self::wire(shared, datagram, true) else { return Err(error) };
        reply = match job.send(wire)? {
            Answer::Data(again) => again,
            Answer::Nack(_) | Answer::Timeout => return Err(error),
        };
    };
    // The Nack is verified, so it is the producer that denies the object (RDR).
    if data.content_type() == ContentType::Nack {
        return Err(ObjectError::NotFound { name: name.clone() }.into());
    }
    Ok(Received {
        name: data.name().to_name(),
        content: data.content().to_vec(),
        content_type: data.content_type(),
        signer: data.reason().key_name().cloned(),
        rtt: Duration::from_nanos(reply.rtt_ns),
    })
}

/// Returns the Data in `answer`.
fn data_of(answer: Answer, name: &Name) -> Result<connection::Reply, ObjectError> {
    match answer {
        Answer::Data(reply) => Ok(reply),
        Answer::Nack(reason) => Err(ObjectError::Refused { name: name.clone(), reason }),
        Answer::Timeout => Err(ObjectError::NoAnswer { name: name.clone() }),
    }
}
