//! The neighbors of `ndise-ping`: each with a plane, a key and a socket of its own. All are in one
//! process, so that their share of the machine can be limited: elsewhere they would be other
//! machines.
//!
//! They verify the router's signed packets, as the router verifies theirs. They answer any other
//! Interest with a small Data.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use namely_bench::error::Error;
use namely_host::clock;
use namely_security::{KeyChain, PublicKey, Signer, has_right_parameters_digest, sign_data, sign_interest};
use namely_testbed::Interrupt;
use namely_vip::{
    Action, Config, Decay, NeighbourConfig, Object, Objects, PacketDecision, PlacementSource, PlaneConfig,
    UNIT, Vip,
};
use namely_wire::{
    DataBuilder, DataView, InterestBuilder, InterestView, LpHeaders, LpView, Name, NameRef, PitToken,
    SignatureInfo, encode_lp_packet,
};
use rustix::event::{PollFd, PollFlags, poll};

/// Octets of each object that router and neighbors know: far more than the router's memory can
/// hold.
pub(super) const OBJECT_OCTETS: u64 = 4_000_000_000;

/// Capacity of a link, octets per second.
pub(super) const LINK_OCTETS_PER_S: u64 = 100_000_000;

/// Maximum number of the router's requests whose answers wait for the slot's choice.
const WAITING_MAX: usize = 16;

/// Options of the neighbors' process.
#[derive(Args, Debug)]
pub struct Neighbours {
    /// The router's address
    #[arg(long)]
    pub router: SocketAddr,
    /// The router's key, in hexadecimal digits
    #[arg(long)]
    pub key: String,
    /// The folder with their key chains
    #[arg(long)]
    pub keys: PathBuf,
    /// The port of each
    #[arg(long, value_delimiter = ',')]
    pub ports: Vec<u16>,
    /// Objects that are registered
    #[arg(long)]
    pub objects: usize,
    /// Length of a slot, ms
    #[arg(long)]
    pub period_ms: u32,
}

/// The name of an object among the neighbors.
pub(super) fn object(k: usize) -> String {
    format!("/{k}")
}

/// The name of a neighbor for the router, and of the folder of its key.
pub(super) fn neighbour(n: usize) -> String {
    format!("n{n}")
}

/// Interests with this component are not answered.
pub(super) const UNANSWERED: &str = "unanswered";

/// The neighbors' name for the router.
pub(super) const ROUTER: &str = "router";

/// Exchanges VIPs with the router until a signal ends the process.
///
/// # Errors
/// Returns an error if a socket or a key is missing.
pub fn run(options: &Neighbours) -> Result<(), Error> {
    let interrupt = Interrupt::on_signals()?;
    let key = public_key(&options.key)?;
    let period_ns = u64::from(options.period_ms) * 1_000_000;
    let (count, now_ns) = (options.ports.len(), clock::monotonic_ns());
    let mut all: Vec<Neighbour> = (0..count)
        .map(|n| {
            // The timers of separate routers have independent phases.
            let due_ns = now_ns + period_ns * n as u64 / count as u64;
            Neighbour::new(options, n, due_ns)
        })
        .collect::<Result<_, _>>()?;
    while interrupt.check().is_ok() {
        let now_ns = clock::monotonic_ns();
        all.iter_mut().for_each(|one| one.tick(now_ns));
        let due_ns = all.iter().map(|one| one.due_ns).min().unwrap_or(now_ns + period_ns);
        let left = Duration::from_nanos(due_ns.saturating_sub(clock::monotonic_ns()));
        let ready: Vec<bool> = {
            let mut sockets: Vec<PollFd<'_>> =
                all.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN)).collect();
            // A signal ends the wait. Sockets that are ready then are served in the next round.
            let left = left.try_into().ok();
            let _ = poll(&mut sockets, left.as_ref());
            sockets.iter().map(|socket| !socket.revents().is_empty()).collect()
        };
        for (one, _) in all.iter_mut().zip(ready).filter(|(_, is_ready)| *is_ready) {
            one.receive(&key);
        }
    }
    Ok(())
}

fn public_key(text: &str) -> Result<PublicKey, Error> {
    let octet = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
    let octets: Option<Vec<u8>> = (0..text.len()).step_by(2).map(octet).collect();
    let octets: Option<[u8; 32]> = octets.and_then(|octets| octets.try_into().ok());
    let key = octets.and_then(|octets| PublicKey::from_ed25519(&octets).ok());
    key.ok_or_else(|| Error::Usage("--key is no key".into()))
}

/// One neighbor.
struct Neighbour {
    vip: Vip,
    socket: UdpSocket,
    signer: Signer,
    /// Its number. It determines the objects that this neighbor requests most.
    number: u64,
    due_ns: u64,
    time_ms: u64,
    nonce: u32,
    /// The router's requests, with the tokens that answers have to carry.
    waiting: Vec<(Name, Option<PitToken>)>,
}

