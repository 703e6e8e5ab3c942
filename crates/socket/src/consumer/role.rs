//! The role of a consumer's thread: it sends the Interests of transfers within their windows, sends
//! single Interests, and receives packets. It verifies nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_transport::connection::{Answer, Connection, ConnectionError, Expression, Incoming, Outbox};
use namely_transport::fetch::{RateLimit, Share};
use namely_transport::object::{Object, Part, ReadOptions, SegmentRequester};
use namely_wire::InterestBuilder;

use super::queue::VerifyQueue;
use super::stats::Counts;
use crate::engine::Role;
use crate::error::{CallError, FetchError};

/// Delivers an answer. Runs on the socket's thread, so it must only pass the answer on.
pub(super) type Deliver = Box<dyn FnOnce(Result<Answer, CallError>) + Send>;

/// Interval at which the progress of a transfer is recorded while no packets arrive.
const REPORT_NS: u64 = 50_000_000;

/// A request to the consumer's thread.
pub(super) enum Order {
    /// Request one packet, repeated for at most `attempts` lifetimes.
    Express { interest: InterestBuilder, attempts: u32, deliver: Deliver },
    /// Send this Interest once.
    Send { wire: Vec<u8>, deliver: Deliver },
    /// Request the pieces of parts of an object.
    Transfer { object: Box<Object>, parts: Vec<Part>, read: ReadOptions, queue: Arc<VerifyQueue<FetchError>> },
}

/// The operations in progress on one consumer.
pub(super) struct ConsumerRole {
    counts: Arc<Counts>,
    expressions: Vec<(Expression, Deliver)>,
    transfers: Vec<Transfer>,
    /// The limit of the rate of all transfers together.
    limit: RateLimit,
    epoch: u64,
    end: CallError,
}

/// An object that is being requested.
struct Transfer {
    requester: SegmentRequester,
    queue: Arc<VerifyQueue<FetchError>>,
    /// Pieces received in this round.
    fresh: Vec<(u64, Vec<u8>)>,
    /// Buffers for pieces that arrive later.
    spare: Vec<Vec<u8>>,
    report_at_ns: u64,
    /// Interests added to the counters so far: all, and the retransmissions among them.
    counted: (u64, u64),
}

impl ConsumerRole {
    pub(super) fn new(counts: Arc<Counts>) -> Self {
        ConsumerRole {
            counts,
            expressions: Vec::new(),
            transfers: Vec::new(),
            limit: RateLimit::default(),
            epoch: 0,
            end: CallError::Closed,
        }
    }

    fn poll_expressions(&mut self, connection: &mut Connection) -> u64 {
        let now_ns = connection.now_ns();
        let mut due_ns = u64::MAX;
        let mut i = 0;
        while i < self.expressions.len() {
            let (nonces, outbox) = connection.sending();
            match self.expressions[i].0.poll(now_ns, nonces, outbox) {
                None => {
                    due_ns = due_ns.min(self.expressions[i].0.due_ns());
                    i += 1;
                }
                Some(over) => {
                    let (_, deliver) = self.expressions.swap_remove(i);
                    deliver(Ok(over));
                }
            }
        }
        due_ns
    }

    fn poll_transfers(&mut self, connection: &mut Connection) -> u64 {
        let mut due_ns = u64::MAX;
        let (counts, limit) = (&self.counts, &mut self.limit);
        // At each round another transfer is the first to use the allowance.
        if limit.ready_ns() > 0 && self.transfers.len() > 1 {
            self.transfers.rotate_left(1);
        }
        let fetches = self.transfers.len() as u64;
        let mut octets: u64 = self.transfers.iter().map(|transfer| transfer.requester.octets()).sum();
        self.transfers.retain_mut(|transfer| {
            let others_octets = octets - transfer.requester.octets();
            transfer.requester.set_share(Share { fetches, others_octets });
            let goes_on = transfer.poll(connection, counts, limit);
            due_ns = due_ns.min(if goes_on { transfer.requester.next_timeout_ns() } else { u64::MAX });
            octets = others_octets + transfer.requester.octets();
            goes_on
        });
        due_ns
    }
}

