//! State shared by a producer's threads: the output buffer, the waiting Interests, and the outgoing
//! answers.
//!
//! One lock protects both the buffer and the table of waiting Interests. An Interest that arrives
//! while its Data is being published is therefore answered either from the buffer or by the
//! publication.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Instant;

use namely_security::{Certificate, Signer, has_right_parameters_digest, is_about_revocation};
use namely_transport::connection::{self, Connection, Incoming, OUTBOX_OCTETS_MAX, Outbox, Waker};
use namely_wire::{
    CACHE_POLICY_NO_CACHE, InterestView, LpHeaders, NackReason, Name, NameRef, PACKET_OCTETS_MAX,
};

use super::announcing::Announcing;
use super::jobs::{Job, Jobs};
use super::misses::{AddOutcome, Misses, Ticket};
use super::push_interest::is_push;
use crate::buffer::{Buffer, BufferedPacket, Packet, is_answer};
use crate::error::CallError;
use crate::options::ProducerOptions;
use crate::readiness::Readiness;
use crate::session;
use namely_store::Store;

/// Counters of the Interests of a producer (`docs/counters.md`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerStats {
    /// Interests received.
    pub interests: u64,
    /// Interests answered from memory.
    pub hits_memory: u64,
    /// Interests answered from the store.
    pub hits_disk: u64,
    /// Certificates sent, and statements about them.
    pub certificates: u64,
    /// Renewals of the session's certificates before those of the identity ended.
    pub renewals: u64,
    /// Checks in which the key chain had no newer certificate of the identity.
    pub renewals_missing: u64,
    /// Interests without a published answer.
    pub misses: u64,
    /// Misses answered by a later publication or reply.
    pub answered_late: u64,
    /// Misses that the application refused.
    pub refused: u64,
    /// Wake-ups of an application's thread for a miss; hits cause none.
    pub wakeups: u64,
    /// Interests dropped: outside the prefix, with an unknown digest, or with parameters that do
    /// not match their digest.
    pub dropped_unanswerable: u64,
    /// Interests refused with congestion: `requests_max` names wait already.
    pub dropped_requests_full: u64,
    /// Misses that expired before the application took them.
    pub dropped_requests_expired: u64,
    /// Interests dropped because the queue of reads from the store (1024) is full.
    pub dropped_reads_full: u64,
    /// Packets of the store that are damaged or cannot be read.
    pub dropped_damaged: u64,
    /// Octets truncated from the store's end when it was opened, because the last process ended
    /// during a write.
    pub dropped_torn_octets: u64,
    /// Packets evicted from memory. Without a store they are lost.
    pub evicted: u64,
    /// Packets evicted with the oldest part of the store of an unreliable producer.
    pub evicted_disk: u64,
    /// Octets of packets in memory.
    pub memory_octets: u64,
    /// Octets of the store.
    pub store_octets: u64,
    /// Packets in memory or in the store.
    pub packets: u64,
    /// Names that wait for the application.
    pub pending: u64,
}

impl ProducerStats {
    /// Every counter with its name, in the order of the documentation, for bindings.
    pub fn list(&self) -> Vec<(&'static str, u64)> {
        macro_rules! list {
            ($($name:ident),* $(,)?) => {{
                let ProducerStats { $($name),* } = *self;
                vec![$((stringify!($name), $name)),*]
            }};
        }
        list!(
            interests,
            hits_memory,
            hits_disk,
            certificates,
            renewals,
            renewals_missing,
            misses,
            answered_late,
            refused,
            wakeups,
            dropped_unanswerable,
            dropped_requests_full,
            dropped_requests_expired,
            dropped_reads_full,
            dropped_damaged,
            dropped_torn_octets,
            evicted,
            evicted_disk,
            memory_octets,
            store_octets,
            packets,
            pending
        )
    }
}

/// The state of one producer, which its threads share.
pub(super) struct Shared {
    pub(super) prefix: Name,
    state: Mutex<ProducerState>,
    /// None without a store, and after the socket was closed.
    pub(super) store: Mutex<Option<Store>>,
    pub(super) evicts: bool,
    pub(super) announcing: Announcing,
    waker: Waker,
    jobs: Jobs,
    /// Readable while a miss waits for the application.
    ready_fd: OwnedFd,
    /// The largest packet that reaches the router in one piece, octets.
    pub(super) path_octets: AtomicUsize,
    started: Instant,
}

