//! The ends: a producer that answers every Interest, and consumers that read whole objects one
//! after the other with a window of a fixed size. They read the objects of a catalogue by
//! popularity, or one repeatedly. Each packet's content follows from its name, and is compared.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use namely_bench::error::Error;
use namely_sim::{Random, ndise::OBJECTS};
use namely_transport::Nonces;
use namely_transport::connection::{Connection, Incoming, Options, Outbox, Packet};
use namely_transport::fetch::PieceInterest;
use namely_wire::{DataBuilder, Name, SignatureInfo};

/// Packets of an object.
pub(super) const PACKETS: u64 = 128;
/// Octets of a packet's content.
pub(super) const CONTENT_OCTETS: usize = 6_400;
/// Octets of an object.
pub(super) const OBJECT_OCTETS: u64 = PACKETS * CONTENT_OCTETS as u64;

/// A consumer's Interests under way.
const WINDOW: usize = 24;
/// A consumer's maximum rate, bits per second.
pub(super) const CONSUMER_BPS: u64 = 12_000_000;
/// A consumer's timeout for retransmissions.
const RTO: Duration = Duration::from_secs(2);

/// The weight of the most popular object.
const WEIGHT: u64 = 1 << 40;

/// Interval between two checks for the end.
const LOOK_NS: u64 = 50_000_000;

/// The measurements of a consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ConsumerResult {
    pub(super) bps: f64,
    pub(super) delay_ms: f64,
    pub(super) objects: u64,
    pub(super) retransmissions: u64,
    /// Packets with other content than their names'. They do not count as received.
    pub(super) wrong: u64,
    /// True if the last object was received completely.
    pub(super) has_finished: bool,
}

/// The behavior of a consumer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habit {
    /// Maximum number of Interests under way.
    pub(super) window: usize,
    /// Minimum interval between two new Interests.
    pub(super) interval_ns: u64,
    /// Packets of an object.
    pub(super) packets: u64,
    /// The choice of the next object.
    pub(super) choice: Choice,
}

/// A consumer's choice of the next object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Choice {
    /// Objects by popularity. Equal seeds yield equal sequences.
    Popular(u64),
    /// Always the same object.
    Always(usize),
}

impl Habit {
    /// The habit of a consumer in section 5.2 of the N-DISE paper.
    pub(super) fn popular(seed: u64) -> Self {
        let interval_ns = CONTENT_OCTETS as u64 * 8_000_000_000 / CONSUMER_BPS;
        Habit { window: WINDOW, interval_ns, packets: PACKETS, choice: Choice::Popular(seed) }
    }
}

/// The octets from which content is cut. The cut follows from the name.
#[derive(Debug)]
pub(super) struct Contents(Vec<u8>);

/// Number of positions at which content is cut.
const CUTS: u64 = 8_192;

impl Contents {
    pub(super) fn new() -> Self {
        let mut random = Random::new(15);
        Contents((0..CUTS as usize + CONTENT_OCTETS).map(|_| random.below(256) as u8).collect())
    }

    /// The content of a name's Data, in two parts: 8 octets of the name's hash, and octets from the
    /// cut on.
    pub(super) fn of(&self, name: &[u8]) -> ([u8; 8], &[u8]) {
        // FNV-1a suffices: these names are not chosen by an attacker.
        let hash = name.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
            (hash ^ u64::from(*octet)).wrapping_mul(0x100_0000_01b3)
        });
        let cut = (hash % CUTS) as usize;
        (hash.to_be_bytes(), &self.0[cut..cut + CONTENT_OCTETS - 8])
    }

    /// Returns true if `content` belongs to `name`.
    pub(super) fn is_of(&self, name: &[u8], content: &[u8]) -> bool {
        let (own, rest) = self.of(name);
        content.len() == CONTENT_OCTETS && content.starts_with(&own) && content.ends_with(rest)
    }
}

/// The name of an object's one file.
pub(super) fn file(object: usize) -> Name {
    Name::new().join_generic("store").join_generic(object.to_string()).join_generic("f")
}

fn connect(router: &str, options: Options) -> Result<Connection, Error> {
    Connection::find(Some(router), options).map_err(|e| Error::Subject(e.to_string()))
}

