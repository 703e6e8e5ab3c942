//! One Interest, one answer.

use namely_wire::{DataView, InterestBuilder, InterestView, LpHeaders, NackReason};

use super::{Connection, ConnectionError, Incoming, Outbox, Packet};
use crate::matching::answers;

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

/// When an Interest that is to be repeated goes out again for the first time; then after twice as long.
const REPEAT_NS: u64 = 500_000_000;

impl Connection {
    /// Sends `interest` with a fresh Nonce and waits for its answer, at most its lifetime. Other packets that
    /// come meanwhile are dropped: it is for clients that only ask.
    pub fn express(&mut self, interest: &InterestBuilder) -> Result<Answer, ConnectionError> {
        let wire = self.fresh(interest);
        self.exchange_one(&wire, None, 1, &mut |_, _| {})
    }

    /// [`Connection::express`] for `attempts` times the Interest's lifetime. It goes out again after half a second,
    /// a second, and so on, each time with a new Nonce; a Nack for congestion or a duplicate counts as no answer.
    pub fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError> {
        let wire = self.fresh(interest);
        self.exchange_one(&wire, Some(interest), attempts.max(1), &mut |_, _| {})
    }

    /// Sends the Interest `wire` as it is (a signed one, say) and waits for its answer, at most its lifetime;
    /// `handler` gets the other packets. After a reconnection it is sent again.
    pub fn express_wire(
        &mut self,
        wire: &[u8],
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Answer, ConnectionError> {
        self.exchange_one(wire, None, 1, handler)
    }

    fn fresh(&mut self, interest: &InterestBuilder) -> Vec<u8> {
        let nonce = self.nonces.next();
        interest.clone().nonce(nonce).build()
    }

    /// Sends `wire`, and `again` with other Nonces as long as there is no answer.
    fn exchange_one(
        &mut self,
        wire: &[u8],
        again: Option<&InterestBuilder>,
        lifetimes: u32,
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Answer, ConnectionError> {
        let interest = InterestView::parse(wire).map_err(ConnectionError::BadInterest)?;
        let lifetime_ns = interest.lifetime_or_default_ms().saturating_mul(1_000_000);
        let mut sent_ns = self.now_ns();
        let deadline_ns = sent_ns.saturating_add(lifetime_ns.saturating_mul(u64::from(lifetimes)));
        let mut pause_ns = REPEAT_NS.min(lifetime_ns);
        let mut epoch = self.epoch();
        self.outbox().send(&LpHeaders::default(), wire);
        let mut answer = None;
        loop {
            let repeat_ns = if again.is_some() { sent_ns.saturating_add(pause_ns) } else { u64::MAX };
            self.turn(deadline_ns.min(repeat_ns), &mut |incoming, outbox| match taken(
                &interest,
                &incoming,
                again.is_some(),
            ) {
                Some(taken) if answer.is_none() => answer = Some(taken),
                _ => handler(incoming, outbox),
            })?;
            let now_ns = self.now_ns();
            match answer {
                Some(Answer::Data(reply)) => {
                    return Ok(Answer::Data(Reply { rtt_ns: now_ns - sent_ns, ..reply }));
                }
                Some(other) => return Ok(other),
                None if now_ns >= deadline_ns => return Ok(Answer::Timeout),
                None => {}
            }
            if epoch != self.epoch() {
                epoch = self.epoch();
                sent_ns = now_ns;
                self.outbox().send(&LpHeaders::default(), wire);
            } else if now_ns >= repeat_ns
                && let Some(interest) = again
            {
                sent_ns = now_ns;
                pause_ns = pause_ns.saturating_mul(2);
                let wire = self.fresh(interest);
                self.outbox().send(&LpHeaders::default(), &wire);
            }
        }
    }
}

/// The answer that `incoming` is to `interest`, if it is one. Of an Interest that is repeated, the Nack of any
/// of its Nonces counts, unless it says no more than that another one is under way or that it came too soon.
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
