//! Traffic of a router for live displays: a [`Sample`] is a snapshot of its datasets, and [`Rates`]
//! are the numbers per second between two samples.

use std::collections::HashMap;
use std::time::Instant;

use namely_messages::{Counter, CsDiskStatus, CsInfo, FaceStatus, GeneralStatus};

use crate::{Client, ClientError};

/// A snapshot of a router.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Time at which the snapshot was complete.
    pub at: Instant,
    /// Totals of the router.
    pub status: GeneralStatus,
    /// Its faces.
    pub faces: Vec<FaceStatus>,
    /// Counters of drops and other events, with a few current values such as the octets in the
    /// content store; empty for routers other than namely's.
    pub counters: Vec<Counter>,
    /// Content store in memory.
    pub cs: CsInfo,
    /// Disk of the content store, if there is one.
    pub disk: Option<CsDiskStatus>,
}

impl Sample {
    /// Takes a snapshot. From other routers than namely's it has no counters and no disk.
    ///
    /// # Errors
    /// Those of [`Client::status`].
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

    /// Returns true if the router has not restarted between this sample and a later one.
    pub fn is_same_run(&self, later: &Sample) -> bool {
        if self.status.start_ms == later.status.start_ms {
            return true;
        }
        // The start on the wall clock changes when the clock is set; the uptime goes on.
        let (Some(old), Some(new)) = (&self.status.details, &later.status.details) else { return false };
        let elapsed_ms = later.at.duration_since(self.at).as_millis();
        u128::from(new.uptime_ms) + RUN_SLACK_MS >= u128::from(old.uptime_ms) + elapsed_ms
    }
}

/// The time by which two samples may differ from their uptimes, ms.
const RUN_SLACK_MS: u128 = 1000;

/// Rates between two samples, per second.
#[derive(Clone, Debug)]
pub struct Rates {
    /// Totals of the router.
    pub heading: Heading,
    /// The faces, in the order of the later sample.
    pub faces: Vec<FaceRates>,
    /// All counters: by decreasing rate, then by decreasing total.
    pub events: Vec<Event>,
}

/// Totals of a router.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The router's name and version.
    pub version: String,
    /// Uptime in s.
    pub up_s: u64,
    /// Number of faces.
    pub faces: usize,
    /// Number of routes; `None` if the router does not report it.
    pub routes: Option<u64>,
    /// Pending Interests.
    pub pit_entries: u64,
    /// Prefixes with next hops.
    pub fib_entries: u64,
    /// Interests per second, in and out.
    pub interests: [f64; 2],
    /// Data per second, in and out.
    pub data: [f64; 2],
    /// Nacks per second, in and out.
    pub nacks: [f64; 2],
    /// Octets per second, in and out. They include faces that closed meanwhile, if the router
    /// reports their octets.
    pub octets: [f64; 2],
    /// Share of satisfied Interests among those that ended; `None` if none ended.
    pub satisfied: Option<f64>,
    /// PIT entries that ended per second.
    pub ended: f64,
    /// Tiers of the content store, memory first.
    pub tiers: Vec<Tier>,
    /// Longest loop iteration of each worker since its start, us.
    pub turns_us: Vec<(String, u64)>,
}

/// A tier of the content store.
#[derive(Clone, Debug)]
pub struct Tier {
    /// `memory` or `disk`.
    pub name: &'static str,
    /// Data stored.
    pub entries: u64,
    /// Octets of the stored Data.
    pub octets: u64,
    /// Hits per second.
    pub hits: f64,
    /// Misses per second.
    pub misses: f64,
}

/// Traffic of a face per second, in and out.
#[derive(Clone, Debug, PartialEq)]
pub struct FaceRates {
    /// FaceId.
    pub id: u64,
    /// Its remote URI.
    pub remote: String,
    /// The program at the other end, if the router knows it.
    pub process: Option<String>,
    /// Octets.
    pub octets: [f64; 2],
    /// Interests.
    pub interests: [f64; 2],
    /// Data.
    pub data: [f64; 2],
    /// Nacks.
    pub nacks: [f64; 2],
}

/// A counter.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its label. docs/counters.md lists all labels.
    pub name: String,
    /// Its face; `None` for the whole router.
    pub face: Option<u64>,
    /// Rate per second.
    pub rate: f64,
    /// Total.
    pub total: u64,
}

