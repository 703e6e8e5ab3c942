//! Each policy compared with a plain list that follows the paper, and the bounds of all.

use crate::cs::policy::eviction::EVICTION_SCAN_MAX;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use proptest::prelude::*;

use super::simple::LFU_USES_MAX;
use super::*;

/// A simple cache: its keys are in vectors whose first item is the oldest.
trait Plain {
    fn request(&mut self, key: u32) -> bool;
    fn erase(&mut self, key: u32);
    fn cached(&self) -> BTreeSet<u32>;
}

/// An order and a way to change it on a hit.
struct Ordered {
    /// Keys with their uses.
    queue: Vec<(u32, usize)>,
    most: usize,
    policy: CsPolicy,
}

impl Plain for Ordered {
    fn request(&mut self, key: u32) -> bool {
        if let Some(at) = self.queue.iter().position(|(known, _)| *known == key) {
            let (_, uses) = self.queue[at];
            if matches!(self.policy, CsPolicy::Lru | CsPolicy::Lfu) {
                self.queue.remove(at);
                self.queue.push((key, (uses + 1).min(LFU_USES_MAX)));
            }
            return true;
        }
        if self.queue.len() == self.most {
            let at = match self.policy {
                CsPolicy::Noop => self.most - 1,
                // Of equals, `min_by_key` gives the first.
                CsPolicy::Lfu => (0..self.most).min_by_key(|at| self.queue[*at].1).unwrap(),
                _ => 0,
            };
            self.queue.remove(at);
        }
        self.queue.push((key, 1));
        false
    }

    fn erase(&mut self, key: u32) {
        self.queue.retain(|(known, _)| *known != key);
    }

    fn cached(&self) -> BTreeSet<u32> {
        self.queue.iter().map(|(key, _)| *key).collect()
    }
}

/// S3-FIFO as in its paper's algorithm 1.
#[derive(Default)]
struct PlainS3 {
    small: Vec<(u32, u8)>,
    main: Vec<(u32, u8)>,
    /// Keys that left the small queue, and after how many others.
    ghosts: Vec<(u32, usize)>,
    left: usize,
    most: usize,
}

impl PlainS3 {
    fn evict(&mut self) {
        loop {
            if self.small.is_empty() || (self.small.len() * 10 < self.most && !self.main.is_empty()) {
                let (key, uses) = self.main.remove(0);
                if uses == 0 {
                    return;
                }
                self.main.push((key, uses - 1));
            } else {
                let (key, uses) = self.small.remove(0);
                if uses < 2 {
                    self.left += 1;
                    self.ghosts.push((key, self.left));
                    return;
                }
                self.main.push((key, 0));
            }
        }
    }
}

impl Plain for PlainS3 {
    fn request(&mut self, key: u32) -> bool {
        let known = self.small.iter_mut().chain(&mut self.main).find(|(known, _)| *known == key);
        if let Some((_, uses)) = known {
            *uses = (*uses + 1).min(3);
            return true;
        }
        let packets = self.small.len() + self.main.len();
        let ghosts_most = (packets - packets / 10).max(1);
        self.ghosts.retain(|(_, left)| self.left - left < self.most);
        let ghost = self.ghosts.iter().any(|(known, left)| *known == key && self.left - left < ghosts_most);
        if ghost {
            self.ghosts.retain(|(known, _)| *known != key);
        }
        if self.small.len() + self.main.len() == self.most {
            self.evict();
        }
        if ghost { &mut self.main } else { &mut self.small }.push((key, 0));
        false
    }

    fn erase(&mut self, key: u32) {
        self.small.retain(|(known, _)| *known != key);
        self.main.retain(|(known, _)| *known != key);
    }

    fn cached(&self) -> BTreeSet<u32> {
        self.small.iter().chain(&self.main).map(|(key, _)| *key).collect()
    }
}

/// SIEVE as in its paper's algorithm 1.
#[derive(Default)]
struct PlainSieve {
    queue: Vec<(u32, bool)>,
    /// The key under the hand.
    hand: Option<u32>,
    most: usize,
}

impl Plain for PlainSieve {
    fn request(&mut self, key: u32) -> bool {
        if let Some((_, visited)) = self.queue.iter_mut().find(|(known, _)| *known == key) {
            *visited = true;
            return true;
        }
        if self.queue.len() == self.most {
            let mut at = self.hand.map_or(0, |hand| self.queue.iter().position(|(k, _)| *k == hand).unwrap());
            while self.queue[at].1 {
                self.queue[at].1 = false;
                at = (at + 1) % self.queue.len();
            }
            self.hand = self.queue.get(at + 1).map(|(key, _)| *key);
            self.queue.remove(at);
        }
        self.queue.push((key, false));
        false
    }

    fn erase(&mut self, key: u32) {
        if self.hand == Some(key) {
            let at = self.queue.iter().position(|(known, _)| *known == key).unwrap();
            self.hand = self.queue.get(at + 1).map(|(key, _)| *key);
        }
        self.queue.retain(|(known, _)| *known != key);
    }

    fn cached(&self) -> BTreeSet<u32> {
        self.queue.iter().map(|(key, _)| *key).collect()
    }
}

/// ARC as in its paper's figure 4; the border in fractions of 256.
#[derive(Default)]
struct PlainArc {
    t1: Vec<u32>,
    t2: Vec<u32>,
    b1: Vec<u32>,
    b2: Vec<u32>,
    p: usize,
    c: usize,
}

fn take(list: &mut Vec<u32>, key: u32) -> bool {
    let all = list.len();
    list.retain(|known| *known != key);
    list.len() < all
}

