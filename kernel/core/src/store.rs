//! An external content store (IS-37): a process below the store in memory, behind netlink. Packets
//! that leave the memory are offered to it, and an Interest that the memory cannot answer waits for
//! it.

use namely_forwarder::{Completion, EvictedData, PacketBuf, Ticket, TierAnswer, TierRequest, TierWrite};

use crate::home::{Embedder, Store, StoreRequest};
use crate::instance::{Answer, Instance};
use crate::packets::Workspace;
use crate::skb::Skb;

/// One ms, ns.
const MS_NS: u64 = 1_000_000;

/// Requests the Data for an Interest from the store.
#[cold]
#[inline(never)]
pub(crate) fn read(home: Embedder, wanted: &TierRequest<'_>) -> TierAnswer {
    let name = wanted.name.as_bytes();
    let asked = StoreRequest {
        name: name.as_ptr(),
        ticket: wanted.ticket.to_bits(),
        name_len: name.len() as u32,
        can_be_prefix: u8::from(wanted.can_be_prefix),
        must_be_fresh: u8::from(wanted.must_be_fresh),
    };
    match home.store_read(&asked) {
        Store::None => TierAnswer::NoTier,
        Store::Busy => TierAnswer::Busy,
        Store::Taken => TierAnswer::Reading,
    }
}

/// Offers the store a Data that leaves the memory.
#[cold]
#[inline(never)]
pub(crate) fn write(home: Embedder, leaving: &EvictedData<Skb>, now_ns: u64) -> TierWrite {
    let fresh_ms = leaving.fresh_until_ns.saturating_sub(now_ns) / MS_NS;
    match home.store_write(leaving.packet.as_ref(), fresh_ms) {
        Store::None => TierWrite::NoTier,
        Store::Busy => TierWrite::Busy,
        Store::Taken => TierWrite::Accepted,
    }
}

/// Handles the store's answer: with Data and its remaining freshness in ms, or without Data.
/// Returns the time at which work is due, ns.
#[inline(never)]
pub(crate) fn answered(
    instance: &Instance,
    workspace: &mut Workspace,
    home: Embedder,
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
    let Workspace { batch, queue } = workspace;
    let (ticket, mut output) = (Ticket::from_bits(ticket), queue.output(home, Some(now_ns)));
    instance.core.tier_completed_beside(batch, ticket, completion, now_ns, &mut output);
    instance.expire(queue, home, now_ns)
}
