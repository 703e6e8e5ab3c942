//! Measures the rate at which one data plane moves packets between two applications on one machine,
//! and the cost of each exchange.
//!
//! A consumer and a producer exchange Interests and Data through the router, each on its own
//! thread, with as little work of their own as possible. With `udp`, the packets pass two routers
//! and a UDP face between them. The program prints the exchanges per second, and the processor time
//! per exchange of each thread.
//!
//! ```text
//! cargo run --release -p namely-dataplane --example exchange -- \
//!     [unix|tcp|udp] [CONTENT OCTETS] [WINDOW] [SECONDS] [CS PACKETS]
//! ```

use std::collections::BTreeMap;
use std::io::{IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use namely_dataplane::{ControlEvent, Core, DataPlane, DataPlaneOptions, Inbox, ListenSpec};
use namely_forwarder::{Config, FaceId};
use namely_link::stream::packet_octets;
use namely_messages::{FaceEventKind, FacePersistency};
use namely_mgmt::{FaceSettings, FaceSpec, Faces};
use namely_wire::{
    DataBuilder, FaceUri, InterestBuilder, LpHeaders, Name, PitToken, SignatureInfo, encode_lp_packet,
};

/// Any stream to the router.
trait Stream: Read + Write + Send {}

impl<T: Read + Write + Send> Stream for T {}

/// A packet whose name has a running number of 8 octets, and the position of that number.
struct Template {
    octets: Vec<u8>,
    number_at: usize,
}

const MARK: [u8; 8] = *b"\xfe\xdc\xba\x98\x76\x54\x32\x10";

impl Template {
    fn new(octets: Vec<u8>) -> Self {
        let number_at = octets.windows(8).position(|window| window == MARK).expect("the mark is in the name");
        Template { octets, number_at }
    }

    fn numbered(&mut self, number: [u8; 8]) -> &[u8] {
        self.octets[self.number_at..self.number_at + 8].copy_from_slice(&number);
        &self.octets
    }
}

fn name() -> Name {
    let uri = MARK.iter().fold(String::from("/bench/exchange/file/"), |uri, b| uri + &format!("%{b:02X}"));
    uri.parse().expect("a name")
}

/// Cuts a stream into packets.
struct Cutter {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
    filled: usize,
}

impl Cutter {
    fn new(stream: Box<dyn Stream>) -> Self {
        Cutter { stream, buffer: vec![0; 1 << 20], filled: 0 }
    }

    /// Reads once and gives each whole packet to `take`. False at the end.
    fn read(&mut self, mut take: impl FnMut(&[u8])) -> bool {
        match self.stream.read(&mut self.buffer[self.filled..]) {
            Ok(0) | Err(_) => return false,
            Ok(n) => self.filled += n,
        }
        let mut start = 0;
        while let Ok(Some(octets)) = packet_octets(&self.buffer[start..self.filled]) {
            take(&self.buffer[start..start + octets]);
            start += octets;
        }
        self.buffer.copy_within(start..self.filled, 0);
        self.filled -= start;
        true
    }
}

/// Keeps `window` Interests, with PIT tokens, pending until `stop` is set.
fn consume(stream: Box<dyn Stream>, window: u64, received: &AtomicU64, stop: &AtomicBool) {
    let headers = LpHeaders { pit_token: PitToken::new(b"token 8o"), ..LpHeaders::default() };
    let packet = InterestBuilder::new(name()).nonce(*b"nonc").build();
    let mut interest = Template::new(encode_lp_packet(&headers, &packet));
    let mut cutter = Cutter::new(stream);
    let mut next = 0u64;
    let mut wanted = window;
    loop {
        let mut burst = Vec::new();
        for _ in 0..wanted {
            burst.extend_from_slice(interest.numbered(next.to_be_bytes()));
            next += 1;
        }
        if stop.load(Ordering::Relaxed) || cutter.stream.write_all(&burst).is_err() {
            return;
        }
        wanted = 0;
        if !cutter.read(|_| wanted += 1) {
            return;
        }
        received.fetch_add(wanted, Ordering::Relaxed);
    }
}

/// Answers every Interest with the same content.
fn produce(stream: Box<dyn Stream>, content: usize) {
    let unsigned =
        DataBuilder::new(name().as_name()).build(&vec![7; content], &SignatureInfo::digest_sha256());
    let data = Template::new(unsigned.finish(&[0; 32]));
    let (head, tail) = (&data.octets[..data.number_at], &data.octets[data.number_at + 8..]);
    let mut cutter = Cutter::new(stream);
    loop {
        let mut numbers: Vec<[u8; 8]> = Vec::new();
        let go_on = cutter.read(|interest| {
            if let Some(number) = find_number(interest) {
                numbers.push(number);
            }
        });
        if !go_on {
            return;
        }
        for batch in numbers.chunks(300) {
            let mut slices: Vec<IoSlice<'_>> = batch
                .iter()
                .flat_map(|number| [IoSlice::new(head), IoSlice::new(number), IoSlice::new(tail)])
                .collect();
            let mut rest = &mut slices[..];
            while !rest.is_empty() {
                match cutter.stream.write_vectored(rest) {
                    Ok(n) if n > 0 => IoSlice::advance_slices(&mut rest, n),
                    _ => return,
                }
            }
        }
    }
}

fn find_number(wire: &[u8]) -> Option<[u8; 8]> {
    let view = namely_wire::LpView::parse(wire).ok()?;
    let interest = namely_wire::InterestView::parse(view.fragment?).ok()?;
    interest.name.last()?.value.try_into().ok()
}

/// Processor time of each thread of this process, by its name and number, ns.
fn thread_times() -> BTreeMap<String, u64> {
    let Ok(tasks) = std::fs::read_dir("/proc/self/task") else { return BTreeMap::new() };
    let time = |path: &Path| {
        let name = std::fs::read_to_string(path.join("comm")).ok()?;
        let schedstat = std::fs::read_to_string(path.join("schedstat")).ok()?;
        let number = path.file_name()?.to_str()?;
        Some((format!("{} {number}", name.trim()), schedstat.split_whitespace().next()?.parse().ok()?))
    };
    tasks.flatten().filter_map(|task| time(&task.path())).collect()
}

fn new_face(inbox: &Inbox) -> FaceId {
    match inbox.next(Duration::from_secs(5)) {
        Ok(ControlEvent::Face(event)) if event.kind == FaceEventKind::Created => FaceId(event.face_id),
        other => panic!("{other:?} instead of a new face"),
    }
}

/// A data plane that listens for applications on a Unix socket.
struct Router {
    plane: DataPlane,
    inbox: Inbox,
    core: Arc<Core>,
    local: FaceUri,
}

impl Router {
    fn start(cs_packets_max: usize, spec: ListenSpec) -> Result<Self, Box<dyn std::error::Error>> {
        let mut config = Config::new(|_| [0; 32]);
        config.cs.packets_max = cs_packets_max;
        let core = Arc::new(Core::new(config, 1)?);
        let (plane, inbox) = DataPlane::start(DataPlaneOptions::default(), core.clone())?;
        let local = plane.listen(spec)?;
        Ok(Router { plane, inbox, core, local })
    }

    fn connect(&self) -> std::io::Result<(Box<dyn Stream>, FaceId)> {
        let stream: Box<dyn Stream> = match &self.local {
            FaceUri::Unix(path) => Box::new(UnixStream::connect(path)?),
            uri => Box::new(TcpStream::connect(uri.address().ok_or(std::io::ErrorKind::AddrNotAvailable)?)?),
        };
        Ok((stream, new_face(&self.inbox)))
    }

    fn route_to(&self, face: FaceId) -> Result<(), Box<dyn std::error::Error>> {
        Ok(self.core.fib().add_nexthop("/bench".parse::<Name>()?.as_name(), face, 0)?)
    }
}

/// Routes Interests of `near` to `far` over UDP.
fn link(near: &Router, far: &Router) -> Result<(), Box<dyn std::error::Error>> {
    let remote = far.plane.listen(ListenSpec::Udp(([127, 0, 0, 1], 0).into()))?;
    let settings = FaceSettings { persistency: Some(FacePersistency::Permanent), ..FaceSettings::default() };
    let face = near.plane.create_face(FaceSpec { remote, local: None, settings })?;
    near.route_to(FaceId(face.face_id))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let kind = arguments.first().map_or("unix", |kind| kind.as_str());
    let (content, window, seconds) = (number(1, 8000)? as usize, number(2, 64)?, number(3, 3)?);
    let cs_packets_max = number(4, 65_536)? as usize;

    let directory = std::env::temp_dir().join(format!("namely-exchange-{}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let unix = |name: &str| ListenSpec::Unix { path: directory.join(name), mode: 0o600 };
    let near = match kind {
        "tcp" => Router::start(cs_packets_max, ListenSpec::Tcp(([127, 0, 0, 1], 0).into()))?,
        _ => Router::start(cs_packets_max, unix("near"))?,
    };
    let (consumer, _) = near.connect()?;
    let far = if kind == "udp" { Some(Router::start(cs_packets_max, unix("far"))?) } else { None };
    let last = far.as_ref().unwrap_or(&near);
    let (producer, face) = last.connect()?;
    last.route_to(face)?;
    if let Some(far) = &far {
        link(&near, far)?;
    }

    let (received, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
        std::thread::Builder::new().name(name.into()).spawn(work)
    };
    let (counted, stopped) = (received.clone(), stop.clone());
    let consuming = spawn("consumer", Box::new(move || consume(consumer, window, &counted, &stopped)))?;
    let producing = spawn("producer", Box::new(move || produce(producer, content)))?;
    std::thread::sleep(Duration::from_millis(500));
    let (start, before, count_before) = (Instant::now(), thread_times(), received.load(Ordering::Relaxed));
    std::thread::sleep(Duration::from_secs(seconds));
    let (elapsed, after) = (start.elapsed(), thread_times());
    let exchanges = received.load(Ordering::Relaxed) - count_before;
    stop.store(true, Ordering::Relaxed);

    let rate = exchanges as f64 / elapsed.as_secs_f64();
    println!("{rate:.0} exchanges/s, {:.2} Gbit/s of content", rate * content as f64 * 8.0 / 1e9);
    for (name, ns) in after {
        let earlier = before.get(&name).copied().unwrap_or(0);
        println!(
            "{name:>16}: {:.2} us CPU per exchange",
            (ns - earlier) as f64 / 1e3 / exchanges.max(1) as f64
        );
    }
    for router in [Some(&near), far.as_ref()].into_iter().flatten() {
        for counter in router.plane.counters() {
            println!("{} of face {:?}: {}", counter.label, counter.face_id, counter.value);
        }
    }
    near.plane.stop();
    if let Some(far) = far {
        far.plane.stop();
    }
    consuming.join().map_err(|_| "the consumer failed")?;
    producing.join().map_err(|_| "the producer failed")?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
