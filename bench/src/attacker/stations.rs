//! Attacks by a station of the router's link.

use std::io;
use std::net::{IpAddr, UdpSocket};
use std::time::{Duration, Instant};

use namely_datagrams::ethernet;
use namely_security::{Signer, sign_data};
use namely_testkit::hostile::{HostilePeer, Identity};
use namely_wire::{
    CACHE_POLICY_NO_CACHE, DataBuilder, InterestView, LpHeaders, LpView, MacAddress, NackReason,
    encode_lp_packet,
};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::pace::{AttackCounts, End, STEP};
use crate::attacks::{Attack, RouterAddresses, Segment};

/// Interval between two hellos of a station.
const HEARTBEAT: Duration = Duration::from_millis(500);

/// Size of the station's receive ring, octets.
const RING_OCTETS: usize = 1 << 20;

/// Hellos per second of stations that never prove themselves.
const HELLOS_PER_SECOND: f64 = 20.0;

/// The smallest MTU that a neighbor may have.
const TINY_MTU: &str = "64";

/// Sends hellos, proves itself a neighbor, and answers each Interest as the attack requires: not at
/// all, with a Nack, or with false Data.
pub(super) fn neighbor(attack: Attack, addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let Some(segment) = &addresses.segment else { return Ok(AttackCounts::new()) };
    let own = format!("02:00:00:00:66:{:02x}", attack as u8);
    let sender = HostilePeer::on(&segment.device)?;
    let address = |text: &str| text.parse::<MacAddress>().map_err(|_| io::ErrorKind::InvalidInput);
    let (router, station) = (address(&segment.router)?, address(&own)?);
    let mut link = ethernet::EtherSocket::open(&segment.device, router, station, RING_OCTETS)?;
    let (mut due, mut hellos, mut proofs, mut interests) = (Instant::now(), 0, 0, 0);
    while end.is_ahead() {
        if Instant::now() >= due {
            due = Instant::now() + HEARTBEAT;
            sender.multicast(&own, &sender.identity.hello(&own, "1500", None)?)?;
            hellos += 1;
        }
        wait_for_frames(&link)?;
        let mut answers = Vec::new();
        link.receive(usize::MAX, &mut |frame| {
            let Ok(LpView { headers, fragment: Some(packet), .. }) = LpView::parse(frame) else {
                return true;
            };
            let Ok(interest) = InterestView::parse(packet) else { return true };
            if is_hello(&interest) {
                // The answer to this challenge makes the station a neighbor.
                answers.extend(sender.identity.reply(packet, &own));
                proofs += 1;
            } else {
                answers.extend(answer(attack, packet, &interest, &headers));
                interests += 1;
            }
            true
        })?;
        for answer in answers {
            link.send([&*answer].into_iter())?;
        }
    }
    Ok(AttackCounts::from([("hellos", hellos), ("proofs", proofs), ("interests", interests)]))
}

fn is_hello(interest: &InterestView<'_>) -> bool {
    interest.name.components().next().is_some_and(|first| first.value == b"ndp")
}

fn wait_for_frames(link: &ethernet::EtherSocket) -> io::Result<()> {
    let patience = Timespec { tv_sec: 0, tv_nsec: STEP.as_nanos() as i64 };
    let receiving = link.receiving();
    rustix::event::poll(&mut [PollFd::new(&receiving, PollFlags::IN)], Some(&patience))?;
    Ok(())
}

/// Returns the neighbor's answer to an Interest, if it answers.
fn answer(attack: Attack, packet: &[u8], interest: &InterestView<'_>, query: &LpHeaders) -> Option<Vec<u8>> {
    let headers = LpHeaders { pit_token: query.pit_token, ..LpHeaders::default() };
    match attack {
        Attack::Refusing => {
            let headers = LpHeaders { nack: Some(NackReason::NoRoute), ..headers };
            Some(encode_lp_packet(&headers, packet))
        }
        Attack::Lying => {
            let builder = DataBuilder::new(interest.name).freshness_ms(1000);
            let mut data = sign_data(&builder, b"not what you asked for", &Signer::digest_sha256()).ok()?;
            // The last octet belongs to the signature.
            if let Some(last) = data.last_mut() {
                *last ^= 1;
            }
            let headers = LpHeaders { cache_policy: Some(CACHE_POLICY_NO_CACHE), ..headers };
            Some(encode_lp_packet(&headers, &data))
        }
        _ => None,
    }
}

/// Sends hellos with the smallest permitted MTU, each in the name of another station. These
/// stations do not exist, so no challenge is answered.
pub(super) fn mtu(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let Some(segment) = &addresses.segment else { return Ok(AttackCounts::new()) };
    let station = HostilePeer::on(&segment.device)?;
    let hellos = (end.length.as_secs_f64() * HELLOS_PER_SECOND) as u64;
    let sent = end.spread(hellos, 1.0, |n| {
        let own = format!("02:00:00:01:{:02x}:{:02x}", n / 256 % 256, n % 256);
        station.multicast(&own, &station.identity.hello(&own, TINY_MTU, None)?)
    });
    Ok(AttackCounts::from([("hellos", sent)]))
}

/// Sends hellos to the group of UDP from an address outside the link's network. Counts the octets
/// that the router sends to that address: behind a forged address, a victim elsewhere would receive
/// them.
pub(super) fn challenges(addresses: &RouterAddresses, end: &End) -> io::Result<AttackCounts> {
    let Some(segment) = &addresses.segment else { return Ok(AttackCounts::new()) };
    let victim = from_outside(segment)?;
    let identity = Identity::new()?;
    let (mut datagrams, mut victim_octets, mut datagram) = (0u64, 0u64, vec![0; 1 << 16]);
    let hellos = (end.length.as_secs_f64() * HELLOS_PER_SECOND) as u64;
    let sent = end.spread(hellos, 0.9, |_| {
        let hello = identity.hello(&segment.outside.to_string(), "1400", None)?;
        victim.send_to(&hello, segment.group)?;
        while let Ok(octets) = victim.recv(&mut datagram) {
            datagrams += 1;
            victim_octets += octets as u64;
        }
        Ok(())
    });
    end.wait();
    while let Ok(octets) = victim.recv(&mut datagram) {
        datagrams += 1;
        victim_octets += octets as u64;
    }
    Ok(AttackCounts::from([
        ("hellos", sent),
        ("victim_datagrams", datagrams),
        ("victim_octets", victim_octets),
    ]))
}

fn from_outside(segment: &Segment) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(segment.outside)?;
    if let IpAddr::V4(own) = segment.outside.ip() {
        socket2::SockRef::from(&socket).set_multicast_if_v4(&own)?;
    }
    socket.set_nonblocking(true)?;
    Ok(socket)
}