impl Rates {
    /// Returns the rates between a sample and a later one of the same router.
    pub fn between(before: &Sample, now: &Sample) -> Self {
        let seconds = now.at.duration_since(before.at).as_secs_f64().max(1e-3);
        let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
        let known: HashMap<u64, &FaceStatus> = before.faces.iter().map(|face| (face.face_id, face)).collect();
        let faces = now.faces.iter().map(|face| {
            // All traffic of a new face belongs to this period.
            let nothing = FaceStatus::default();
            let old = known.get(&face.face_id).filter(|old| old.uri == face.uri).map_or(&nothing, |old| *old);
            FaceRates {
                id: face.face_id,
                remote: face.uri.clone(),
                process: face.process(),
                octets: [rate(old.in_octets, face.in_octets), rate(old.out_octets, face.out_octets)],
                interests: [
                    rate(old.in_interests, face.in_interests),
                    rate(old.out_interests, face.out_interests),
                ],
                data: [rate(old.in_data, face.in_data), rate(old.out_data, face.out_data)],
                nacks: [rate(old.in_nacks, face.in_nacks), rate(old.out_nacks, face.out_nacks)],
            }
        });
        let faces: Vec<FaceRates> = faces.collect();
        let mut heading = heading(before, now, rate);
        heading.octets = match (&before.status.details, &now.status.details) {
            (Some(old), Some(new)) => {
                [rate(old.in_octets, new.in_octets), rate(old.out_octets, new.out_octets)]
            }
            _ => [0, 1].map(|way| faces.iter().map(|face| face.octets[way]).sum()),
        };
        Rates { faces, events: events(before, now, rate), heading }
    }
}

impl Rates {
    /// Subtracts the traffic of the client that polls, at the face `face`, from the totals. The
    /// router answers its Interests from a face of its own, so each Interest and each Data counts
    /// in both directions. Otherwise an idle router would show the polling as its traffic.
    pub fn exclude_client(&mut self, face: u64) {
        let Some(own) = self.faces.iter().find(|of| of.id == face) else { return };
        let less = |from: f64, of: f64| (from - of).max(0.0);
        let heading = &mut self.heading;
        let ([interests, _], [_, data], [_, nacks]) = (own.interests, own.data, own.nacks);
        heading.interests = heading.interests.map(|rate| less(rate, interests));
        heading.data = heading.data.map(|rate| less(rate, data));
        heading.nacks[1] = less(heading.nacks[1], nacks);
        for (rate, own) in heading.octets.iter_mut().zip(own.octets) {
            *rate = less(*rate, own);
        }
        let satisfied = less(heading.satisfied.unwrap_or(0.0) * heading.ended, data);
        heading.ended = less(heading.ended, data);
        // Rates of a second are whole numbers. Less than that is an error of rounding.
        heading.satisfied = (heading.ended > ENDED_MIN).then(|| (satisfied / heading.ended).clamp(0.0, 1.0));
        if let Some(memory) = heading.tiers.first_mut() {
            memory.misses = less(memory.misses, interests);
        }
        // The request for the status is pending while the router answers it.
        heading.pit_entries = heading.pit_entries.saturating_sub(1);
    }
}

/// Ended PIT entries per second from which on their share is shown, without those of the client.
const ENDED_MIN: f64 = 0.05;

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
        up_s: status.uptime_ms() / 1000,
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
        octets: [0.0; 2],
        satisfied: (ended > 0.0).then(|| satisfied / ended),
        ended,
        tiers,
        turns_us: turns.collect(),
    }
}

/// Excluded from the events, because it is a current value. So are the longest iterations of
/// workers.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A router of which a client asks six times a second, and others four times. Data satisfied
    /// `satisfied` of these four.
    fn polled(others: f64, satisfied: f64) -> Rates {
        let all = 6.0 + others;
        let memory = Tier { name: "memory", entries: 0, octets: 0, hits: 0.0, misses: all };
        let client = FaceRates {
            id: 300,
            remote: "fd://9".into(),
            process: None,
            octets: [500.0, 9_000.0],
            interests: [6.0, 0.0],
            data: [0.0, 6.0],
            nacks: [0.0; 2],
        };
        Rates {
            heading: Heading {
                version: "namely-0".into(),
                up_s: 1,
                faces: 2,
                routes: None,
                pit_entries: 1,
                fib_entries: 1,
                interests: [all; 2],
                data: [6.0 + satisfied; 2],
                nacks: [0.0; 2],
                octets: [500.0 + others, 9_000.0],
                satisfied: Some((6.0 + satisfied) / all),
                ended: all,
                tiers: vec![memory],
                turns_us: Vec::new(),
            },
            faces: vec![client],
            events: Vec::new(),
        }
    }

    #[test]
    fn polling_an_idle_router_is_no_traffic() {
        let mut rates = polled(0.0, 0.0);
        rates.exclude_client(300);
        let heading = &rates.heading;
        assert_eq!((heading.interests, heading.data), ([0.0; 2], [0.0; 2]));
        assert_eq!((heading.satisfied, heading.pit_entries, heading.tiers[0].misses), (None, 0, 0.0));
    }

    #[test]
    fn the_traffic_of_others_stays() {
        let mut rates = polled(4.0, 2.0);
        rates.exclude_client(300);
        let heading = &rates.heading;
        assert_eq!((heading.interests, heading.data), ([4.0; 2], [2.0; 2]));
        assert_eq!(heading.octets, [4.0, 0.0]);
        assert!((heading.satisfied.unwrap() - 0.5).abs() < 1e-9 && heading.tiers[0].misses == 4.0);
        let mut rates = polled(4.0, 2.0);
        rates.exclude_client(301);
        assert_eq!(rates.heading.interests, [10.0; 2], "there is no such face");
    }
}