/// Answers every Interest below /store until it is over.
pub(super) fn serve(router: &str, is_over: &AtomicBool) -> Result<(), Error> {
    let mut connection = connect(router, Options::for_server())?;
    let (contents, mut content) = (Contents::new(), Vec::with_capacity(CONTENT_OCTETS));
    let mut answer = |incoming: Incoming<'_>, outbox: &mut Outbox| {
        if let Packet::Interest(interest) = incoming.packet {
            let (own, rest) = contents.of(interest.name.as_bytes());
            content.clear();
            content.extend_from_slice(&own);
            content.extend_from_slice(rest);
            let data = DataBuilder::new(interest.name).freshness_ms(3_600_000);
            let data = data.build(&content, &SignatureInfo::digest_sha256()).finish(&[0; 32]);
            outbox.send(&incoming.answer_headers(), &data);
        }
    };
    let store = Name::new().join_generic("store");
    connection.register(&store, &mut answer).map_err(|e| Error::Subject(e.to_string()))?;
    while !is_over.load(Ordering::Relaxed) {
        let until_ns = connection.now_ns() + LOOK_NS;
        connection.turn(until_ns, &mut answer).map_err(|e| Error::Subject(e.to_string()))?;
    }
    Ok(())
}

/// A consumer.
struct Reader {
    habit: Habit,
    contents: Contents,
    templates: Vec<PieceInterest>,
    /// Sums of the objects' weights up to each.
    weights: Vec<u64>,
    random: Random,
    object: usize,
    next: u64,
    come: u64,
    next_ns: u64,
    /// For each packet under way, the times of its first request and of its next one.
    waiting: BTreeMap<u64, (u64, u64)>,
    from_ns: u64,
    data: u64,
    delay_ns: u64,
    got: ConsumerResult,
    /// If true, the reader begins no further object.
    is_closing: bool,
}

/// Reads for `warm` and then for `counted`. Only the second is measured.
pub(super) fn read(
    router: &str,
    habit: Habit,
    warm: Duration,
    counted: Duration,
    is_over: &AtomicBool,
) -> Result<ConsumerResult, Error> {
    let mut connection = connect(router, Options::default())?;
    let from_ns = connection.now_ns() + warm.as_nanos() as u64;
    let end_ns = from_ns + counted.as_nanos() as u64;
    let mut reader = Reader::new(habit, from_ns);
    while connection.now_ns() < end_ns && !is_over.load(Ordering::Relaxed) {
        reader.turn(&mut connection, end_ns)?;
    }
    let Reader { mut got, data, delay_ns, .. } = reader;
    got.bps = data as f64 * CONTENT_OCTETS as f64 * 8.0 / counted.as_secs_f64();
    got.delay_ms = delay_ns as f64 / data.max(1) as f64 / 1e6;
    Ok(got)
}

/// Reads until it is stopped, and then finishes the current object, for no longer than `grace`.
/// Octets of content are added to `octets` as they arrive.
pub(super) fn read_on(
    router: &str,
    habit: Habit,
    octets: &AtomicU64,
    is_over: &AtomicBool,
    grace: Duration,
) -> Result<ConsumerResult, Error> {
    let mut connection = connect(router, Options::default())?;
    let mut reader = Reader::new(habit, connection.now_ns());
    let (mut recorded, mut end_ns) = (0, u64::MAX);
    while connection.now_ns() < end_ns && !reader.got.has_finished {
        if !reader.is_closing && is_over.load(Ordering::Relaxed) {
            reader.is_closing = true;
            end_ns = connection.now_ns() + grace.as_nanos() as u64;
        }
        reader.turn(&mut connection, end_ns)?;
        octets.fetch_add((reader.data - recorded) * CONTENT_OCTETS as u64, Ordering::Relaxed);
        recorded = reader.data;
    }
    Ok(reader.got)
}

