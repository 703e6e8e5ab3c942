//! Prefetches the memory that lookups of a batch read first, before any of its packets is
//! processed.

use lock_api::RawMutex;
use namely_wire::tlv::read_tlv;
use namely_wire::{PACKET_OCTETS_MAX, types};

use crate::face_id::FaceId;
use crate::hash::NameHashes;
use crate::packet::{PacketBuf, Received};
use crate::tables::Tables;

/// Hashes the names of packets, and prefetches the memory that their lookups read first. Neither
/// this nor the pipelines are inlined, so that each frame is on the stack only during its work.
#[inline(never)]
pub(crate) fn read_ahead<B: PacketBuf, R: RawMutex>(
    tables: &Tables<B, R>,
    packets: &[(FaceId, Received<B>)],
    hashes: &mut [NameHashes],
) {
    let pit = tables.pit.read_ahead();
    for ((_, received), hashes) in packets.iter().zip(hashes.iter_mut()) {
        tables.names.hasher.fill(name_octets(received.packet.as_ref()), hashes);
        pit.prefetch_bucket(hashes.whole());
        tables.fib.prefetch_lengths(hashes);
    }
    let is_interest = |received: &Received<B>| {
        received.headers.nack.is_none() && received.packet.as_ref().first() == Some(&(types::INTEREST as u8))
    };
    let is_data = |received: &Received<B>| received.packet.as_ref().first() == Some(&(types::DATA as u8));
    let those = |is: fn(&Received<B>) -> bool| {
        let packets = packets.iter().zip(hashes.iter());
        packets.filter(move |((_, received), _)| is(received)).map(|(_, hashes)| hashes)
    };
    // Each step prefetches the memory of the next one, early enough to arrive in time.
    those(is_interest).for_each(|hashes| tables.fib.prefetch_buckets(hashes));
    tables.cs.prefetch_names(those(is_interest));
    let leaving = tables.cs.prefetch_insertions(those(is_data));
    for ((_, received), hashes) in packets.iter().zip(hashes.iter()) {
        if is_interest(received) {
            tables.fib.prefetch_entry(hashes);
        } else {
            pit.prefetch_entry(hashes.whole());
        }
    }
    let found = tables.cs.prefetch_found(those(is_interest));
    tables.cs.prefetch_leaving(&leaving);
    tables.cs.prefetch_lists(those(is_data));
    tables.cs.prefetch_packets(&found);
}

/// The octets of the name in an unchecked packet; empty if there is no name at its position.
pub(crate) fn name_octets(packet: &[u8]) -> &[u8] {
    let name = || {
        let outer = read_tlv(packet).ok()?;
        let name = read_tlv(outer.value).ok().filter(|first| first.typ == types::NAME)?;
        // Positions are stored in 16 bits. The pipeline drops a longer packet.
        (packet.len() <= PACKET_OCTETS_MAX).then_some(name.value)
    };
    name().unwrap_or_default()
}
