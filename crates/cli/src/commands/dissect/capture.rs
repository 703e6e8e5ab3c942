//! Finds NDN link packets in captures. `pcap-parser` reads the files, and `etherparse` the headers
//! below NDN. The TCP payloads of each direction are joined in the captured order. After a gap, the
//! rest of the direction is skipped.

use std::collections::HashMap;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use namely_wire::tlv;
use pcap_parser::data::{PacketData, get_packetdata};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{Linktype, PcapBlockOwned, PcapError};

/// Ethernet type of NDN.
const ETHERTYPE_NDN: u16 = 0x8624;
/// UDP and TCP port of NDN.
const PORT: u16 = 6363;
/// UDP port of NDN multicast.
const PORT_MULTICAST: u16 = 56363;
/// Maximum number of directions of TCP connections that are followed at once. Packets of further
/// directions are skipped.
const FLOWS_MAX: usize = 1024;

/// A link packet and, from a capture, its time and addresses.
#[derive(Debug)]
pub(super) struct Packet<'a> {
    pub(super) octets: &'a [u8],
    pub(super) origin: Option<Origin>,
}

/// Time and addresses of a captured packet.
#[derive(Clone, Debug)]
pub(super) struct Origin {
    pub(super) time_us: u64,
    pub(super) from: String,
    pub(super) to: String,
}

impl Packet<'_> {
    /// The line above a captured packet's text.
    pub(super) fn heading(&self) -> String {
        let Some(o) = &self.origin else { return String::new() };
        format!("{}.{:06} {} -> {}\n", o.time_us / 1_000_000, o.time_us % 1_000_000, o.from, o.to)
    }
}

/// Returns true if `octets` begin like a pcap or pcapng file.
pub(super) fn is_capture(octets: &[u8]) -> bool {
    const MAGICS: [[u8; 4]; 5] = [
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0x0a, 0x0d, 0x0d, 0x0a],
    ];
    octets.first_chunk().is_some_and(|magic| MAGICS.contains(magic))
}

