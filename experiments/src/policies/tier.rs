//! A content store in memory over one on disk: the hits of both, and the resulting disk writes.
//!
//! The memory is a model of a cache policy. The disk is a model of the tier's log that stores keys
//! only. It has segments of equal size, and discards the oldest one as a whole. Of its packets,
//! those that were read since they were written are written again, up to a quarter of a segment. A
//! test compares the model with the tier. The tier's own [`Gate`] selects the packets to write.

use std::collections::VecDeque;

use namely_bench::error::Error;
use namely_bench::output;
use namely_forwarder::{CsPolicy, PolicyModel};
use namely_tier::{Admission, Gate};
use serde_json::json;

use super::Policies;
use super::traces::{REQUESTS, Trace};

/// Capacity of the memory and of the disk below it, in packets.
const SIZES: [(usize, usize); 3] = [(2_500, 25_000), (2_500, 100_000), (25_000, 100_000)];

/// Policies of the memory.
const POLICIES: [CsPolicy; 3] = [CsPolicy::S3Fifo, CsPolicy::Arc, CsPolicy::Lru];

/// Segments of a small tier. One is being written; the next one is empty.
const SEGMENTS: usize = 16;

/// Up to this fraction of a discarded segment may be written again.
const REINSERTED_PART: usize = 4;

fn name(admission: Admission) -> &'static str {
    match admission {
        Admission::Hit => "hit",
        Admission::Again => "again",
        Admission::All => "all",
    }
}

