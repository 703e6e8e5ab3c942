//! What passed between two looks at a router: a [`Sample`] is what it tells at one time, [`Rates`]
//! the numbers a second between two of them. For whoever shows a router while it works.

use std::collections::HashMap;
use std::time::Instant;

use namely_wire::mgmt::{Counter, CsDiskStatus, CsInfo, FaceStatus, GeneralStatus};

use crate::{Client, ClientError};

/// What a router tells at one time.
#[derive(Clone, Debug)]
pub struct Sample {
    /// When it had told all.
    pub at: Instant,
    /// The router as a whole.
    pub status: GeneralStatus,
    /// Its faces.
    pub faces: Vec<FaceStatus>,
    /// What was dropped and why; empty of another router than namely's.
    pub counters: Vec<Counter>,
    /// Its content store in memory.
    pub cs: CsInfo,
    /// The content store's disk, if there is one.
    pub disk: Option<CsDiskStatus>,
}

impl Sample {
    /// Asks a router. Another than namely's tells no counters of drops and no disk.
    ///
    /// # Errors
    /// As of [`Client::status`].
    pub fn take(router: &mut Client) -> Result<Self, ClientError> {
        Ok(Sample {
            status: router.status()?,
            faces: router.faces()?,
            cs: router.cs_info()?,
            counters: router.counters().unwrap_or_default(),
            disk: router.cs_disk().unwrap_or_default(),
            at: Instant::now(),
        })
    }
}

/// The same for a time between two samples: numbers a second.
#[derive(Clone, Debug)]
pub struct Rates {
    /// The router as a whole.
    pub heading: Heading,
    /// In the order of the later sample.
    pub faces: Vec<FaceRates>,
    /// What is counted just now, the most frequent first, and then what was counted before.
    pub events: Vec<Event>,
}

/// A router as a whole.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The router's name and version.
    pub version: String,
    /// For how long it has run, s.
    pub up_s: u64,
    /// Faces.
    pub faces: usize,
    /// Routes of all names; `None` if the router does not say.
    pub routes: Option<u64>,
    /// Interests that pend.
    pub pit_entries: u64,
    /// Prefixes with next hops.
    pub fib_entries: u64,
    /// Interests a second, in and out.
    pub interests: [f64; 2],
    /// Data a second, in and out.
    pub data: [f64; 2],
    /// Nacks a second, in and out.
    pub nacks: [f64; 2],
    /// Of the Interests that ended, the part that Data satisfied; `None` if none ended.
    pub satisfied: Option<f64>,
    /// Tiers of the content store, memory first.
    pub tiers: Vec<Tier>,
    /// The longest turn of each worker since it began, us.
    pub turns_us: Vec<(String, u64)>,
}

/// A tier of the content store.
#[derive(Clone, Debug)]
pub struct Tier {
    /// `memory` or `disk`.
    pub name: &'static str,
    /// Data stored.
    pub entries: u64,
    /// Octets that they take.
    pub octets: u64,
    /// Hits a second.
    pub hits: f64,
    /// Misses a second.
    pub misses: f64,
}

/// What passes a face a second, in and out.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceRates {
    /// FaceId.
    pub id: u64,
    /// Its remote URI.
    pub remote: String,
    /// Octets.
    pub octets: [f64; 2],
    /// Interests.
    pub interests: [f64; 2],
    /// Data.
    pub data: [f64; 2],
    /// Nacks.
    pub nacks: [f64; 2],
}

/// Something that is counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// What; docs/counters.md lists it.
    pub name: String,
    /// The face that it belongs to; `None` for the whole router.
    pub face: Option<u64>,
    /// How often a second.
    pub rate: f64,
    /// How often in all.
    pub total: u64,
}