/// Calls `show` for each packet of a sequence of packets. A remainder that is not a whole TLV is
/// passed last, unparsed.
pub(super) fn each_in_stream(octets: &[u8], show: &mut impl FnMut(&Packet<'_>)) {
    let mut rest = octets;
    while !rest.is_empty() {
        let length = tlv::read_tlv(rest).map_or(rest.len(), |t| t.raw.len());
        show(&Packet { octets: &rest[..length], origin: None });
        rest = &rest[length..];
    }
}

/// Calls `show` for each NDN packet of a capture file.
pub(super) fn each_packet(file: &[u8], show: &mut impl FnMut(&Packet<'_>)) -> Result<(), String> {
    let mut reader =
        pcap_parser::create_reader(1 << 20, file).map_err(|e| format!("not a readable capture: {e}"))?;
    let mut walk = Walk { linktype: Linktype::ETHERNET, flows: HashMap::new() };
    loop {
        match reader.next() {
            Ok((offset, block)) => {
                walk.block(&block, show);
                reader.consume(offset);
            }
            Err(PcapError::Eof) => return Ok(()),
            Err(PcapError::Incomplete(_)) => refill(&mut *reader)?,
            Err(e) => return Err(format!("the capture is damaged: {e}")),
        }
    }
}

fn refill(reader: &mut dyn PcapReaderIterator) -> Result<(), String> {
    if reader.reader_exhausted() {
        return Err("the capture ends inside a block".into());
    }
    reader.refill().map_err(|e| format!("the capture cannot be read on: {e}"))
}

/// The state while a capture is read.
struct Walk {
    linktype: Linktype,
    flows: HashMap<(String, String), Flow>,
}

/// One direction of a TCP connection.
struct Flow {
    next_sequence: u32,
    pending: Vec<u8>,
}

impl Walk {
    fn block(&mut self, block: &PcapBlockOwned<'_>, show: &mut impl FnMut(&Packet<'_>)) {
        use pcap_parser::pcapng::Block;
        match block {
            PcapBlockOwned::LegacyHeader(header) => self.linktype = header.network,
            PcapBlockOwned::Legacy(b) => {
                let time_us = u64::from(b.ts_sec) * 1_000_000 + u64::from(b.ts_usec);
                self.frame(b.data, b.caplen as usize, time_us, show);
            }
            PcapBlockOwned::NG(Block::InterfaceDescription(description)) => {
                self.linktype = description.linktype
            }
            PcapBlockOwned::NG(Block::EnhancedPacket(b)) => {
                let time_us = u64::from(b.ts_high) << 32 | u64::from(b.ts_low);
                self.frame(b.data, b.caplen as usize, time_us, show);
            }
            PcapBlockOwned::NG(_) => {}
        }
    }

    fn frame(&mut self, data: &[u8], caplen: usize, time_us: u64, show: &mut impl FnMut(&Packet<'_>)) {
        let sliced = match get_packetdata(data, self.linktype, caplen) {
            Some(PacketData::L2(frame)) => {
                if let Some((octets, from, to)) = ethernet_ndn(frame) {
                    show(&Packet { octets, origin: Some(Origin { time_us, from, to }) });
                    return;
                }
                SlicedPacket::from_ethernet(frame)
            }
            Some(PacketData::L3(_, packet)) => SlicedPacket::from_ip(packet),
            _ => return,
        };
        if let Ok(sliced) = sliced {
            self.ip(&sliced, time_us, show);
        }
    }

    fn ip(&mut self, sliced: &SlicedPacket<'_>, time_us: u64, show: &mut impl FnMut(&Packet<'_>)) {
        let (source, destination) = match &sliced.net {
            Some(NetSlice::Ipv4(ip)) => {
                (ip.header().source_addr().to_string(), ip.header().destination_addr().to_string())
            }
            Some(NetSlice::Ipv6(ip)) => {
                (format!("[{}]", ip.header().source_addr()), format!("[{}]", ip.header().destination_addr()))
            }
            _ => return,
        };
        let origin = |scheme: &str, from: u16, to: u16| Origin {
            time_us,
            from: format!("{scheme}://{source}:{from}"),
            to: format!("{scheme}://{destination}:{to}"),
        };
        match &sliced.transport {
            Some(TransportSlice::Udp(udp)) => {
                let ports = [udp.source_port(), udp.destination_port()];
                if ports.contains(&PORT) || ports.contains(&PORT_MULTICAST) || looks_like_ndn(udp.payload()) {
                    show(&Packet { octets: udp.payload(), origin: Some(origin("udp", ports[0], ports[1])) });
                }
            }
            Some(TransportSlice::Tcp(tcp)) if [tcp.source_port(), tcp.destination_port()].contains(&PORT) => {
                let origin = origin("tcp", tcp.source_port(), tcp.destination_port());
                self.tcp(tcp.sequence_number(), tcp.syn(), tcp.payload(), origin, show);
            }
            _ => {}
        }
    }

    fn tcp(
        &mut self,
        sequence: u32,
        syn: bool,
        payload: &[u8],
        origin: Origin,
        show: &mut impl FnMut(&Packet<'_>),
    ) {
        let key = (origin.from.clone(), origin.to.clone());
        if !self.flows.contains_key(&key) && self.flows.len() >= FLOWS_MAX {
            return;
        }
        let first = sequence.wrapping_add(u32::from(syn));
        let flow = self.flows.entry(key).or_insert(Flow { next_sequence: first, pending: Vec::new() });
        if syn {
            *flow = Flow { next_sequence: first, pending: Vec::new() };
        }
        // Only octets that continue the stream are used. Retransmissions, and all octets after a
        // gap, are skipped.
        if payload.is_empty() || first != flow.next_sequence {
            return;
        }
        flow.next_sequence = first.wrapping_add(payload.len() as u32);
        flow.pending.extend_from_slice(payload);
        let mut taken = 0;
        while let Ok(tlv) = tlv::read_tlv(&flow.pending[taken..]) {
            show(&Packet { octets: tlv.raw, origin: Some(origin.clone()) });
            taken += tlv.raw.len();
        }
        flow.pending.drain(..taken);
        if flow.pending.len() > namely_wire::LP_PACKET_OCTETS_MAX {
            flow.pending.clear();
        }
    }
}

/// The NDN packet of an Ethernet frame, without the padding of short frames.
fn ethernet_ndn(frame: &[u8]) -> Option<(&[u8], String, String)> {
    let header = frame.first_chunk::<14>()?;
    if u16::from_be_bytes([header[12], header[13]]) != ETHERTYPE_NDN {
        return None;
    }
    let payload = &frame[14..];
    let octets = tlv::read_tlv(payload).map_or(payload, |t| t.raw);
    Some((octets, mac(&header[6..12]), mac(&header[..6])))
}

fn mac(octets: &[u8]) -> String {
    let pairs: Vec<String> = octets.iter().map(|b| format!("{b:02x}")).collect();
    format!("ether://[{}]", pairs.join(":"))
}

fn looks_like_ndn(payload: &[u8]) -> bool {
    namely_wire::LpView::parse(payload).is_ok()
}
