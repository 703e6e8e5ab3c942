//! What is remembered of stations that are no neighbours, or behave badly: how many messages they
//! may send, their faults, and which key they had.

use alloc::collections::BTreeMap;

use crate::interface::InterfaceId;
use crate::limits::{
    KEY_NS, STATION_BURST, STATION_PER_SECOND, STATIONS_MAX, STRANGERS_BURST, STRANGERS_PER_SECOND,
};
use crate::station::{Key, Station};

const SECOND_NS: u64 = 1_000_000_000;

/// Tokens that come back with time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// Billionths of a token.
    level: u64,
    at_ns: u64,
    burst: u64,
    per_second: u64,
}

impl Bucket {
    fn new(burst: u64, per_second: u64, now_ns: u64) -> Self {
        Bucket { level: burst * SECOND_NS, at_ns: now_ns, burst, per_second }
    }

    pub(crate) fn of_station(now_ns: u64) -> Self {
        Self::new(STATION_BURST, STATION_PER_SECOND, now_ns)
    }

    /// Takes a token, if there is one.
    pub(crate) fn take(&mut self, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.at_ns);
        self.at_ns = now_ns;
        let more = passed_ns.saturating_mul(self.per_second);
        self.level = self.level.saturating_add(more).min(self.burst * SECOND_NS);
        if self.level < SECOND_NS {
            return false;
        }
        self.level -= SECOND_NS;
        true
    }
}

#[derive(Debug)]
struct Suspect {
    bucket: Bucket,
    /// Faults, in billionths; one is forgiven each second.
    faults: u64,
    at_ns: u64,
    quarantined_ns: Option<u64>,
    /// The key that it had as a neighbour, and until when that counts, ns.
    key: Option<(Key, u64)>,
    is_noted: bool,
}

/// The stations of all links.
#[derive(Debug)]
pub(crate) struct Suspects {
    stations: BTreeMap<(InterfaceId, Station), Suspect>,
    strangers: Bucket,
    swept_ns: u64,
}

/// What a fault led to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) is_newly_quarantined: bool,
}

impl Suspects {
    pub(crate) fn new(now_ns: u64) -> Self {
        let strangers = Bucket::new(STRANGERS_BURST, STRANGERS_PER_SECOND, now_ns);
        Suspects { stations: BTreeMap::new(), strangers, swept_ns: now_ns }
    }

    /// How many are remembered.
    pub(crate) fn len(&self) -> usize {
        self.stations.len()
    }

    /// A stranger's message may be looked at.
    pub(crate) fn admit_stranger(&mut self, now_ns: u64) -> bool {
        self.strangers.take(now_ns)
    }

    /// This station may send another message; one that cannot be remembered may.
    pub(crate) fn admit(&mut self, at: (InterfaceId, Station), now_ns: u64) -> bool {
        self.entry(at, now_ns).is_none_or(|suspect| suspect.bucket.take(now_ns))
    }

    pub(crate) fn is_quarantined(&self, at: (InterfaceId, Station), now_ns: u64) -> bool {
        let until_ns = self.stations.get(&at).and_then(|suspect| suspect.quarantined_ns);
        until_ns.is_some_and(|until_ns| now_ns < until_ns)
    }

    /// Stations in quarantine, and until when, ns.
    pub(crate) fn quarantined(&self, now_ns: u64) -> impl Iterator<Item = (InterfaceId, Station, u64)> {
        self.stations.iter().filter_map(move |(at, suspect)| {
            suspect
                .quarantined_ns
                .filter(|until_ns| now_ns < *until_ns)
                .map(|until_ns| (at.0, at.1, until_ns))
        })
    }

    /// A station did what it should not: `faults` and `quarantine_ns` as configured.
    pub(crate) fn fault(
        &mut self,
        at: (InterfaceId, Station),
        faults: u64,
        quarantine_ns: u64,
        now_ns: u64,
    ) -> Outcome {
        let Some(suspect) = self.entry(at, now_ns) else { return Outcome::default() };
        let forgiven = now_ns.saturating_sub(suspect.at_ns);
        suspect.at_ns = now_ns;
        suspect.faults = suspect.faults.saturating_sub(forgiven).saturating_add(SECOND_NS);
        let is_in = suspect.quarantined_ns.is_some_and(|until_ns| now_ns < until_ns);
        let is_newly_quarantined = !is_in && suspect.faults >= faults.saturating_mul(SECOND_NS);
        if is_newly_quarantined {
            suspect.quarantined_ns = Some(now_ns.saturating_add(quarantine_ns));
            suspect.faults = 0;
        }
        Outcome { is_newly_quarantined }
    }

    /// Returns true the first time that it is asked for a station: people are told of it once.
    pub(crate) fn is_first_note(&mut self, at: (InterfaceId, Station), now_ns: u64) -> bool {
        let suspect = self.entry(at, now_ns);
        suspect.is_some_and(|suspect| !core::mem::replace(&mut suspect.is_noted, true))
    }

    /// A neighbour went without a goodbye: nobody else takes its place for some time.
    pub(crate) fn remember(&mut self, at: (InterfaceId, Station), key: Key, now_ns: u64) {
        if let Some(suspect) = self.entry(at, now_ns) {
            suspect.key = Some((key, now_ns.saturating_add(KEY_NS)));
        }
    }

    /// The key that a station is bound to from before.
    pub(crate) fn key(&self, at: (InterfaceId, Station), now_ns: u64) -> Option<Key> {
        let (key, until_ns) = self.stations.get(&at)?.key?;
        (now_ns < until_ns).then_some(key)
    }

    /// The memory of a station; `None` if there is no room for it.
    fn entry(&mut self, at: (InterfaceId, Station), now_ns: u64) -> Option<&mut Suspect> {
        if self.stations.len() >= STATIONS_MAX && !self.stations.contains_key(&at) {
            self.sweep(now_ns);
            if self.stations.len() >= STATIONS_MAX {
                return None;
            }
        }
        Some(self.stations.entry(at).or_insert_with(|| Suspect {
            bucket: Bucket::of_station(now_ns),
            faults: 0,
            at_ns: now_ns,
            quarantined_ns: None,
            key: None,
            is_noted: false,
        }))
    }

    /// Forgets those of whom there is nothing to remember any more; once a second at most.
    fn sweep(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.swept_ns) < SECOND_NS {
            return;
        }
        self.swept_ns = now_ns;
        self.stations.retain(|_, suspect| {
            let idle_ns = now_ns.saturating_sub(suspect.at_ns.max(suspect.bucket.at_ns));
            suspect.quarantined_ns.is_some_and(|until_ns| now_ns < until_ns)
                || suspect.key.is_some_and(|(_, until_ns)| now_ns < until_ns)
                || suspect.faults > idle_ns
                || idle_ns < SECOND_NS * STATION_BURST / STATION_PER_SECOND
        });
    }
}
