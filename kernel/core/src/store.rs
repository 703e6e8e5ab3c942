//! A content store outside (IS-37): a process below the one in memory, behind netlink. What leaves
//! the memory is offered to it, and an Interest that the memory cannot answer waits for it.

use namely_forwarder::{
    Batch, Completion, FaceId, Leaving, Outgoing, Output, PacketBuf, Ticket, TierAnswer, TierWrite, Wanted,
};

use crate::home::{Asked, Home, Store};
use crate::instance::{Answer, Instance};
use crate::packets::{Collect, Queue};
use crate::skb::Skb;

/// One ms, ns.
const MS_NS: u64 = 1_000_000;

/// As [`Collect`], in a namespace whose forwarder has a store outside.
struct WithStore<'a> {
    sink: Collect<'a>,
    home: Home,
    now_ns: u64,
}

impl Output<Skb> for WithStore<'_> {
    const HAS_TIER: bool = true;

    fn send(&mut self, face: FaceId, packet: Outgoing<Skb>) {
        self.sink.send(face, packet);
    }

    fn tier_read(&mut self, wanted: &Wanted<'_>) -> TierAnswer {
        let name = wanted.name.as_bytes();
        let asked = Asked {
            name: name.as_ptr(),
            ticket: wanted.ticket.to_bits(),
            name_len: name.len() as u32,
            can_be_prefix: u8::from(wanted.can_be_prefix),
            must_be_fresh: u8::from(wanted.must_be_fresh),
        };
        match self.home.store_read(&asked) {
            Store::None => TierAnswer::NoTier,
            Store::Busy => TierAnswer::Busy,
            Store::Taken => TierAnswer::Reading,
        }
    }

    fn tier_write(&mut self, leaving: Leaving<Skb>) -> TierWrite {
        let fresh_ms = leaving.fresh_until_ns.saturating_sub(self.now_ns) / MS_NS;
        match self.home.store_write(leaving.packet.as_ref(), fresh_ms) {
            Store::None => TierWrite::NoTier,
            Store::Busy => TierWrite::Busy,
            Store::Taken => TierWrite::Taken,
        }
    }
}

impl Queue {
    /// As [`Queue::output`].
    fn output_with_store(&mut self, home: Home, now_ns: u64) -> WithStore<'_> {
        WithStore { sink: self.output(home), home, now_ns }
    }
}

/// Processes what was taken in, by a forwarder that has a store outside.
#[inline(never)]
pub(crate) fn receive(
    instance: &Instance,
    batch: &mut Batch<Skb>,
    queue: &mut Queue,
    home: Home,
    now_ns: u64,
) {
    instance.core.receive_batch(batch, now_ns, &mut queue.output_with_store(home, now_ns));
}

/// The store has answered: with Data, which is fresh for so many ms, or without. Answers when
/// something is due, ns.
#[inline(never)]
pub(crate) fn answered(
    instance: &Instance,
    queue: &mut Queue,
    home: Home,
    ticket: u64,
    data: Option<(&[u8], u64)>,
    now_ns: u64,
) -> Answer {
    let completion = match data {
        None => Completion::Absent,
        Some((octets, fresh_ms)) => {
            let fresh_until_ns =
                if fresh_ms == 0 { 0 } else { now_ns.saturating_add(fresh_ms.saturating_mul(MS_NS)) };
            match Skb::build(octets.len(), |packet| packet.copy_from_slice(octets)) {
                Some(packet) => Completion::Found { packet, fresh_until_ns, is_busy: false },
                None => Completion::Failed,
            }
        }
    };
    let mut output = queue.output_with_store(home, now_ns);
    instance.core.tier_completed(Ticket::from_bits(ticket), completion, now_ns, &mut output);
    instance.expire(queue, home, now_ns)
}