impl Transfer {
    /// Sends the Interests that the window allows. Returns true if the transfer continues.
    fn poll(&mut self, connection: &mut Connection, counts: &Counts, limit: &mut RateLimit) -> bool {
        if self.queue.is_closed() {
            return false;
        }
        self.requester.advance(self.queue.handed());
        if let Some(news) = self.queue.news() {
            if let Some(number) = news.corrupt {
                self.requester.on_corrupt(number);
            }
            if let Some(Err(error)) = news.last_segment.map(|last| self.requester.set_last_segment(last)) {
                self.queue.end(error.into());
                return false;
            }
        }
        self.requester.expire(connection.now_ns());
        while let Some(number) = self.requester.lost_for_good() {
            self.queue.lose(number);
        }
        self.requester.send_interests(connection, limit);
        self.count(counts);
        let now_ns = connection.now_ns();
        if now_ns >= self.report_at_ns {
            self.report_at_ns = now_ns + REPORT_NS;
            self.queue.report(self.requester.progress(now_ns));
        }
        match self.requester.check() {
            Ok(()) => true,
            Err(error) => {
                self.queue.end(error.into());
                false
            }
        }
    }

    /// Hands over the pieces received in one round, under one lock.
    fn settle(&mut self, now_ns: u64) {
        if !self.fresh.is_empty() {
            let progress = self.requester.progress(now_ns);
            self.queue.add(&mut self.fresh, &mut self.spare, progress);
        }
    }

    fn count(&mut self, counts: &Counts) {
        let fetch = self.requester.counters();
        counts.interests.fetch_add(fetch.interests - self.counted.0, Ordering::Relaxed);
        counts.retransmissions.fetch_add(fetch.retransmissions - self.counted.1, Ordering::Relaxed);
        self.counted = (fetch.interests, fetch.retransmissions);
    }
}

impl Role for ConsumerRole {
    type Order = Order;

    fn order(&mut self, order: Order, connection: &mut Connection) {
        let now_ns = connection.now_ns();
        match order {
            Order::Express { interest, attempts, deliver } => {
                let wire = interest.clone().nonce(connection.nonces().next()).build();
                match Expression::repeated(wire, interest, attempts, now_ns) {
                    Ok(expression) => self.expressions.push((expression, deliver)),
                    Err(_) => deliver(Ok(Answer::Timeout)),
                }
            }
            Order::Send { wire, deliver } => match Expression::once(wire, now_ns) {
                Ok(expression) => self.expressions.push((expression, deliver)),
                Err(_) => deliver(Ok(Answer::Timeout)),
            },
            Order::Transfer { object, parts, read, queue } => {
                match SegmentRequester::new(&object, &parts, &read, now_ns) {
                    Ok(requester) => self.transfers.push(Transfer {
                        requester,
                        queue,
                        fresh: Vec::new(),
                        spare: Vec::new(),
                        report_at_ns: 0,
                        counted: (0, 0),
                    }),
                    Err(error) => queue.end(error.into()),
                }
            }
        }
    }

    fn poll(&mut self, connection: &mut Connection) -> u64 {
        if self.epoch != connection.epoch() {
            self.epoch = connection.epoch();
            let now_ns = connection.now_ns();
            self.transfers.iter_mut().for_each(|transfer| transfer.requester.on_reconnect(now_ns));
            self.expressions.iter_mut().for_each(|(expression, _)| expression.on_reconnect());
        }
        self.poll_expressions(connection).min(self.poll_transfers(connection))
    }

    fn take(&mut self, incoming: Incoming<'_>, _: &mut Outbox) {
        for transfer in &mut self.transfers {
            if let Some((number, data)) = transfer.requester.take(&incoming, &mut self.limit) {
                let mut packet = transfer.spare.pop().unwrap_or_default();
                packet.clear();
                packet.extend_from_slice(data.wire);
                transfer.fresh.push((number, packet));
            }
        }
        let mut i = 0;
        while i < self.expressions.len() {
            match self.expressions[i].0.take(&incoming) {
                None => i += 1,
                Some(answer) => {
                    let (_, deliver) = self.expressions.swap_remove(i);
                    deliver(Ok(answer));
                }
            }
        }
    }

    fn settle(&mut self, now_ns: u64) {
        self.transfers.iter_mut().for_each(|transfer| transfer.settle(now_ns));
    }

    fn is_idle(&mut self) -> bool {
        self.transfers.retain(|transfer| !transfer.queue.is_closed());
        self.transfers.is_empty() && self.expressions.is_empty()
    }

    fn close(self, _: &mut Connection) {}

    fn lost(mut self, _: ConnectionError) {
        self.end = CallError::RouterLost;
    }
}

impl Drop for ConsumerRole {
    /// Ends all operations in progress.
    fn drop(&mut self) {
        for (_, deliver) in self.expressions.drain(..) {
            deliver(Err(self.end));
        }
        for transfer in &self.transfers {
            transfer.queue.end(FetchError::Call(self.end));
        }
    }
}
