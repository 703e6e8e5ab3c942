//! Expresses one Interest and waits for its answer.

use namely_wire::{DataView, DecodeError, InterestBuilder, InterestView, LpHeaders, NackReason};

use super::incoming::{Incoming, Packet};
use super::outbox::Outbox;
use super::{Connection, ConnectionError};
use crate::matching::answers;
use crate::nonce::Nonces;

/// The result of an Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A matching Data. It is not verified.
    Data(Reply),
    /// The router refused the Interest.
    Nack(NackReason),
    /// No answer arrived within the Interest's lifetime.
    Timeout,
}

/// A Data and its link headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The packet: a valid Data.
    pub wire: Vec<u8>,
    /// Its link headers.
    pub headers: LpHeaders,
    /// Time from sending the Interest to receiving the Data.
    pub rtt_ns: u64,
}

/// Time before a repeated Interest is retransmitted for the first time, ms; it doubles after each
/// retransmission.
pub const REPEAT_MS: u64 = 500;

/// One Interest in progress, without I/O: it is sent, retransmitted if allowed, and ends at its
/// deadline.
#[derive(Debug)]
pub struct Expression {
    wire: Vec<u8>,
    /// The Interest to retransmit with new Nonces; none: it is not retransmitted.
    again: Option<InterestBuilder>,
    deadline_ns: u64,
    sent_ns: u64,
    pause_ns: u64,
    to_send: bool,
    /// Whether a router refused it for congestion.
    is_congested: bool,
}

impl Expression {
    /// Sends the Interest `wire` once and waits for its lifetime.
    ///
    /// # Errors
    /// `wire` is no Interest.
    pub fn once(wire: Vec<u8>, now_ns: u64) -> Result<Self, DecodeError> {
        Self::new(wire, None, 1, now_ns)
    }

    /// Sends `wire`, which is `interest` with a Nonce, and waits for `attempts` lifetimes. It is
    /// retransmitted after half a second, a second, and so on, with new Nonces. A Nack for
    /// congestion or a duplicate does not end it.
    ///
    /// # Errors
    /// `wire` is no Interest.
    pub fn repeated(
        wire: Vec<u8>,
        interest: InterestBuilder,
        attempts: u32,
        now_ns: u64,
    ) -> Result<Self, DecodeError> {
        Self::new(wire, Some(interest), attempts.max(1), now_ns)
    }

    fn new(
        wire: Vec<u8>,
        again: Option<InterestBuilder>,
        lifetimes: u32,
        now_ns: u64,
    ) -> Result<Self, DecodeError> {
        let lifetime_ns = InterestView::parse(&wire)?.lifetime_or_default_ms().saturating_mul(1_000_000);
        // The lifetime comes from the packet and may be any number.
        let deadline_ns = now_ns.saturating_add(lifetime_ns.saturating_mul(u64::from(lifetimes)));
        // Routers remove the PIT entry after the lifetime, so an Interest with a shorter lifetime
        // is retransmitted when that ends.
        let pause_ns = (REPEAT_MS * 1_000_000).min(lifetime_ns);
        Ok(Expression {
            wire,
            again,
            deadline_ns,
            sent_ns: now_ns,
            pause_ns,
            to_send: true,
            is_congested: false,
        })
    }

    /// Sends the Interest if it is due. After the deadline it returns [`Answer::Timeout`], or a
    /// Nack for congestion if a router sent one.
    pub fn poll(&mut self, now_ns: u64, nonces: &mut Nonces, outbox: &mut Outbox) -> Option<Answer> {
        if now_ns >= self.deadline_ns {
            return Some(match self.is_congested {
                true => Answer::Nack(NackReason::Congestion),
                false => Answer::Timeout,
            });
        }
        if let Some(interest) = &self.again
            && now_ns >= self.sent_ns.saturating_add(self.pause_ns)
        {
            self.pause_ns = self.pause_ns.saturating_mul(2);
            // With the same Nonce, routers would drop it as a duplicate.
            self.wire = interest.clone().nonce(nonces.next()).build();
            self.to_send = true;
        }
        if std::mem::take(&mut self.to_send) {
            self.sent_ns = now_ns;
            outbox.send(&LpHeaders::default(), &self.wire);
        }
        None
    }

    /// The time of the next [`Expression::poll`], if no packet arrives before.
    pub fn due_ns(&self) -> u64 {
        let repeat_ns =
            if self.again.is_some() { self.sent_ns.saturating_add(self.pause_ns) } else { u64::MAX };
        repeat_ns.min(self.deadline_ns)
    }

    /// Sends the Interest again after a reconnection, because outstanding Interests are lost.
    pub fn on_reconnect(&mut self) {
        self.to_send = true;
    }

    /// Returns the answer in `incoming`, if it is one.
    pub fn take(&mut self, incoming: &Incoming<'_>) -> Option<Answer> {
        // `new` has parsed it, so this does not fail.
        let interest = InterestView::parse(&self.wire).ok()?;
        if let Packet::Nack(refused, NackReason::Congestion) = incoming.packet {
            // A repeated Interest may still be answered, so the Nack is reported at the deadline
            // only.
            self.is_congested |= self.again.is_some() && refused.name == interest.name;
        }
        match taken(&interest, incoming, self.again.is_some())? {
            Answer::Data(reply) => {
                let rtt_ns = incoming.received_ns.saturating_sub(self.sent_ns);
                Some(Answer::Data(Reply { rtt_ns, ..reply }))
            }
            other => Some(other),
        }
    }
}