/// A substitute for the tier's keyed hash of a name.
fn hash(key: u32) -> u64 {
    let mut z = (u64::from(key) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A model of the tier's log that stores keys.
#[derive(Debug)]
struct Log {
    segment_records: usize,
    filling: Vec<u32>,
    sealed: VecDeque<Vec<u32>>,
    /// For each key, the number of its segment (0 for none), and whether it was read there.
    entries: Vec<(u64, bool)>,
    /// The number of the segment that is being filled.
    number: u64,
    admitted: u64,
    reinserted: u64,
}

impl Log {
    fn new(segment_records: usize) -> Self {
        Log {
            segment_records,
            filling: Vec::new(),
            sealed: VecDeque::new(),
            entries: Vec::new(),
            number: 1,
            admitted: 0,
            reinserted: 0,
        }
    }

    fn entry(&mut self, key: u32) -> &mut (u64, bool) {
        let key = key as usize;
        if key >= self.entries.len() {
            self.entries.resize(key + 1, (0, false));
        }
        &mut self.entries[key]
    }

    fn read(&mut self, key: u32) -> bool {
        let (number, was_read) = self.entry(key);
        *was_read = *number != 0;
        *was_read
    }

    /// Writes the packet unless the log has it.
    fn write(&mut self, key: u32) {
        if self.entry(key).0 == 0 {
            self.admitted += 1;
            self.append(key);
        }
    }

    fn append(&mut self, key: u32) {
        let begins = self.filling.len() == self.segment_records;
        if begins {
            self.sealed.push_back(std::mem::take(&mut self.filling));
            self.number += 1;
        }
        let number = self.number;
        *self.entry(key) = (number, false);
        self.filling.push(key);
        if begins && self.sealed.len() > SEGMENTS - 2 {
            self.throw_away();
        }
    }

    fn throw_away(&mut self) {
        let Some(oldest) = self.sealed.pop_front() else { return };
        let oldest_number = self.number - self.sealed.len() as u64 - 1;
        let mut left = self.segment_records.div_ceil(REINSERTED_PART);
        for key in oldest {
            let (number, was_read) = *self.entry(key);
            if number != oldest_number {
                continue;
            }
            *self.entry(key) = (0, false);
            if was_read && left > 0 {
                left -= 1;
                self.reinserted += 1;
                self.append(key);
            }
        }
    }
}

/// The result of replaying a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Outcome {
    requests: usize,
    memory_hits: u64,
    disk_hits: u64,
    admitted: u64,
    reinserted: u64,
}

impl Outcome {
    fn share(&self, of: u64) -> f64 {
        of as f64 / self.requests as f64
    }

    fn hit_ratio(&self) -> f64 {
        self.share(self.memory_hits + self.disk_hits)
    }

    /// Octets written for each octet that was admitted: all packets are of one size.
    fn amplification(&self) -> f64 {
        if self.admitted == 0 { 1.0 } else { 1.0 + self.reinserted as f64 / self.admitted as f64 }
    }

    /// Packets written for each request.
    fn written(&self) -> f64 {
        self.share(self.admitted + self.reinserted)
    }
}

/// Requests each key from the memory and, after a miss, from the disk. Packets that the memory
/// evicts are written to the disk if the gate admits them.
fn replay(
    policy: CsPolicy,
    packets_max: usize,
    mut disk: Log,
    admission: Admission,
    keys: &[u32],
) -> Result<Outcome, Error> {
    let mut memory = PolicyModel::new(policy, packets_max).map_err(|e| Error::Usage(e.to_string()))?;
    let (mut memory_hits, mut disk_hits) = (0, 0);
    let gate = Gate::new(admission, SEGMENTS * disk.segment_records);
    for key in keys {
        // The memory caches Data from the disk like all other Data.
        if memory.request(*key) {
            memory_hits += 1;
        } else if disk.read(*key) {
            disk_hits += 1;
        }
        let Some((key, was_requested)) = memory.left() else { continue };
        if gate.admits(hash(key), was_requested) {
            disk.write(key);
        }
    }
    let Log { admitted, reinserted, .. } = disk;
    Ok(Outcome { requests: keys.len(), memory_hits, disk_hits, admitted, reinserted })
}

/// Prints the results as a table, or as a line of JSON for each row.
pub(super) fn run(options: &Policies) -> Result<(), Error> {
    if !options.json {
        output::line(format_args!(
            "{:18} {:8} {:>7} {:>7}  {:>9} {:>9} {:>7} {:>9} {:>13}",
            "trace", "policy", "memory", "disk", "admission", "in memory", "hits", "written", "amplification"
        ));
    }
    for trace in Trace::ALL {
        let keys = trace.keys(options.requests.unwrap_or(REQUESTS));
        for policy in POLICIES {
            for (memory, disk) in SIZES {
                for admission in Admission::ALL {
                    let log = Log::new(disk / SEGMENTS);
                    let outcome = replay(policy, memory, log, admission, &keys)?;
                    output::line(row(options.json, trace, policy, memory, disk, admission, &outcome));
                }
            }
        }
    }
    Ok(())
}

fn row(
    is_json: bool,
    trace: Trace,
    policy: CsPolicy,
    memory: usize,
    disk: usize,
    admission: Admission,
    outcome: &Outcome,
) -> String {
    let (trace, policy, admission) = (trace.title(), policy.name(), name(admission));
    let memory_hits = outcome.share(outcome.memory_hits);
    let (hits, written, amplification) = (outcome.hit_ratio(), outcome.written(), outcome.amplification());
    if is_json {
        let line = json!({
            "trace": trace, "policy": policy, "memory_packets": memory, "disk_packets": disk,
            "admission": admission, "requests": outcome.requests, "memory_hit_ratio": memory_hits,
            "hit_ratio": hits, "admitted": outcome.admitted, "reinserted": outcome.reinserted,
            "written_per_request": written, "write_amplification": amplification,
        });
        return line.to_string();
    }
    format!(
        "{trace:18} {policy:8} {memory:>7} {disk:>7}  {admission:>9} {memory_hits:>9.3} {hits:>7.3} {written:>9.3} {amplification:>13.2}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use namely_security::{Signer, sign_data};
    use namely_tier::{Bypass, EngineKind, LookupResult, OCTETS_MIN, Options, ReadId, Tier, WriteOutcome};
    use namely_wire::{DataBuilder, Name};

    #[test]
    fn evicting_a_segment_keeps_read_records() {
        let mut log = Log::new(4);
        (0..4 * (SEGMENTS as u32 - 1)).for_each(|key| log.write(key));
        assert!((0..8).all(|key| log.entry(key).0 != 0), "one segment may still be filled");
        assert!(log.read(1) && log.read(3) && log.read(2) && !log.read(999));
        log.write(100);
        assert_eq!([0, 1, 2, 3, 4].map(|key| log.entry(key).0 != 0), [false, true, false, false, true]);
        assert_eq!((log.reinserted, log.admitted), (1, 61), "a quarter of a segment is written again");
        log.write(100);
        assert_eq!(log.admitted, 61, "what is there is not written again");
    }

    /// Octets of a record's header in the tier's log.
    const HEAD: usize = 20;

    /// A packet whose record fills a block. A segment of the smallest tier holds fifteen.
    fn packet(key: u32) -> (Name, Vec<u8>) {
        let name: Name = "/t".parse::<Name>().unwrap().join_segment(u64::from(key));
        let signed = |octets: usize| {
            let content = vec![key as u8; octets];
            sign_data(&DataBuilder::new(name.as_name()), &content, &Signer::digest_sha256()).unwrap()
        };
        let over = signed(4000).len() - 4000;
        let packet = signed(4096 - HEAD - over);
        assert_eq!(packet.len(), 4096 - HEAD);
        (name, packet)
    }

    #[test]
    fn the_simulated_log_matches_the_tier() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            engine: EngineKind::Inline,
            direct: false,
            sync_interval: std::time::Duration::ZERO,
            ..Options::new(OCTETS_MIN)
        };
        let tier = Tier::open(&folder.path().join("tier"), &options).unwrap();
        let mut caller = tier.caller().unwrap();
        let mut log = Log::new(15);
        let (mut of_tier, mut of_log) = (0i64, 0i64);
        for (n, key) in Trace::Zipf.keys(20_000).into_iter().enumerate() {
            let key = key / 200;
            let (name, packet) = packet(key);
            of_log += i64::from(log.read(key));
            if caller.read(ReadId(n as u64), name.as_name(), None, Bypass::Impossible)
                == LookupResult::Reading
            {
                tier.turn();
                let done = caller.completed().expect("a read that was made");
                of_tier += i64::from(done.outcome.found().is_some());
            }
            // Every third packet, as if a small memory evicted it.
            if n % 3 == 0 {
                log.write(key);
                let written = tier.write(name.as_name(), &packet, 0);
                assert!(matches!(written, WriteOutcome::Accepted | WriteOutcome::Duplicate), "{written:?}");
                tier.turn();
            }
        }
        let status = tier.status();
        let near = |a: u64, b: u64| a.abs_diff(b) * 20 <= a.max(b);
        assert!(of_log > 1000 && log.reinserted > 100, "{of_log} {log:?}");
        assert!(near(of_tier as u64, of_log as u64), "hits: {of_tier} of the tier, {of_log} of the log");
        assert!(near(status.counters.written, log.admitted), "{} {}", status.counters.written, log.admitted);
        assert!(
            near(status.counters.reinserted, log.reinserted),
            "{} {}",
            status.counters.reinserted,
            log.reinserted
        );
    }

    #[test]
    fn a_stricter_admission_writes_less() {
        for trace in Trace::ALL {
            let keys = trace.keys(300_000);
            for policy in POLICIES {
                let of = |disk: usize, admission| {
                    replay(policy, 2_500, Log::new(disk / SEGMENTS), admission, &keys).unwrap()
                };
                let [hit, again, all] = Admission::ALL.map(|rule| of(25_000, rule));
                let what = format!("{} {policy:?}: {hit:?} {again:?} {all:?}", trace.title());
                assert_eq!(hit.memory_hits, all.memory_hits, "the memory does not know the disk: {what}");
                assert!(hit.disk_hits > 0 && again.disk_hits > 0 && all.disk_hits > 0, "{what}");
                assert!(hit.admitted < again.admitted && again.admitted < all.admitted, "{what}");
                assert!((1.0..1.5).contains(&hit.amplification()) && all.amplification() < 1.5, "{what}");
            }
        }
    }
}