impl Neighbour {
    fn new(options: &Neighbours, n: usize, due_ns: u64) -> Result<Self, Error> {
        let object = |k| Object { id: namely_catalogue::block_id(&object(k)), octets: OBJECT_OCTETS };
        let objects = Objects::new((0..options.objects).map(object).collect())
            .map_err(|e| Error::Usage(e.to_string()))?;
        let router = NeighbourConfig {
            router: Some(ROUTER.into()),
            octets_per_s: LINK_OCTETS_PER_S,
            octets_per_s_out: LINK_OCTETS_PER_S,
        };
        let plane = PlaneConfig {
            amplification: 1,
            decay: Decay::from_half_life(60_000, options.period_ms),
            follow: PlacementSource::Scores,
            tiers: Vec::new(),
            weight: 0,
        };
        let config = Config {
            router: neighbour(n).into_bytes(),
            boot: n as u64 + 1,
            period_ms: options.period_ms,
            plane,
            neighbours: vec![router],
        };
        let mut vip = Vip::new(objects, config).map_err(|e| Error::Usage(e.to_string()))?;
        (0..options.objects).for_each(|k| vip.plane_mut().set_hops(k, [0]));
        Ok(Neighbour {
            vip,
            socket: socket(options.ports[n], options.router)
                .map_err(|e| Error::environment(format!("no socket at port {}", options.ports[n]), e))?,
            signer: signer(&options.keys.join(neighbour(n)))?,
            number: n as u64,
            due_ns,
            time_ms: 0,
            nonce: (n as u32) << 24,
            waiting: Vec::new(),
        })
    }

    fn tick(&mut self, now_ns: u64) {
        if now_ns < self.due_ns {
            return;
        }
        for k in 0..self.vip.objects().len() {
            let share = 1 + (7 * k as u64 + 13 * self.number) % 64;
            self.vip.plane_mut().add_demand(k, share * UNIT / 65_536);
        }
        let mut actions = Vec::new();
        self.due_ns = self.vip.tick(now_ns, clock::unix_ns() / 1000, &mut actions);
        self.carry_out(actions);
    }

    /// Processes the packets that have arrived.
    fn receive(&mut self, key: &PublicKey) {
        let mut octets = [0; 9000];
        while let Ok(length) = self.socket.recv(&mut octets) {
            let Ok(link) = LpView::parse(&octets[..length]) else { continue };
            let Some(packet) = link.fragment else { continue };
            let token = link.headers.pit_token;
            match InterestView::parse(packet) {
                Ok(interest) if has(interest.name, UNANSWERED) => continue,
                Ok(interest) if !has(interest.name, "localhop") => {
                    let data = DataBuilder::new(interest.name).freshness_ms(3_600_000);
                    let data = data.build(&[7; 100], &SignatureInfo::digest_sha256()).finish(&[0; 32]);
                    self.send(token, &data);
                    continue;
                }
                Ok(interest) => {
                    if self.waiting.len() == WAITING_MAX {
                        self.waiting.remove(0);
                    }
                    self.waiting.push((interest.name.to_name(), token));
                }
                Err(_) => {}
            }
            let mut actions = Vec::new();
            match self.vip.look(0, packet, clock::monotonic_ns()) {
                PacketDecision::Drop => continue,
                PacketDecision::Verify if !is_signed_by(packet, key) => self.vip.bad_signature(),
                PacketDecision::Verify | PacketDecision::Accept => {
                    let (now_ns, wall_us) = (clock::monotonic_ns(), clock::unix_ns() / 1000);
                    self.vip.receive(0, packet, now_ns, wall_us, &mut actions);
                }
            }
            self.carry_out(actions);
        }
    }

    fn carry_out(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Request { name, parameters, lifetime_ms, .. } => {
                    self.nonce = self.nonce.wrapping_add(1);
                    let builder = InterestBuilder::new(name).lifetime_ms(lifetime_ms).hop_limit(1);
                    let builder = builder.nonce(self.nonce.to_be_bytes());
                    self.time_ms = clock::unix_ms().max(self.time_ms + 1);
                    let packet = match parameters {
                        Some(all) => sign_interest(&builder, &all, &self.signer, self.time_ms).ok(),
                        None => Some(builder.build()),
                    };
                    packet.iter().for_each(|packet| self.send(None, packet));
                }
                // Interests for single segments do not occur in so small an exchange.
                Action::Answer { name, content, .. } => {
                    let Some(at) = self.waiting.iter().position(|(requested, _)| *requested == name) else {
                        continue;
                    };
                    let (name, token) = self.waiting.remove(at);
                    let data = sign_data(&DataBuilder::new(name.as_name()), &content, &self.signer);
                    data.iter().for_each(|data| self.send(token, data));
                }
            }
        }
    }

    /// Sends a packet. If the socket refuses it, it is lost, as on any link.
    fn send(&self, pit_token: Option<PitToken>, packet: &[u8]) {
        let headers = LpHeaders { pit_token, ..LpHeaders::default() };
        let _ = self.socket.send(&encode_lp_packet(&headers, packet));
    }
}

fn socket(port: u16, router: SocketAddr) -> std::io::Result<UdpSocket> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, port))?;
    socket.connect(router)?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn signer(folder: &Path) -> Result<Signer, Error> {
    let identity = Name::new().join_generic("ndp");
    let signer = KeyChain::open(folder).and_then(|chain| chain.signer(Some(identity.as_name()), None));
    signer.map_err(|e| Error::Subject(format!("the key in {}: {e}", folder.display())))
}

fn has(name: NameRef<'_>, text: &str) -> bool {
    name.components().any(|component| component.value == text.as_bytes())
}

fn is_signed_by(packet: &[u8], key: &PublicKey) -> bool {
    if let Ok(interest) = InterestView::parse(packet) {
        let Some(value) = interest.signature_value else { return false };
        let parts = [interest.signed_name(), interest.signed_parameters];
        return has_right_parameters_digest(&interest) && key.verify(&parts, value);
    }
    DataView::parse(packet).is_ok_and(|data| key.verify(&[data.signed_portion], data.signature_value))
}
