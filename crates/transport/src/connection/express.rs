//! One Interest, one answer.

use namely_wire::{DataView, DecodeError, InterestBuilder, InterestView, LpHeaders, NackReason};

use super::incoming::{Incoming, Packet};
use super::outbox::Outbox;
use super::{Connection, ConnectionError};
use crate::matching::answers;
use crate::nonce::Nonces;

/// How an Interest ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A Data that matches. Nobody has verified it.
    Data(Reply),
    /// The router refused.
    Nack(NackReason),
    /// Neither came within the Interest's lifetime.
    Timeout,
}

/// A Data and how it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The packet: a valid Data.
    pub wire: Vec<u8>,
    /// Its link headers.
    pub headers: LpHeaders,
    /// From sending the Interest to receiving the Data.
    pub rtt_ns: u64,
}

/// When an Interest that is to be repeated goes out again for the first time; then after twice as
/// long.
const REPEAT_NS: u64 = 500_000_000;

/// One Interest on its way to its answer, without I/O: sent, sent again if it may be, given up in
/// time.
#[derive(Debug)]
pub struct Expression {
    wire: Vec<u8>,
    /// What to send again with other Nonces.
    again: Option<InterestBuilder>,
    deadline_ns: u64,
    sent_ns: u64,
    pause_ns: u64,
    to_send: bool,
    /// Whether routers said that it is congestion that keeps the answer.
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

    /// Sends `wire`, which is `interest` with a Nonce, and waits for `attempts` lifetimes. It goes
    /// out again after half a second, a second, and so on, with new Nonces; a Nack for congestion
    /// or a duplicate counts as no answer.
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
        let deadline_ns = now_ns.saturating_add(lifetime_ns.saturating_mul(u64::from(lifetimes)));
        let pause_ns = REPEAT_NS.min(lifetime_ns);
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

    /// Sends what is due; [`Answer::Timeout`] when the time is over, or a Nack for congestion if
    /// that was said meanwhile.
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
            self.wire = interest.clone().nonce(nonces.next()).build();
            self.to_send = true;
        }
        if std::mem::take(&mut self.to_send) {
            self.sent_ns = now_ns;
            outbox.send(&LpHeaders::default(), &self.wire);
        }
        None
    }

    /// When to [`Expression::poll`] again, if no packet comes before.
    pub fn due_ns(&self) -> u64 {
        let repeat_ns =
            if self.again.is_some() { self.sent_ns.saturating_add(self.pause_ns) } else { u64::MAX };
        repeat_ns.min(self.deadline_ns)
    }

    /// The router was reached again: what was outstanding is lost.
    pub fn on_reconnect(&mut self) {
        self.to_send = true;
    }

    /// The answer that `incoming` is, if it is one.
    pub fn take(&mut self, incoming: &Incoming<'_>) -> Option<Answer> {
        let interest = InterestView::parse(&self.wire).ok()?;
        if let Packet::Nack(refused, NackReason::Congestion) = incoming.packet {
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
    /// Sends `interest` with a fresh Nonce and waits for its answer, at most its lifetime. Other
    /// packets that come meanwhile are dropped: it is for clients that only ask.
    ///
    /// # Errors
    /// [`ConnectionError`]: the router is gone. A Nack and no answer are answers.
    pub fn express(&mut self, interest: &InterestBuilder) -> Result<Answer, ConnectionError> {
        let expression = Expression::once(self.fresh(interest), self.now_ns());
        self.exchange_one(expression, &mut |_, _| {})
    }

    /// [`Connection::express`] for `attempts` times the Interest's lifetime. It goes out again
    /// after half a second, a second, and so on, each time with a new Nonce; a Nack for congestion
    /// or a duplicate counts as no answer.
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

    /// The same; `handler` gets the other packets.
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

    /// Sends the Interest `wire` as it is (a signed one, say) and waits for its answer, at most its
    /// lifetime; `handler` gets the other packets. After a reconnection it is sent again.
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
        let mut expression = expression.map_err(ConnectionError::BadInterest)?;
        let mut epoch = self.epoch();
        let mut answer = None;
        loop {
            let now_ns = self.now_ns();
            if epoch != self.epoch() {
                epoch = self.epoch();
                expression.on_reconnect();
            }
            if let Some(over) = answer.or_else(|| expression.poll(now_ns, &mut self.nonces, &mut self.outbox))
            {
                return Ok(over);
            }
            answer = None;
            self.turn(expression.due_ns(), &mut |incoming, outbox| match answer
                .is_none()
                .then(|| expression.take(&incoming))
                .flatten()
            {
                Some(taken) => answer = Some(taken),
                None => handler(incoming, outbox),
            })?;
        }
    }
}

/// The answer that `incoming` is to `interest`, if it is one. Of an Interest that is repeated, the
/// Nack of any of its Nonces counts, unless it says no more than that another one is under way or
/// that it came too soon.
fn taken(interest: &InterestView<'_>, incoming: &Incoming<'_>, repeated: bool) -> Option<Answer> {
    match incoming.packet {
        Packet::Data(data) if answers(interest, &data) => Some(Answer::Data(reply(&data, incoming.headers))),
        Packet::Nack(refused, reason) if refused.name == interest.name => {
            let passing = matches!(reason, NackReason::Congestion | NackReason::Duplicate);
            let counts = if repeated { !passing } else { refused.nonce == interest.nonce };
            counts.then_some(Answer::Nack(reason))
        }
        _ => None,
    }
}

fn reply(data: &DataView<'_>, headers: &LpHeaders) -> Reply {
    Reply { wire: data.wire.to_vec(), headers: *headers, rtt_ns: 0 }
}
