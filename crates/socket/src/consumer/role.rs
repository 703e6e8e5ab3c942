//! What a consumer's thread does: Interests as windows allow, single Interests, and what comes. It verifies nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use namely_transport::connection::{Answer, Connection, ConnectionError, Expression, Incoming, Outbox};
use namely_transport::object::backlog::Backlog;
use namely_transport::object::{Asking, Object, Part, ReadOptions};
use namely_wire::InterestBuilder;

use super::stats::Counts;
use crate::engine::Role;
use crate::error::{CallError, FetchError};

/// What becomes of an answer. Runs on the socket's thread, so it only passes it on.
pub(super) type Deliver = Box<dyn FnOnce(Result<Answer, CallError>) + Send>;

/// What is asked of it.
pub(super) enum Order {
    /// Ask for one packet, again and again for so many lifetimes.
    Express { interest: InterestBuilder, attempts: u32, deliver: Deliver },
    /// Send this Interest once.
    Send { wire: Vec<u8>, deliver: Deliver },
    /// Ask for the pieces of an object.
    Transfer { object: Box<Object>, part: Part, read: ReadOptions, backlog: Arc<Backlog<FetchError>> },
}

/// The state of a consumer's thread.
pub(super) struct ConsumerRole {
    counts: Arc<Counts>,
    expressions: Vec<(Expression, Deliver)>,
    transfers: Vec<Transfer>,
    epoch: u64,
    end: CallError,
}

/// An object that is being asked for.
struct Transfer {
    asking: Asking,
    backlog: Arc<Backlog<FetchError>>,
    fresh: Vec<(u64, Vec<u8>)>,
    /// Interests counted so far: all, and again.
    counted: (u64, u64),
}

impl ConsumerRole {
    pub(super) fn new(counts: Arc<Counts>) -> Self {
        ConsumerRole {
            counts,
            expressions: Vec::new(),
            transfers: Vec::new(),
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
        let counts = &self.counts;
        self.transfers.retain_mut(|transfer| {
            let goes_on = transfer.poll(connection, counts);
            due_ns = due_ns.min(if goes_on { transfer.asking.next_timeout_ns() } else { u64::MAX });
            goes_on
        });
        due_ns
    }
}

impl Transfer {
    /// Whether it goes on.
    fn poll(&mut self, connection: &mut Connection, counts: &Counts) -> bool {
        if self.backlog.is_closed() {
            return false;
        }
        if !self.fresh.is_empty() {
            self.backlog.add(&mut self.fresh);
        }
        self.asking.advance(self.backlog.handed());
        if let Some(news) = self.backlog.news() {
            if let Some(number) = news.corrupt {
                self.asking.on_corrupt(number);
            }
            if let Some(Err(error)) = news.last_segment.map(|last| self.asking.set_last_segment(last)) {
                self.backlog.end(error.into());
                return false;
            }
        }
        self.asking.expire(connection.now_ns());
        while let Some(number) = self.asking.lost_for_good() {
            self.backlog.give_up(number);
        }
        self.asking.ask(connection);
        self.count(counts);
        match self.asking.check() {
            Ok(()) => true,
            Err(error) => {
                self.backlog.end(error.into());
                false
            }
        }
    }

    fn count(&mut self, counts: &Counts) {
        let fetch = self.asking.counters();
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
            Order::Transfer { object, part, read, backlog } => {
                match Asking::new(&object, part, &read, now_ns) {
                    Ok(asking) => {
                        let counted = (0, 0);
                        self.transfers.push(Transfer { asking, backlog, fresh: Vec::new(), counted });
                    }
                    Err(error) => backlog.end(error.into()),
                }
            }
        }
    }

    fn poll(&mut self, connection: &mut Connection) -> u64 {
        if self.epoch != connection.epoch() {
            self.epoch = connection.epoch();
            let now_ns = connection.now_ns();
            self.transfers.iter_mut().for_each(|transfer| transfer.asking.on_reconnect(now_ns));
            self.expressions.iter_mut().for_each(|(expression, _)| expression.on_reconnect());
        }
        self.poll_expressions(connection).min(self.poll_transfers(connection))
    }

    fn take(&mut self, incoming: Incoming<'_>, _: &mut Outbox) {
        for transfer in &mut self.transfers {
            if let Some((number, data)) = transfer.asking.take(&incoming) {
                transfer.fresh.push((number, data.wire.to_vec()));
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

    fn close(self, _: &mut Connection) {}

    fn lost(mut self, _: ConnectionError) {
        self.end = CallError::RouterLost;
    }
}

impl Drop for ConsumerRole {
    /// Whoever waits is told.
    fn drop(&mut self) {
        for (_, deliver) in self.expressions.drain(..) {
            deliver(Err(self.end));
        }
        for transfer in &self.transfers {
            transfer.backlog.end(FetchError::Call(self.end));
        }
    }
}