impl Reader {
    fn new(habit: Habit, from_ns: u64) -> Self {
        let mut sum = 0;
        let weights = (1..=OBJECTS as u64).map(|rank| {
            sum += WEIGHT / rank;
            sum
        });
        let lifetime_ms = RTO.as_millis() as u64;
        let seed = if let Choice::Popular(seed) = habit.choice { seed } else { 0 };
        Reader {
            habit,
            contents: Contents::new(),
            templates: (0..OBJECTS).map(|k| PieceInterest::new(file(k).as_name(), lifetime_ms)).collect(),
            weights: weights.collect(),
            random: Random::new(seed),
            object: 0,
            next: habit.packets,
            come: habit.packets,
            next_ns: 0,
            waiting: BTreeMap::new(),
            from_ns,
            data: 0,
            delay_ns: 0,
            got: ConsumerResult::default(),
            is_closing: false,
        }
    }

    /// Sends the Interests that the window allows, and receives until it allows more.
    fn turn(&mut self, connection: &mut Connection, end_ns: u64) -> Result<(), Error> {
        let now_ns = connection.now_ns();
        let (nonces, outbox) = connection.sending();
        let due_ns = self.send_due(now_ns, nonces, outbox).min(end_ns).min(now_ns + LOOK_NS);
        let mut take = |incoming: Incoming<'_>, _: &mut Outbox| self.take(&incoming);
        connection.turn(due_ns, &mut take).map_err(|e| Error::Subject(e.to_string()))?;
        Ok(())
    }

    /// Sends the Interests that the window allows. Returns the time of the next call.
    fn send_due(&mut self, now_ns: u64, nonces: &mut Nonces, outbox: &mut Outbox) -> u64 {
        let mut interest = Vec::new();
        let mut send = |template: &PieceInterest, piece: u64| {
            interest.clear();
            template.write(piece, false, nonces.next(), &mut interest);
            outbox.send(&Default::default(), &interest);
        };
        for (piece, (_, again_ns)) in self.waiting.iter_mut().filter(|(_, (_, again_ns))| *again_ns <= now_ns)
        {
            *again_ns = now_ns + RTO.as_nanos() as u64;
            self.got.retransmissions += 1;
            send(&self.templates[self.object], *piece);
        }
        let Habit { window, interval_ns, packets, choice } = self.habit;
        while self.waiting.len() < window && now_ns >= self.next_ns {
            if self.next == packets {
                if self.come < packets {
                    break;
                }
                if self.is_closing {
                    self.got.has_finished = true;
                    return now_ns;
                }
                self.object = match choice {
                    Choice::Always(object) => object,
                    Choice::Popular(_) => {
                        let drawn = self.random.below(self.weights.last().copied().unwrap_or(0));
                        self.weights.partition_point(|sum| *sum <= drawn)
                    }
                };
                (self.next, self.come) = (0, 0);
            }
            // After a late wake-up, the consumer sends the missed Interests at once, but at most a
            // window of them.
            self.next_ns =
                (self.next_ns + interval_ns).max(now_ns.saturating_sub(window as u64 * interval_ns));
            self.waiting.insert(self.next, (now_ns, now_ns + RTO.as_nanos() as u64));
            send(&self.templates[self.object], self.next);
            self.next += 1;
        }
        let has_more = self.next < packets || self.come == packets;
        let may_send = self.waiting.len() < window && has_more;
        let again_ns = self.waiting.values().map(|(_, again_ns)| *again_ns).min().unwrap_or(u64::MAX);
        if may_send { again_ns.min(self.next_ns) } else { again_ns }
    }

    fn take(&mut self, incoming: &Incoming<'_>) {
        let Packet::Data(data) = incoming.packet else { return };
        let piece = self.templates[self.object].piece(data.name);
        let Some(piece) = piece.filter(|piece| self.waiting.contains_key(piece)) else { return };
        if !self.contents.is_of(data.name.as_bytes(), data.content) {
            self.got.wrong += 1;
            return;
        }
        let Some((sent_ns, _)) = self.waiting.remove(&piece) else { return };
        self.come += 1;
        if incoming.received_ns >= self.from_ns {
            self.got.objects += u64::from(self.come == self.habit.packets);
            self.data += 1;
            self.delay_ns += incoming.received_ns.saturating_sub(sent_ns);
        }
    }
}
