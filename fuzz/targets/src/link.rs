//! The link service, and the division of streams into packets.

use namely_link::stream::packet_octets;
use namely_link::{
    LinkConfig, LinkKind, LinkService, Outbound, PacketLocation, ReassemblyLimits, ReassemblyTotal,
};
use namely_wire::tlv::read_tlv;
use namely_wire::types::{DATA, INTEREST};
use namely_wire::{LP_PACKET_OCTETS_MAX, LpHeaders, PACKET_OCTETS_MAX};

const TOTAL_OCTETS_MAX: usize = 1 << 16;

/// Frames that arrive at a link service with small limits. One octet before each frame is its
/// length. The link service delivers only network packets. Memory stays within the limits, and is
/// released.
pub(crate) fn link(octets: &[u8]) {
    let total = ReassemblyTotal::new(TOTAL_OCTETS_MAX);
    let limits = ReassemblyLimits { messages_max: 4, octets_max: 1 << 14, timeout_ns: 1000 };
    let datagram = LinkConfig::new(LinkKind::Datagram { mtu: 300 });
    for config in [
        LinkConfig { reassembly: limits, ..datagram },
        LinkConfig { reassembly: limits, reliability: true, ..datagram },
        LinkConfig { reassembly: limits, local_fields: true, ..LinkConfig::new(LinkKind::Stream) },
    ] {
        let mut service: LinkService<Vec<u8>, u8> = LinkService::new(config, total.clone(), 7);
        receive_all(&mut service, octets, &total);
        drop(service);
        assert_eq!(total.octets(), 0, "memory is given back");
    }
}

fn receive_all(service: &mut LinkService<Vec<u8>, u8>, octets: &[u8], total: &ReassemblyTotal) {
    let mut now_ns = 0;
    let mut rest = octets;
    while let Some((length, behind)) = rest.split_first() {
        let (frame, behind) = behind.split_at(usize::from(*length).min(behind.len()));
        rest = behind;
        now_ns += 100;
        let mut sent = Vec::new();
        let arrived = service.receive(frame, length & 1, now_ns, &mut |f| sent.push(f.slices().concat()));
        if let Ok(Some(delivered)) = arrived {
            let packet = delivered.packet.octets(frame).to_vec();
            assert!(packet.len() <= PACKET_OCTETS_MAX);
            assert!(matches!(packet.first(), Some(&typ) if [INTEREST, DATA].contains(&u32::from(typ))));
            assert_eq!(delivered.headers.incoming_face_id, None);
            if let PacketLocation::Reassembled(buffer) = delivered.packet {
                service.recycle(buffer);
            }
            // Only whole packets can be sent. A delivered packet is not checked beyond its first
            // octet.
            if read_tlv(&packet).is_ok_and(|tlv| tlv.raw.len() == packet.len()) {
                let outbound = Outbound { headers: LpHeaders::default(), packet, hop_limit: None };
                let _ = service.send(outbound, now_ns, &mut |f| sent.push(f.slices().concat()));
            }
        }
        assert!(sent.iter().all(|frame| read_tlv(frame).is_ok_and(|tlv| tlv.raw.len() == frame.len())));
        assert!(total.octets() <= TOTAL_OCTETS_MAX);
        if service.due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            service.tick(now_ns, &mut |_| ());
        }
    }
}

/// A stream is divided into the same packets for any sizes of reads. It never waits for more than a
/// packet.
pub(crate) fn stream(octets: &[u8]) {
    let mut at = 0;
    loop {
        let whole = packet_octets(&octets[at..]);
        for length in 0..(octets.len() - at).min(16) {
            match packet_octets(&octets[at..at + length]) {
                Ok(None) => {}
                early => assert_eq!(early, whole, "more octets change nothing once the packet is known"),
            }
        }
        let Ok(Some(length)) = whole else { break };
        assert!(length > 0 && length <= LP_PACKET_OCTETS_MAX);
        assert!(read_tlv(&octets[at..]).is_ok_and(|tlv| tlv.raw.len() == length));
        at += length;
        if at == octets.len() {
            return;
        }
    }
    if packet_octets(&octets[at..]) == Ok(None) {
        assert!(octets.len() - at < LP_PACKET_OCTETS_MAX);
    }
}