pub(super) struct ProducerState {
    pub(super) buffer: Buffer,
    /// Certificates, the newest of each key first. They do not count against any limit of the
    /// buffer.
    fixed: Vec<(Certificate, Packet)>,
    /// The new signer of commands, if it changed.
    identity: Option<Signer>,
    misses: Misses,
    pushes: Misses,
    answers: VecDeque<(LpHeaders, Packet)>,
    /// The wakers of calls that wait for a miss, by the number of the call.
    receivers: BTreeMap<u64, std::task::Waker>,
    calls: u64,
    ended: Option<CallError>,
    /// Whether a miss waits for the application.
    ready: Readiness,
    pending_ns: Option<u64>,
    stats: ProducerStats,
}

/// Octets that NDNLPv2 adds to an answer: the LpPacket header, a PIT token of 32 octets, and a
/// congestion mark.
const LINK_HEADER_OCTETS: usize = 48;

/// A miss for the application: its ticket and the Interest.
pub(super) type PendingMiss = (Ticket, Arc<[u8]>);

/// The kind of misses that an application waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    Requests,
    Pushes,
}

impl Shared {
    pub(super) fn new(
        prefix: Name,
        options: &ProducerOptions,
        buffer: Buffer,
        store: Option<Store>,
        waker: Waker,
        jobs: Jobs,
    ) -> std::io::Result<Self> {
        let ready = Readiness::new()?;
        let ready_fd = ready.duplicate()?;
        let mut state = ProducerState {
            buffer,
            fixed: Vec::new(),
            identity: None,
            misses: Misses::new(options.requests_max),
            pushes: Misses::new(options.requests_max),
            answers: VecDeque::new(),
            receivers: BTreeMap::new(),
            calls: 0,
            ended: None,
            ready,
            pending_ns: options.pending_ms.map(|ms| ms.saturating_mul(1_000_000)),
            stats: ProducerStats::default(),
        };
        let (dropped_damaged, dropped_torn_octets) = store.as_ref().map_or((0, 0), Store::losses);
        state.stats = ProducerStats { dropped_damaged, dropped_torn_octets, ..ProducerStats::default() };
        Ok(Shared {
            prefix,
            state: Mutex::new(state),
            store: Mutex::new(store),
            evicts: !options.reliable,
            announcing: Announcing::default(),
            waker,
            jobs,
            ready_fd,
            path_octets: AtomicUsize::new(0),
            started: Instant::now(),
        })
    }

