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

impl Connection {
    /// Sends `interest` with a fresh Nonce and waits for its answer, at most its lifetime. Other packets that
    /// come meanwhile are dropped: it is for clients that only ask.
    pub fn express(&mut self, interest: &InterestBuilder) -> Result<Answer, ConnectionError> {
        let nonce = self.nonces().next();
        self.express_wire(&interest.clone().nonce(nonce).build(), &mut |_, _| {})
    }

    /// [`Connection::express`], `attempts` times as long as there is no answer, each time with a new Nonce. A
    /// Nack for congestion or a duplicate counts as no answer.
    pub fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError> {
        let mut answer = Answer::Timeout;
        for _ in 0..attempts.max(1) {
            answer = self.express(interest)?;
            match &answer {
                Answer::Data(_) => break,
                Answer::Nack(NackReason::Congestion | NackReason::Duplicate) | Answer::Timeout => {}
                Answer::Nack(_) => break,
            }
        }
        Ok(answer)
    }

    /// Sends the Interest `wire` as it is (a signed one, say) and waits for its answer, at most its lifetime;
    /// `handler` gets the other packets. After a reconnection it is sent again.
    pub fn express_wire(
        &mut self,
        wire: &[u8],
        handler: &mut dyn FnMut(Incoming<'_>, &mut Outbox),
    ) -> Result<Answer, ConnectionError> {
        let interest = InterestView::parse(wire).map_err(ConnectionError::BadInterest)?;
        let lifetime_ns = interest.lifetime_or_default_ms().saturating_mul(1_000_000);
        let mut sent_ns = self.now_ns();
        let deadline_ns = sent_ns.saturating_add(lifetime_ns);
        let mut epoch = self.epoch();
        self.outbox().send(&LpHeaders::default(), wire);
        let mut answer = None;
        loop {
            self.turn(deadline_ns, &mut |incoming, outbox| match taken(&interest, &incoming) {
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
            }
        }
    }
}

/// The answer that `incoming` is to `interest`, if it is one.
fn taken(interest: &InterestView<'_>, incoming: &Incoming<'_>) -> Option<Answer> {
    match incoming.packet {
        Packet::Data(data) if answers(interest, &data) => Some(Answer::Data(reply(&data, incoming.headers))),
        Packet::Nack(refused, reason) if refused.name == interest.name && refused.nonce == interest.nonce => {
            Some(Answer::Nack(reason))
        }
        _ => None,
    }
}

fn reply(data: &DataView<'_>, headers: &LpHeaders) -> Reply {
    Reply { wire: data.wire.to_vec(), headers: *headers, rtt_ns: 0 }
}