impl Connection {
    /// Sends `interest` with a new Nonce and waits for its answer, at most its lifetime. Other
    /// packets that arrive meanwhile are dropped, so it is for clients that only send requests.
    ///
    /// # Errors
    /// [`ConnectionError`]: the router is gone. A Nack and a timeout are answers.
    pub fn express(&mut self, interest: &InterestBuilder) -> Result<Answer, ConnectionError> {
        let expression = Expression::once(self.fresh(interest), self.now_ns());
        self.exchange_one(expression, &mut |_, _| {})
    }

    /// [`Connection::express`] for `attempts` times the Interest's lifetime. The Interest is
    /// retransmitted after half a second, a second, and so on, each time with a new Nonce. A Nack
    /// for congestion or a duplicate does not end it.
    ///
    /// # Errors
    /// As of [`Connection::express`].
    pub fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError> {
        self.express_retrying_beside(interest, attempts, &mut |_, _| {})
    }

    /// [`Connection::express_retrying`] with a `handler` that receives the other packets.
    ///
    /// # Errors
    /// As of [`Connection::express`].
    pub fn express_retrying_beside(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Answer, ConnectionError> {
        let wire = self.fresh(interest);
        self.exchange_one(Expression::repeated(wire, interest.clone(), attempts, self.now_ns()), handler)
    }

    /// Sends the Interest `wire` unchanged (for example a signed one) and waits for its answer, at
    /// most its lifetime. `handler` receives the other packets. The Interest is sent again after a
    /// reconnection.
    ///
    /// # Errors
    /// [`ConnectionError::BadInterest`]: `wire` is no Interest; else as of [`Connection::express`].
    pub fn express_wire(
        &mut self,
        wire: &[u8],
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Answer, ConnectionError> {
        self.exchange_one(Expression::once(wire.to_vec(), self.now_ns()), handler)
    }

    fn fresh(&mut self, interest: &InterestBuilder) -> Vec<u8> {
        let nonce = self.nonces.next();
        interest.clone().nonce(nonce).build()
    }

    fn exchange_one(
        &mut self,
        expression: Result<Expression, DecodeError>,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Answer, ConnectionError> {
        let expression = expression.map_err(ConnectionError::BadInterest)?;
        let mut exchange = Exchange { expression, answer: None };
        let mut epoch = self.epoch();
        loop {
            // If the process paused, the answer may wait in the socket.
            if exchange.answer.is_none() && self.now_ns() >= exchange.expression.due_ns() {
                self.drain(&mut |incoming, outbox| exchange.take(incoming, outbox, handler))?;
            }
            if epoch != self.epoch() {
                epoch = self.epoch();
                exchange.expression.on_reconnect();
            }
            // An answer that the last round received counts even if the deadline has passed since.
            if let Some(answer) = exchange.answer {
                return Ok(answer);
            }
            let now_ns = self.now_ns();
            if let Some(over) = exchange.expression.poll(now_ns, &mut self.nonces, &mut self.outbox) {
                return Ok(over);
            }
            let due_ns = exchange.expression.due_ns();
            self.turn(due_ns, &mut |incoming, outbox| exchange.take(incoming, outbox, handler))?;
        }
    }
}

/// One Interest in progress, and its answer once it was received.
struct Exchange {
    expression: Expression,
    answer: Option<Answer>,
}

impl Exchange {
    /// Processes a packet. After the answer `handler` receives all packets, even a second copy of
    /// the answer.
    fn take(
        &mut self,
        incoming: Incoming<'_>,
        outbox: &mut Outbox,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) {
        match self.answer.is_none().then(|| self.expression.take(&incoming)).flatten() {
            Some(answer) => self.answer = Some(answer),
            None => handler(incoming, outbox),
        }
    }
}

/// Returns the answer to `interest` in `incoming`, if it is one. For a repeated Interest a Nack
/// with any of its Nonces counts, except for congestion and for a duplicate.
fn taken(interest: &InterestView<'_>, incoming: &Incoming<'_>, repeated: bool) -> Option<Answer> {
    match incoming.packet {
        Packet::Data(data) if answers(interest, &data) => Some(Answer::Data(reply(&data, incoming.headers))),
        Packet::Nack(refused, reason) if refused.name == interest.name => {
            let passing = matches!(reason, NackReason::Congestion | NackReason::Duplicate);
            // The other reasons concern the name, so even a late Nack for an earlier transmission
            // is final.
            let counts = if repeated { !passing } else { refused.nonce == interest.nonce };
            counts.then_some(Answer::Nack(reason))
        }
        _ => None,
    }
}

fn reply(data: &DataView<'_>, headers: &LpHeaders) -> Reply {
    Reply { wire: data.wire.to_vec(), headers: *headers, rtt_ns: 0 }
}