    /// Records the largest packet of the path to the router.
    pub(super) fn follow_path(&self, connection: &Connection) {
        let frame_octets_max = connection.frame_octets_max().unwrap_or(usize::MAX);
        let octets = (frame_octets_max - LINK_HEADER_OCTETS).min(PACKET_OCTETS_MAX);
        self.path_octets.store(octets, Ordering::Relaxed);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, ProducerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn store(&self) -> MutexGuard<'_, Option<Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The clock by which packets expire.
    pub(super) fn now_ns(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub(super) fn ready_fd(&self) -> BorrowedFd<'_> {
        self.ready_fd.as_fd()
    }

    /// Replaces the certificates that the socket serves by `certificates`, the newest of each key
    /// first.
    pub(super) fn fix(&self, certificates: &[Certificate]) {
        let mut state = self.state();
        if !state.fixed.iter().map(|(known, _)| known.name()).eq(certificates.iter().map(Certificate::name)) {
            let fixed =
                |certificate: &Certificate| (certificate.clone(), Arc::new(certificate.wire().to_vec()));
            state.fixed = certificates.iter().map(fixed).collect();
        }
    }

    /// Makes the socket's thread sign commands with `signer`.
    pub(super) fn follow_identity(&self, signer: Signer) {
        self.announcing.follow(&self.prefix, &signer);
        self.state().identity = Some(signer);
        self.waker.wake();
    }

    /// Takes the new signer of commands, if it changed.
    pub(super) fn take_identity(&self) -> Option<Signer> {
        self.state().identity.take()
    }

    /// The names of the keys with certificates on this socket.
    pub(super) fn key_names(&self) -> Vec<Name> {
        self.state().fixed.iter().map(|(certificate, _)| certificate.key_name().to_name()).collect()
    }

    /// Processes a received packet if it is an Interest.
    pub(super) fn take_incoming(&self, incoming: &Incoming<'_>, outbox: &mut Outbox) {
        if let connection::Packet::Interest(interest) = &incoming.packet {
            self.take(interest, incoming, outbox);
        }
    }

    /// Processes an Interest on the socket's thread.
    pub(super) fn take(&self, interest: &InterestView<'_>, incoming: &Incoming<'_>, outbox: &mut Outbox) {
        let headers = incoming.answer_headers();
        let mut state = self.state();
        state.stats.interests += 1;
        if let Some((certificate, packet)) = state.certificate(interest) {
            // A cached copy must not outlive the certificate.
            let is_cacheable = session::is_cacheable(certificate);
            let cache_policy = if is_cacheable { headers.cache_policy } else { Some(CACHE_POLICY_NO_CACHE) };
            outbox.send(&LpHeaders { cache_policy, ..headers }, packet);
            state.stats.certificates += 1;
            return;
        }
        if is_about_revocation(interest.name, self.prefix.as_name()) {
            let job = Job::Statement { interest: interest.wire.into(), headers };
            return self.hand_over(&mut state, job);
        }
        let now_ns = if interest.must_be_fresh { self.now_ns() } else { 0 };
        match state.buffer.find(interest, now_ns) {
            Some(BufferedPacket::Memory(packet)) => {
                state.stats.hits_memory += 1;
                drop(state);
                self.announcing.send(outbox, &headers, &packet);
            }
            Some(BufferedPacket::Disk(location)) => {
                let job = Job::Read { location, interest: interest.wire.into(), headers };
                self.hand_over(&mut state, job);
            }
            None => {
                let wakers = self.miss(&mut state, interest, headers, incoming.received_ns, outbox);
                // Wakers run application code, so they are called after the lock is released.
                drop(state);
                wakers.into_values().for_each(std::task::Waker::wake);
            }
        }
    }

    fn hand_over(&self, state: &mut ProducerState, job: Job) {
        if !self.jobs.hand_over(job) {
            state.stats.dropped_reads_full += 1;
        }
    }

    /// Adds `interest` to the misses. Returns the wakers to call.
    fn miss(
        &self,
        state: &mut ProducerState,
        interest: &InterestView<'_>,
        headers: LpHeaders,
        now_ns: u64,
        outbox: &mut Outbox,
    ) -> BTreeMap<u64, std::task::Waker> {
        state.stats.misses += 1;
        let has_parameters = interest.application_parameters.is_some();
        if !self.prefix.is_prefix_of(interest.name)
            || interest.implicit_digest().is_some()
            || (has_parameters && !has_right_parameters_digest(interest))
        {
            state.stats.dropped_unanswerable += 1;
            return BTreeMap::new();
        }
        let lifetime_ns = interest.lifetime_or_default_ms().saturating_mul(1_000_000);
        let until_ns = now_ns.saturating_add(state.pending_ns.unwrap_or(u64::MAX).min(lifetime_ns));
        let queue =
            if is_push(interest, self.prefix.as_name()) { &mut state.pushes } else { &mut state.misses };
        match queue.add(interest, headers, until_ns) {
            AddOutcome::New => {
                state.ready.set(true);
                state.stats.wakeups += state.receivers.len() as u64;
                return std::mem::take(&mut state.receivers);
            }
            AddOutcome::Joined => {}
            AddOutcome::Full => {
                state.stats.dropped_requests_full += 1;
                outbox.send(&refusal(headers, NackReason::Congestion), interest.wire);
            }
        }
        BTreeMap::new()
    }

    /// Returns the next miss of `queue`. If there is none and a `context` is given, the next miss
    /// wakes its task. `call` is the number of the waiting call, until [`Shared::forget`].
    pub(super) fn poll_miss(
        &self,
        queue: Queue,
        call: &mut Option<u64>,
        context: Option<&Context<'_>>,
    ) -> Poll<Result<PendingMiss, CallError>> {
        let mut state = self.state();
        if let Some(ended) = state.ended {
            return Poll::Ready(Err(ended));
        }
        let found = match queue {
            Queue::Requests => state.misses.take(),
            Queue::Pushes => state.pushes.take(),
        };
        self.clear_ready(&mut state);
        if let Some(found) = found {
            return Poll::Ready(Ok(found));
        }
        if let Some(context) = context {
            state.calls += 1;
            let call = *call.get_or_insert(state.calls);
            state.receivers.insert(call, context.waker().clone());
        }
        Poll::Pending
    }

    /// Removes the waiting call.
    pub(super) fn forget(&self, call: u64) {
        self.state().receivers.remove(&call);
    }

    /// Makes the descriptor unreadable if no miss waits.
    fn clear_ready(&self, state: &mut ProducerState) {
        if !state.misses.is_waiting() && !state.pushes.is_waiting() {
            state.ready.set(false);
        }
    }

    /// Adds packets to the buffer, each with its location on disk if it has one, and answers the
    /// waiting Interests.
    pub(super) fn insert<'a>(
        &self,
        packets: impl Iterator<Item = (NameRef<'a>, Packet, Option<namely_store::Location>)>,
    ) {
        let mut state = self.state();
        let mut late = 0;
        for (name, packet, location) in packets {
            let ProducerState { misses, pushes, answers, .. } = &mut *state;
            for queue in [misses, pushes] {
                queue.satisfy(name, &mut |headers| {
                    late += 1;
                    answers.push_back((headers, packet.clone()));
                });
            }
            state.buffer.insert(name, packet, location);
        }
        state.stats.answered_late += late;
        if late > 0 {
            self.clear_ready(&mut state);
        }
        drop(state);
        if late > 0 {
            self.waker.wake();
        }
    }

    /// Queues `packet` as the answer to the Interest with `headers`. The caller is not the socket's
    /// thread.
    pub(super) fn answer(&self, headers: LpHeaders, packet: Packet, count: impl FnOnce(&mut ProducerStats)) {
        let mut state = self.state();
        count(&mut state.stats);
        state.answers.push_back((headers, packet));
        drop(state);
        self.waker.wake();
    }

    /// Releases the miss `ticket`. Its waiting Interests receive a Nack if there is a `reason`.
    pub(super) fn release(&self, ticket: &Ticket, interest: &Arc<[u8]>, reason: Option<NackReason>) {
        let mut state = self.state();
        let mut waiters = state.misses.release(ticket);
        waiters.extend(state.pushes.release(ticket));
        let Some(reason) = reason else { return };
        state.stats.refused += waiters.len() as u64;
        let wire: Packet = Arc::new(interest.to_vec());
        state.answers.extend(waiters.into_iter().map(|headers| (refusal(headers, reason), wire.clone())));
        drop(state);
        self.waker.wake();
    }

    /// Removes expired misses, and moves the answers of other threads to `outbox`. Returns the time
    /// of the next check for expired misses.
    pub(super) fn poll(&self, now_ns: u64, outbox: &mut Outbox) -> u64 {
        let mut state = self.state();
        let expired = state.misses.expire(now_ns) + state.pushes.expire(now_ns);
        state.stats.dropped_requests_expired += expired;
        if expired > 0 {
            self.clear_ready(&mut state);
        }
        while outbox.len() < OUTBOX_OCTETS_MAX
            && let Some((headers, packet)) = state.answers.pop_front()
        {
            self.announcing.send(outbox, &headers, &packet);
        }
        state.misses.due_ns().min(state.pushes.due_ns())
    }

    /// Ends the socket. Calls that wait for a miss return `error`, and the store is closed.
    pub(super) fn end(&self, error: CallError) {
        let mut state = self.state();
        state.ended.get_or_insert(error);
        state.ready.set(true);
        let receivers = std::mem::take(&mut state.receivers);
        drop(state);
        receivers.into_values().for_each(std::task::Waker::wake);
        self.jobs.close();
        *self.store() = None;
    }

    /// Returns an error if the socket has ended.
    pub(super) fn check_open(&self) -> Result<(), CallError> {
        self.state().ended.map_or(Ok(()), Err)
    }

    pub(super) fn count(&self, count: impl FnOnce(&mut ProducerStats)) {
        count(&mut self.state().stats);
    }

    pub(super) fn stats(&self) -> ProducerStats {
        let store_octets = self.store().as_ref().map_or(0, Store::octets);
        let state = self.state();
        ProducerStats {
            evicted: state.buffer.evicted(),
            memory_octets: state.buffer.octets() as u64,
            packets: state.buffer.len() as u64,
            pending: (state.misses.len() + state.pushes.len()) as u64,
            store_octets,
            ..state.stats
        }
    }
}

impl ProducerState {
    /// Returns the newest certificate that answers `interest`, by its name or its key's name. An
    /// Interest whose name is not longer than the identity's does not request a certificate.
    fn certificate(&self, interest: &InterestView<'_>) -> Option<&(Certificate, Packet)> {
        let name = match interest.implicit_digest() {
            Some(_) => interest.name.without_last(1),
            None => interest.name,
        };
        let is_meant = |(certificate, packet): &&(Certificate, Packet)| {
            name.is_prefix_of(certificate.name())
                && name.len() > certificate.identity().len()
                && is_answer(interest, packet)
        };
        self.fixed.iter().find(is_meant)
    }
}

/// The headers of a Nack.
fn refusal(headers: LpHeaders, reason: NackReason) -> LpHeaders {
    LpHeaders { nack: Some(reason), ..headers }
}