impl PlainArc {
    fn replace(&mut self, in_b2: bool) {
        let t1 = self.t1.len() * 256;
        if t1 > 0 && (t1 > self.p || (in_b2 && t1 == self.p)) || self.t2.is_empty() {
            self.b1.push(self.t1.remove(0));
        } else {
            self.b2.push(self.t2.remove(0));
        }
    }
}

impl Plain for PlainArc {
    fn request(&mut self, key: u32) -> bool {
        if take(&mut self.t1, key) || take(&mut self.t2, key) {
            self.t2.push(key);
            return true;
        }
        let full = self.t1.len() + self.t2.len() == self.c;
        let (b1, b2) = (self.b1.len(), self.b2.len());
        if take(&mut self.b1, key) {
            self.p = (self.p + (b2 * 256 / b1).max(256)).min((self.t1.len() + self.t2.len()) * 256);
            if full {
                self.replace(false);
            }
            self.t2.push(key);
        } else if take(&mut self.b2, key) {
            self.p = self.p.saturating_sub((b1 * 256 / b2).max(256));
            if full {
                self.replace(true);
            }
            self.t2.push(key);
        } else {
            if full && self.t1.len() + self.b1.len() >= self.c {
                if self.t1.len() == self.c {
                    self.b1.clear();
                    self.t1.remove(0);
                    self.t1.push(key);
                    return false;
                }
                self.b1.drain(..self.t1.len() + self.b1.len() - self.c + 1);
            }
            if full {
                let all = self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len();
                let over = (all + 1).saturating_sub(2 * self.c).min(self.b2.len());
                self.b2.drain(..over);
                self.replace(false);
            }
            self.t1.push(key);
        }
        false
    }

    fn erase(&mut self, key: u32) {
        take(&mut self.t1, key);
        take(&mut self.t2, key);
    }

    fn cached(&self) -> BTreeSet<u32> {
        self.t1.iter().chain(&self.t2).copied().collect()
    }
}

fn plain(policy: CsPolicy, most: usize) -> alloc::boxed::Box<dyn Plain> {
    match policy {
        CsPolicy::S3Fifo => alloc::boxed::Box::new(PlainS3 { most, ..PlainS3::default() }),
        CsPolicy::Sieve => alloc::boxed::Box::new(PlainSieve { most, ..PlainSieve::default() }),
        CsPolicy::Arc => alloc::boxed::Box::new(PlainArc { c: most, ..PlainArc::default() }),
        _ => alloc::boxed::Box::new(Ordered { queue: Vec::new(), most, policy }),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    /// `IS-36`.
    #[test]
    fn each_policy_matches_its_list_model(
        policy in proptest::sample::select(&CsPolicy::ALL[..]),
        most in 1usize..24,
        steps in proptest::collection::vec((0u8..20, 0u32..60, 0u32..12), 0..600),
    ) {
        let mut model = PolicyModel::new(policy, most).unwrap();
        let mut plain = plain(policy, most);
        for (kind, rare, popular) in steps {
            let key = if kind < 10 { rare } else { popular };
            if kind == 0 {
                model.erase(key);
                plain.erase(key);
            } else {
                prop_assert_eq!(model.request(key), plain.request(key), "{:?} {}", policy, key);
            }
            prop_assert_eq!(model.cached(), plain.cached(), "{:?}", policy);
            prop_assert!(model.ghosts() <= 2 * most, "ghosts are bounded");
        }
    }
}

#[test]
fn the_least_recently_used_leaves_first() {
    let mut lru = PolicyModel::new(CsPolicy::Lru, 3).unwrap();
    let hits: Vec<bool> = [1, 2, 3, 1, 4, 2, 1].map(|key| lru.request(key)).into();
    assert_eq!(hits, [false, false, false, true, false, false, true]);
}

#[test]
fn evictions_report_whether_data_were_hit() {
    let mut lru = PolicyModel::new(CsPolicy::Lru, 2).unwrap();
    let left: Vec<_> = [1, 2, 1, 3, 4, 4].map(|key| (lru.request(key), lru.left()).1).into();
    assert_eq!(left, [None, None, None, Some((2, false)), Some((1, true)), None]);
}

/// The two policies that search for a victim: at the bound the search continues, one past it it
/// stops.
#[test]
fn an_eviction_examines_bounded_popular_data() {
    for (most, oldest_stays) in [(EVICTION_SCAN_MAX, true), (EVICTION_SCAN_MAX + 1, false)] {
        let mut sieve = PolicyModel::new(CsPolicy::Sieve, most).unwrap();
        let keys = 0..most as u32;
        keys.clone().for_each(|key| assert!(!sieve.request(key)));
        keys.clone().for_each(|key| assert!(sieve.request(key)));
        sieve.request(u32::from(u16::MAX));
        // A whole round passes over each Data once and then evicts the oldest; a bounded one evicts
        // the Data at which it stops.
        assert_eq!(!sieve.cached().contains(&0), oldest_stays, "{most}");
    }
    let most = 4 * EVICTION_SCAN_MAX as u32;
    let mut s3_fifo = PolicyModel::new(CsPolicy::S3Fifo, most as usize).unwrap();
    (0..4).for_each(|_| {
        (0..most).for_each(|key| {
            s3_fifo.request(key);
        })
    });
    s3_fifo.request(u32::from(u16::MAX));
    assert!(s3_fifo.cached().contains(&0) && !s3_fifo.cached().contains(&(EVICTION_SCAN_MAX as u32)));
}

#[test]
fn unknown_policies_are_refused_with_the_list() {
    for policy in CsPolicy::ALL {
        assert_eq!(policy.name().parse(), Ok(policy));
    }
    let error = "clock".parse::<CsPolicy>().unwrap_err();
    let text = alloc::format!("{error}");
    assert!(CsPolicy::ALL.iter().all(|policy| text.contains(policy.name())), "{text}");
}
