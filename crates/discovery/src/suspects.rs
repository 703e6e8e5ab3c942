//! State of link addresses that are not neighbors or that misbehaved: rate limits, faults and
//! former keys.

use alloc::collections::BTreeMap;

use crate::interface::{InterfaceId, NeighborKey};
use crate::limits::{
    KEY_NS, STATION_BURST, STATION_PER_SECOND, STATIONS_MAX, STRANGERS_BURST, STRANGERS_PER_SECOND,
};
use crate::link_address::{Key, LinkAddress};

const SECOND_NS: u64 = 1_000_000_000;

/// A token bucket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bucket {
    /// The level, in billionths of a token.
    level: u64,
    at_ns: u64,
    burst: u64,
    per_second: u64,
}

impl Bucket {
    fn new(burst: u64, per_second: u64, now_ns: u64) -> Self {
        Bucket { level: burst * SECOND_NS, at_ns: now_ns, burst, per_second }
    }

    pub(crate) fn address_bucket(now_ns: u64) -> Self {
        Self::new(STATION_BURST, STATION_PER_SECOND, now_ns)
    }

    /// Takes a token if there is one.
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
    /// The key that the link address had as a neighbor, and the end of its reservation, ns.
    key: Option<(Key, u64)>,
    is_noted: bool,
}

/// The stations of all links.
#[derive(Debug)]
pub(crate) struct Suspects {
    /// The stations by [`NeighborKey::host`], without the port.
    stations: BTreeMap<NeighborKey, Suspect>,
    strangers: Bucket,
    swept_ns: u64,
}

/// The result of a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FaultOutcome {
    pub(crate) is_newly_quarantined: bool,
}

impl Suspects {
    pub(crate) fn new(now_ns: u64) -> Self {
        let strangers = Bucket::new(STRANGERS_BURST, STRANGERS_PER_SECOND, now_ns);
        Suspects { stations: BTreeMap::new(), strangers, swept_ns: now_ns }
    }

    /// Number of entries.
    pub(crate) fn len(&self) -> usize {
        self.stations.len()
    }

    /// Takes a token from the bucket that all peers without the state of a neighbor share.
    pub(crate) fn admit_stranger(&mut self, now_ns: u64) -> bool {
        self.strangers.take(now_ns)
    }

    /// Takes a token of this link address. Also returns true if the table has no room for the
    /// address: then only the bucket of `admit_stranger` limits it.
    pub(crate) fn admit(&mut self, peer: NeighborKey, now_ns: u64) -> bool {
        self.entry(peer, now_ns).is_none_or(|suspect| suspect.bucket.take(now_ns))
    }

    pub(crate) fn is_quarantined(&self, peer: NeighborKey, now_ns: u64) -> bool {
        let until_ns = self.stations.get(&peer.host()).and_then(|suspect| suspect.quarantined_ns);
        until_ns.is_some_and(|until_ns| now_ns < until_ns)
    }

    /// Quarantined link addresses and the end of their quarantine, ns.
    pub(crate) fn quarantined(&self, now_ns: u64) -> impl Iterator<Item = (InterfaceId, LinkAddress, u64)> {
        self.stations.iter().filter_map(move |(at, suspect)| {
            suspect
                .quarantined_ns
                .filter(|until_ns| now_ns < *until_ns)
                .map(|until_ns| (at.interface, at.station, until_ns))
        })
    }

    /// Counts a fault of a peer; `faults` and `quarantine_ns` are the configured limits.
    pub(crate) fn fault(
        &mut self,
        peer: NeighborKey,
        faults: u64,
        quarantine_ns: u64,
        now_ns: u64,
    ) -> FaultOutcome {
        let Some(suspect) = self.entry(peer, now_ns) else { return FaultOutcome::default() };
        let forgiven = now_ns.saturating_sub(suspect.at_ns);
        suspect.at_ns = now_ns;
        suspect.faults = suspect.faults.saturating_sub(forgiven).saturating_add(SECOND_NS);
        let is_quarantined = suspect.quarantined_ns.is_some_and(|until_ns| now_ns < until_ns);
        let is_newly_quarantined = !is_quarantined && suspect.faults >= faults.saturating_mul(SECOND_NS);
        if is_newly_quarantined {
            suspect.quarantined_ns = Some(now_ns.saturating_add(quarantine_ns));
            suspect.faults = 0;
        }
        FaultOutcome { is_newly_quarantined }
    }

    /// Returns true for the first note about a link address, so that only one note is logged.
    pub(crate) fn is_first_note(&mut self, peer: NeighborKey, now_ns: u64) -> bool {
        let suspect = self.entry(peer, now_ns);
        suspect.is_some_and(|suspect| !core::mem::replace(&mut suspect.is_noted, true))
    }

    /// Reserves the link address of a neighbor that left without a goodbye: for some time, only the
    /// neighbor's key may use it.
    pub(crate) fn remember(&mut self, peer: NeighborKey, key: Key, now_ns: u64) {
        if let Some(suspect) = self.entry(peer, now_ns) {
            suspect.key = Some((key, now_ns.saturating_add(KEY_NS)));
        }
    }

    /// The key that a link address is still bound to.
    pub(crate) fn key(&self, peer: NeighborKey, now_ns: u64) -> Option<Key> {
        let (key, until_ns) = self.stations.get(&peer.host())?.key?;
        (now_ns < until_ns).then_some(key)
    }

    /// The entry of a link address; `None` if the table is full.
    fn entry(&mut self, peer: NeighborKey, now_ns: u64) -> Option<&mut Suspect> {
        let at = peer.host();
        if self.stations.len() >= STATIONS_MAX && !self.stations.contains_key(&at) {
            self.sweep(now_ns);
            if self.stations.len() >= STATIONS_MAX {
                return None;
            }
        }
        Some(self.stations.entry(at).or_insert_with(|| Suspect {
            bucket: Bucket::address_bucket(now_ns),
            faults: 0,
            at_ns: now_ns,
            quarantined_ns: None,
            key: None,
            is_noted: false,
        }))
    }

    /// Removes entries without current state, at most once a second.
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
