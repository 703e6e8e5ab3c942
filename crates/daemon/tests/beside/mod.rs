//! A consumer with discovery, a producer without it, and a third station beside them that is a
//! neighbor of the consumer and has no data.
#![allow(dead_code, unreachable_pub, reason = "each test file uses a part of this module")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use namely_messages::{Command, ControlParameters, face_flags};
use namely_security::{KeyType, PrivateKey, Signer, sha256, sign_data};
use namely_wire::types::IMPLICIT_DIGEST_COMPONENT;
use namely_wire::{CACHE_POLICY_NO_CACHE, Component, DataBuilder, LpHeaders, Name, encode_lp_packet};

use crate::common::PATIENCE;
use crate::common::client::{Client, named};
use crate::segment::{Net, Router};

const RIGHT: &[u8] = b"right";
const WRONG: &[u8] = b"wrong";

/// Packets of an object.
const SEGMENTS: u64 = 16;

/// The reaction of the third station to an Interest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Station {
    /// It is not a neighbor, has a face to the group like the producer, and answers nothing.
    Bystander,
    /// It is a neighbor and answers nothing.
    Silent,
    /// It is a neighbor without a producer, so its router refuses the Interest.
    Refusing,
    /// It answers its own Interests with Data that another key than the producer's has signed.
    Lying,
}

/// The three stations, and their programs.
pub struct Scene {
    consumer: Router,
    /// Keeps the routers of the other stations running.
    _others: Vec<Router>,
    programs: Vec<Program>,
    /// Dropped last.
    _net: Net,
    requests: u64,
}

/// A program that answers Interests until it is dropped.
struct Program {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Program {
    /// Registers the prefix, and answers with this content after this time, or not at all.
    fn start(mut client: Client, content: Option<&'static [u8]>, takes: Duration) -> Self {
        client.register("/plain");
        // Interests carry their incoming face.
        let flags = Some(face_flags::LOCAL_FIELDS);
        client.ok(Command::FacesUpdate, &ControlParameters { flags, mask: flags, ..Default::default() });
        let faces = client.faces();
        let group =
            faces.iter().find(|face| face.uri == "ether://[01:00:5e:00:17:aa]").map(|face| face.face_id);
        let is_liar = content == Some(WRONG);
        let ends = Arc::new(AtomicBool::new(false));
        let is_over = ends.clone();
        let private = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
        let signer = Signer::new("/key/KEY/1".parse().unwrap(), private);
        let work = move || {
            while !is_over.load(Ordering::Relaxed) {
                let Some(packet) = client.receive(Duration::from_millis(50)) else { continue };
                let Some(content) = content else { continue };
                if is_liar && packet.headers.incoming_face_id == group {
                    continue;
                }
                std::thread::sleep(takes);
                let data = sign_data(&DataBuilder::new(packet.interest().name), content, &signer).unwrap();
                // Its router must not cache the Data, because it would also answer Interests to the
                // group.
                let cache_policy = is_liar.then_some(CACHE_POLICY_NO_CACHE);
                let pit_token = packet.headers.pit_token;
                let headers = LpHeaders { pit_token, cache_policy, ..LpHeaders::default() };
                client.send(&encode_lp_packet(&headers, &data));
            }
        };
        Program { ends, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// The results of fetches.
#[derive(Debug, Default)]
pub struct Fetched {
    pub times: Vec<Duration>,
    /// Interests that were not answered in time, or refused.
    pub lost: usize,
    /// Data that failed the verification.
    pub wrong: usize,
}

impl Fetched {
    pub fn per_second(&self) -> f64 {
        self.times.len() as f64 / self.times.iter().sum::<Duration>().as_secs_f64()
    }

    pub fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times[times.len() / 2]
    }
}

impl Scene {
    /// Creates the scene. Prints the reason and returns `None` if namespaces are not available.
    pub fn new(station: Station) -> Option<Self> {
        Self::with_producer(station, Duration::ZERO)
    }

    /// As `new`, with a producer that takes `takes` for each answer.
    pub fn with_producer(station: Station, takes: Duration) -> Option<Self> {
        let net = Net::new(&[1500, 1500, 1500])?;
        let group = "[[faces.multicast]]\ninterface = \"eth0\"\ngroup = \"ether://[01:00:5e:00:17:aa]\"";
        let mut consumer = net.router(0, "", &[]);
        let producer = net.router(1, &format!("enabled = false\n{group}"), &[]);
        let mut programs = vec![Program::start(producer.daemon.connect(), Some(RIGHT), takes)];
        let mut others = vec![producer];
        let is_neighbour = station != Station::Bystander;
        let discovery = if is_neighbour { String::new() } else { format!("enabled = false\n{group}") };
        let other = net.router(2, &discovery, &[]);
        if is_neighbour {
            net.wait_for_neighbours(&mut consumer, 1);
        }
        match station {
            Station::Refusing => {}
            Station::Bystander | Station::Silent => {
                programs.push(Program::start(other.daemon.connect(), None, Duration::ZERO));
            }
            Station::Lying => {
                programs.push(Program::start(other.daemon.connect(), Some(WRONG), Duration::ZERO));
            }
        }
        others.push(other);
        Some(Scene { consumer, _others: others, programs, _net: net, requests: 0 })
    }

    /// Fetches `count` packets, one after the other, as a consumer that verifies. An object has few
    /// packets. So the router searches for the producer often, but within the limit of a face.
    pub fn fetch(&mut self, count: usize) -> Fetched {
        assert!(!self.programs.is_empty());
        let mut fetched = Fetched::default();
        for _ in 0..count {
            self.requests += 1;
            let began = Instant::now();
            let (object, segment) = (self.requests / SEGMENTS, self.requests % SEGMENTS);
            let name: Name = format!("/plain/{object}/v=1/seg={segment}").parse().unwrap();
            while !self.is_right(&name, &mut fetched) {}
            fetched.times.push(began.elapsed());
        }
        fetched
    }

    fn is_right(&mut self, name: &Name, fetched: &mut Fetched) -> bool {
        let client = &mut self.consumer.client;
        client.ask(&name.to_string());
        let until = Instant::now() + PATIENCE;
        // A late answer belongs to an earlier Interest.
        let answer = loop {
            let packet =
                client.receive(until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)));
            match packet {
                Some(packet) if packet.headers.nack.is_none() && packet.data().name != name.as_name() => {}
                other => break other,
            }
        };
        let Some(packet) = answer.filter(|packet| packet.headers.nack.is_none()) else {
            fetched.lost += 1;
            return false;
        };
        if packet.data().content == RIGHT {
            return true;
        }
        fetched.wrong += 1;
        let digest = sha256(&packet.wire);
        let full = name.join(Component { typ: IMPLICIT_DIGEST_COMPONENT, value: &digest });
        client.ok(Command::CsReport, &named(&full.to_string()));
        false
    }
}
