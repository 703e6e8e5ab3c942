//! What passed between two looks at a router.

use std::collections::HashMap;
use std::time::Instant;

use namely_client::Client;
use namely_wire::mgmt::{Counter, CsDiskStatus, CsInfo, FaceStatus, GeneralStatus};
use serde_json::{Value, json};

use super::Sort;
use super::prefixes::Hot;
use crate::failure::Failure;
use crate::output::{Cell, octets_text};

/// What a router tells at one time.
pub(super) struct Sample {
    at: Instant,
    status: GeneralStatus,
    faces: Vec<FaceStatus>,
    counters: Vec<Counter>,
    cs: CsInfo,
    disk: Option<CsDiskStatus>,
}

impl Sample {
    /// Asks a router. Another than namely's tells no counters of drops and no disk.
    pub(super) fn take(router: &mut Client) -> Result<Self, Failure> {
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
pub(super) struct Rates {
    heading: Heading,
    faces: Vec<Face>,
    events: Vec<Event>,
    /// Which prefixes Interests are for, where that was looked at.
    pub(super) prefixes: Vec<Hot>,
}

struct Heading {
    version: String,
    up_s: u64,
    faces: usize,
    routes: Option<u64>,
    pit_entries: u64,
    fib_entries: u64,
    /// In and out.
    interests: [f64; 2],
    data: [f64; 2],
    nacks: [f64; 2],
    /// Of the Interests that ended, those that Data satisfied; `None` if none ended.
    satisfied: Option<f64>,
    tiers: Vec<Tier>,
    /// The longest turn of each worker since it began, us.
    turns_us: Vec<(String, u64)>,
}

/// A tier of the content store.
struct Tier {
    name: &'static str,
    entries: u64,
    octets: u64,
    /// Hits and misses a second.
    hits: f64,
    misses: f64,
}

/// What passes a face.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Face {
    pub(super) id: u64,
    pub(super) remote: String,
    /// In and out.
    pub(super) octets: [f64; 2],
    pub(super) interests: [f64; 2],
    pub(super) data: [f64; 2],
    pub(super) nacks: [f64; 2],
}

/// Something that is counted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) face: Option<u64>,
    pub(super) rate: f64,
    pub(super) total: u64,
}

pub(super) const FACE_COLUMNS: [&str; 8] =
    ["face", "bit/s in", "bit/s out", "Interests in", "Interests out", "Data in", "Data out", "remote"];
pub(super) const EVENT_COLUMNS: [&str; 4] = ["counter", "face", "a second", "in all"];

impl Face {
    pub(super) fn cells(&self) -> Vec<Cell> {
        let rate = |value: f64| Cell::Real(value, 1);
        let [octets_in, octets_out] = self.octets.map(|octets| octets * 8.0);
        let [interests_in, interests_out] = self.interests;
        let [data_in, data_out] = self.data;
        let rates = [octets_in, octets_out, interests_in, interests_out, data_in, data_out].map(rate);
        [self.id.into()].into_iter().chain(rates).chain([self.remote.as_str().into()]).collect()
    }

    fn json(&self) -> Value {
        json!({
            "face_id": self.id, "remote": self.remote,
            "in": {"octets": self.octets[0], "interests": self.interests[0], "data": self.data[0], "nacks": self.nacks[0]},
            "out": {"octets": self.octets[1], "interests": self.interests[1], "data": self.data[1], "nacks": self.nacks[1]},
        })
    }
}

impl Event {
    pub(super) fn cells(&self) -> Vec<Cell> {
        vec![self.name.as_str().into(), self.face.into(), Cell::Real(self.rate, 1), self.total.into()]
    }
}

