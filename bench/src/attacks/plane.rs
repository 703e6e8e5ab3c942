//! The virtual plane of the router under attack, and its two neighbors: an honest one in this
//! process, and a hostile one in the attacker's process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use namely_security::{KeyType, PrivateKey};
use namely_testkit::hostile::{BOOT, Neighbor, Request};
use namely_vip::message::{self, Body, Message, RequestKind};
use namely_wire::LpView;

use super::kind::{Attack, Plane};
use crate::error::Error;
use crate::namespace;

/// Duration of a slot, ms.
const PERIOD_MS: u64 = 200;

/// The rate of each neighbor's link, octets per second.
const OCTETS_PER_S: u64 = 100_000;

/// Octets of each object.
const OBJECT_OCTETS: u64 = 10_000;

/// Number of objects that the link of a neighbor carries in a slot.
pub(super) const OBJECTS_PER_SLOT: f64 =
    OCTETS_PER_S as f64 * PERIOD_MS as f64 / 1000.0 / OBJECT_OCTETS as f64;

/// A catalogue with two blocks.
const CATALOGUE: &str = "catalogue\t1\n/hot\t10000\n\t/hot/a\t10000\n/cold\t10000\n\t/cold/a\t10000\n";

/// The neighbors in the configuration of the router under attack.
pub(super) struct Neighbors {
    pub(super) plane: Plane,
    honest: Mutex<(UdpSocket, Neighbor)>,
    hostile_key: [u8; 32],
}

impl Neighbors {
    /// Creates the neighbors if one of `attacks` needs them and this process has a network
    /// namespace of its own. In that namespace, packets to forged addresses reach no other host.
    pub(super) fn make(attacks: &[Attack], router: SocketAddr) -> Result<Option<Self>, Error> {
        if !attacks.iter().any(|attack| attack.is_on_plane()) || !namespace::is_own() {
            return Ok(None);
        }
        let make = || -> io::Result<Self> {
            let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
            let (socket, hostile_socket) = (bind()?, bind()?);
            socket.connect(router)?;
            let key = PrivateKey::generate(KeyType::Ed25519).map_err(io::Error::other)?;
            let plane = Plane {
                period_ms: PERIOD_MS,
                objects: Vec::new(),
                honest: "honest".to_owned(),
                honest_address: socket.local_addr()?,
                hostile: "hostile".to_owned(),
                hostile_address: hostile_socket.local_addr()?,
                hostile_key: key.to_pkcs8().map_err(io::Error::other)?.to_vec(),
            };
            let honest = Neighbor::with_new_key(&plane.honest)?;
            let hostile_key = Neighbor::new(&plane.hostile, key)?.key;
            Ok(Neighbors { plane, honest: Mutex::new((socket, honest)), hostile_key })
        };
        make().map(Some).map_err(|e| Error::environment("cannot make neighbors", e))
    }

    /// Returns the lines about the neighbors for the configuration of the router under attack.
    pub(super) fn settings(&self, dir: &Path) -> Result<String, Error> {
        let catalogue = dir.join("blocks.tsv");
        fs::write(&catalogue, CATALOGUE)
            .map_err(|e| Error::environment(format!("cannot write {}", catalogue.display()), e))?;
        let mut text = format!(
            "[discovery]\nkey_chain = {:?}\n[vip]\nrouter = \"attacked\"\ncatalogue = {catalogue:?}\nprefix = \"/plane\"\n\
             period_ms = {PERIOD_MS}\nsegment_octets = 100\nmemory = 0\n",
            dir.join("keys")
        );
        let honest_key = self.honest.lock().map(|honest| honest.1.key).unwrap_or_default();
        let Plane { honest, honest_address, hostile, hostile_address, .. } = &self.plane;
        let both = [(honest, honest_address, honest_key), (hostile, hostile_address, self.hostile_key)];
        for (router, address, key) in both {
            let key: String = key.iter().map(|octet| format!("{octet:02x}")).collect();
            let uri = format!("udp4://{address}");
            text += &format!(
                "[[face]]\nremote = \"{uri}\"\n[[vip.neighbour]]\nface = \"{uri}\"\nrouter = \"{router}\"\n\
                 key = \"{key}\"\noctets_per_s = {OCTETS_PER_S}\n"
            );
        }
        Ok(text)
    }

    /// Acts as the honest neighbor until `is_over`: requests counts once in each slot, and answers
    /// the router's requests. Returns the numbers of its requests and of the router's answers.
    pub(super) fn exchange(&self, is_over: &AtomicBool) -> BTreeMap<String, u64> {
        let Ok(mut honest) = self.honest.lock() else { return BTreeMap::new() };
        let (socket, neighbor) = &mut *honest;
        let period = Duration::from_millis(PERIOD_MS);
        let (mut requests, mut counts_received, mut datagram) = (0u64, 0u64, vec![0; 1 << 16]);
        let mut due = Instant::now();
        while !is_over.load(Ordering::Relaxed) {
            if Instant::now() >= due {
                due = Instant::now() + period;
                let nonce = (requests as u32).to_be_bytes();
                let request = neighbor.counts_request(PERIOD_MS, nonce);
                requests += u64::from(request.and_then(|request| socket.send(&request)).is_ok());
            }
            let left = due.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let _ = socket.set_read_timeout(Some(left));
            let Ok(octets) = socket.recv(&mut datagram) else { continue };
            let datagram = &datagram[..octets];
            counts_received += u64::from(is_counts(datagram));
            if let Some(answer) = answer(neighbor, datagram) {
                let _ = socket.send(&answer);
            }
        }
        BTreeMap::from([("asked".to_owned(), requests), ("answered".to_owned(), counts_received)])
    }
}

/// Returns true if a datagram holds the router's counts.
fn is_counts(datagram: &[u8]) -> bool {
    let packet = LpView::parse(datagram).ok().and_then(|link| link.fragment);
    let message = packet.and_then(|packet| Message::parse(packet).ok());
    message.is_some_and(|message| matches!(message.body, Body::Counts { .. }))
}

/// Returns the answer to a request: an empty list of counts or of offers.
fn answer(neighbor: &Neighbor, datagram: &[u8]) -> Option<Vec<u8>> {
    let request = Request::read(datagram)?;
    let content = match request.about {
        RequestKind::Counts => message::counts(BOOT, 1, PERIOD_MS, [].into_iter()),
        RequestKind::Offers => message::offers(BOOT, request.boot, 1, [].into_iter()),
    };
    neighbor.answer(&request.name, request.token, &content).ok()
}