impl Rates {
    /// What passed from one sample to a later one of the same router.
    pub fn between(before: &Sample, now: &Sample) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let known: HashMap<u64, &FaceStatus> = before.faces.iter().map(|face| (face.face_id, face)).collect();
        let faces = now.faces.iter().map(|face| {
            // Who came meanwhile has all that it did from this time.
            let nothing = FaceStatus::default();
            let old = known.get(&face.face_id).filter(|old| old.uri == face.uri).map_or(&nothing, |old| *old);
            FaceRates {
                id: face.face_id,
                remote: face.uri.clone(),
                octets: [rate(old.in_octets, face.in_octets), rate(old.out_octets, face.out_octets)],
                interests: [
                    rate(old.in_interests, face.in_interests),
                    rate(old.out_interests, face.out_interests),
                ],
                data: [rate(old.in_data, face.in_data), rate(old.out_data, face.out_data)],
                nacks: [rate(old.in_nacks, face.in_nacks), rate(old.out_nacks, face.out_nacks)],
            }
        });
        Rates {
            faces: faces.collect(),
            events: events(before, now, rate),
            heading: heading(before, now, rate),
        }
    }
}

fn heading(before: &Sample, now: &Sample, rate: impl Fn(u64, u64) -> f64) -> Heading {
    let (old, status) = (&before.status, &now.status);
    let satisfied = rate(old.satisfied_interests, status.satisfied_interests);
    let ended = satisfied + rate(old.unsatisfied_interests, status.unsatisfied_interests);
    let octets = now.counters.iter().find(|counter| counter.label == CS_OCTETS);
    let mut tiers = vec![Tier {
        name: "memory",
        entries: now.cs.entries,
        octets: octets.map_or(0, |counter| counter.value),
        hits: rate(before.cs.hits, now.cs.hits),
        misses: rate(before.cs.misses, now.cs.misses),
    }];
    let of = |disk: &CsDiskStatus, label: &str| {
        disk.counters.iter().find(|counter| counter.label == label).map_or(0, |counter| counter.value)
    };
    tiers.extend(now.disk.as_ref().map(|disk| Tier {
        name: "disk",
        entries: disk.records,
        octets: disk.octets,
        hits: rate(before.disk.as_ref().map_or(0, |old| of(old, "hits")), of(disk, "hits")),
        misses: rate(before.disk.as_ref().map_or(0, |old| of(old, "misses")), of(disk, "misses")),
    }));
    let turns = now.counters.iter().filter_map(|counter| {
        let worker = counter.label.strip_suffix(".longest_turn_us")?;
        Some((worker.to_owned(), counter.value))
    });
    Heading {
        version: status.version.clone(),
        up_s: status.current_ms.saturating_sub(status.start_ms) / 1000,
        faces: now.faces.len(),
        routes: status.routes,
        pit_entries: status.pit_entries,
        fib_entries: status.fib_entries,
        interests: [
            rate(old.in_interests, status.in_interests),
            rate(old.out_interests, status.out_interests),
        ],
        data: [rate(old.in_data, status.in_data), rate(old.out_data, status.out_data)],
        nacks: [rate(old.in_nacks, status.in_nacks), rate(old.out_nacks, status.out_nacks)],
        satisfied: (ended > 0.0).then(|| satisfied / ended),
        tiers,
        turns_us: turns.collect(),
    }
}

/// No counter but what is there now, as the turns of workers are none.
const CS_OCTETS: &str = "forwarder.cs_octets";

fn events(before: &Sample, now: &Sample, rate: impl Fn(u64, u64) -> f64) -> Vec<Event> {
    let key = |counter: &Counter| (counter.label.clone(), counter.face_id);
    let known: HashMap<_, u64> =
        before.counters.iter().map(|counter| (key(counter), counter.value)).collect();
    let is_event = |counter: &&Counter| counter.label != CS_OCTETS && !counter.label.contains("longest_turn");
    let events = now.counters.iter().filter(is_event).map(|counter| Event {
        name: counter.label.clone(),
        face: counter.face_id,
        rate: rate(known.get(&key(counter)).copied().unwrap_or(0), counter.value),
        total: counter.value,
    });
    let mut events: Vec<Event> = events.collect();
    events.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(b.total.cmp(&a.total)).then(a.name.cmp(&b.name)));
    events
}