impl Rates {
    /// What passed from one sample to a later one of the same router.
    pub(super) fn between(before: &Sample, now: &Sample) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let known: HashMap<u64, &FaceStatus> = before.faces.iter().map(|face| (face.face_id, face)).collect();
        let faces = now.faces.iter().map(|face| {
            // Who came meanwhile has all that it did from this time.
            let nothing = FaceStatus::default();
            let old = known.get(&face.face_id).filter(|old| old.uri == face.uri).map_or(&nothing, |old| *old);
            Face {
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
            prefixes: Vec::new(),
            events: events(before, now, rate),
            heading: heading(before, now, rate),
        }
    }

    /// The same, with the prefixes that Interests are for.
    pub(super) fn with_prefixes(self, prefixes: Vec<Hot>) -> Self {
        Rates { prefixes, ..self }
    }

    /// The faces with `filter` in their remote URIs, in an order.
    pub(super) fn faces(&self, sort: Sort, filter: &str) -> Vec<Face> {
        let sum = |both: [f64; 2]| both.iter().sum::<f64>();
        let key = |face: &Face| match sort {
            Sort::Octets => -sum(face.octets),
            Sort::Interests => -sum(face.interests),
            Sort::Data => -sum(face.data),
            Sort::Face => face.id as f64,
        };
        let mut faces: Vec<Face> =
            self.faces.iter().filter(|face| face.remote.contains(filter)).cloned().collect();
        faces.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.id.cmp(&b.id)));
        faces
    }

    /// What is counted just now, the most frequent first, and then what was counted before.
    pub(super) fn events(&self) -> &[Event] {
        &self.events
    }

    /// The router as a whole, in lines of at most 80 columns.
    pub(super) fn heading(&self) -> Vec<String> {
        let h = &self.heading;
        let routes = h.routes.map(|n| format!(", {n} routes")).unwrap_or_default();
        let both = |[inward, outward]: [f64; 2]| format!("{} in, {} out", short(inward), short(outward));
        let satisfied = h.satisfied.map_or("-".into(), |part| format!("{:.0} %", part * 100.0));
        let turns = h.turns_us.iter().map(|(worker, us)| format!("{worker} {:.1} ms", *us as f64 / 1e3));
        let mut lines = vec![
            format!(
                "{}, up {}: {} faces{routes}",
                h.version,
                super::super::status::duration_text(h.up_s),
                h.faces
            ),
            format!(
                "Interests {}; Data {}; Nacks {} (a second)",
                both(h.interests),
                both(h.data),
                both(h.nacks)
            ),
            format!("PIT {} pending, FIB {} prefixes, satisfied {satisfied}", h.pit_entries, h.fib_entries),
        ];
        lines.extend(h.tiers.iter().map(|tier| {
            let asked = tier.hits + tier.misses;
            let ratio = if asked > 0.0 { format!("{:.0} %", tier.hits / asked * 100.0) } else { "-".into() };
            let held = octets_text(tier.octets);
            format!(
                "content store, {}: {} Data, {held}, hits {ratio} of {} a second",
                tier.name,
                tier.entries,
                short(asked)
            )
        }));
        let turns: Vec<String> = turns.collect();
        if !turns.is_empty() {
            lines.push(format!("longest turns so far: {}", turns.join(", ")));
        }
        lines
    }

    pub(super) fn json(&self, sort: Sort, filter: &str) -> Value {
        let h = &self.heading;
        let tiers = h.tiers.iter().map(|tier| {
            json!({"tier": tier.name, "entries": tier.entries, "octets": tier.octets, "hits": tier.hits, "misses": tier.misses})
        });
        let events = self.events.iter().map(|event| {
            json!({"counter": event.name, "face_id": event.face, "rate": event.rate, "total": event.total})
        });
        json!({
            "version": h.version, "up_s": h.up_s, "routes": h.routes, "pit_entries": h.pit_entries,
            "fib_entries": h.fib_entries, "satisfied": h.satisfied,
            "in": {"interests": h.interests[0], "data": h.data[0], "nacks": h.nacks[0]},
            "out": {"interests": h.interests[1], "data": h.data[1], "nacks": h.nacks[1]},
            "cs": tiers.collect::<Vec<_>>(),
            "workers": h.turns_us.iter().map(|(worker, us)| json!({"worker": worker, "longest_turn_us": us})).collect::<Vec<_>>(),
            "faces": self.faces(sort, filter).iter().map(Face::json).collect::<Vec<_>>(),
            "counters": events.collect::<Vec<_>>(),
            "prefixes": self.prefixes.iter().map(Hot::json).collect::<Vec<_>>(),
        })
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

/// A number a second as people read it: 950, 12.3k, 4.56M.
pub(super) fn short(value: f64) -> String {
    match value {
        value if value >= 1e9 => format!("{:.2}G", value / 1e9),
        value if value >= 1e6 => format!("{:.2}M", value / 1e6),
        value if value >= 1e4 => format!("{:.1}k", value / 1e3),
        value => format!("{value:.0}"),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Duration;

    use super::*;

    /// A router at the times 0 and 2 s: face 300 has come meanwhile, and what had its number has
    /// gone.
    pub(in super::super) fn rates() -> Rates {
        let face = |id, uri: &str, octets| FaceStatus {
            face_id: id,
            uri: uri.into(),
            in_octets: octets,
            in_interests: octets / 100,
            out_data: octets / 1000,
            ..FaceStatus::default()
        };
        let at = Instant::now();
        let before = Sample {
            at,
            status: GeneralStatus { version: "namely-0".into(), ..GeneralStatus::default() },
            faces: vec![face(256, "udp4://192.0.2.1:6363", 1000), face(300, "unix://9", 9_000_000)],
            counters: vec![
                Counter::new("forwarder.no_route", 4),
                Counter::new("worker0.longest_turn_us", 900),
            ],
            cs: CsInfo::default(),
            disk: None,
        };
        let now = Sample {
            at: at + Duration::from_secs(2),
            status: GeneralStatus {
                in_interests: 200,
                satisfied_interests: 30,
                unsatisfied_interests: 10,
                current_ms: 61_000,
                version: "namely-0".into(),
                ..GeneralStatus::default()
            },
            faces: vec![face(256, "udp4://192.0.2.1:6363", 3_001_000), face(300, "tcp4://192.0.2.9:1", 4000)],
            counters: vec![
                Counter::new("forwarder.loop", 7),
                Counter::new("forwarder.no_route", 104),
                Counter::new("worker0.longest_turn_us", 1500),
            ],
            cs: CsInfo { entries: 5, hits: 30, misses: 10, ..CsInfo::default() },
            disk: None,
        };
        Rates::between(&before, &now)
    }

    #[test]
    fn rates_are_differences_by_the_time_and_a_number_that_is_given_again_is_another_face() {
        let rates = rates();
        let faces = rates.faces(Sort::Octets, "");
        let of: Vec<_> = faces.iter().map(|face| (face.id, face.octets[0], face.interests[0])).collect();
        assert_eq!(of, [(256, 1_500_000.0, 15_000.0), (300, 2000.0, 20.0)]);
        assert_eq!(rates.faces(Sort::Face, "tcp4").len(), 1);
        let json = rates.json(Sort::Face, "");
        assert_eq!(json["in"]["interests"], 100.0);
        assert_eq!(json["satisfied"], 0.75);
        assert_eq!(json["cs"][0]["hits"], 15.0);
        let counters: Vec<_> = rates.events().iter().map(|event| (event.name.as_str(), event.rate)).collect();
        assert_eq!(counters, [("forwarder.no_route", 50.0), ("forwarder.loop", 3.5)], "and no turns");
        assert_eq!(json["workers"][0]["longest_turn_us"], 1500);
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.0, "0"), (9999.0, "9999"), (12_340.0, "12.3k"), (4_560_000.0, "4.56M"), (2e9, "2.00G")]
        {
            assert_eq!(short(value), text);
        }
    }
}
