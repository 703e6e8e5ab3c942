//! Stress test: several threads prepare the pieces of one object, one thread adds pieces in any
//! order, and one thread checks them. Also runs under ThreadSanitizer (`.ci/run tsan`), for the
//! duration in `NAMELY_STRESS_MS`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use namely_security::validity::ALWAYS;
use namely_security::{Certificate, KeyType, ManifestHash, Preparation, PrivateKey, Signer, sign_data};
use namely_transport::object::Progress;
use namely_wire::{DataBuilder, DataView, Name};

use super::super::helpers::Helpers;
use super::{LOOK, NextPieces, Piece, VerifyQueue};

/// Maximum number of waiting pieces.
const SPAN: u64 = 512;

const PIECES: u64 = 3000;

fn packet(number: u64) -> (u64, Vec<u8>) {
    let name = Name::new().join_segment(number);
    (number, sign_data(&DataBuilder::new(name.as_name()), &[3; 600], &Signer::digest_sha256()).unwrap())
}

/// The preparation for a key that signed none of the packets. It needs little work, so that
/// contention on the lock is high.
fn signatures() -> Preparation {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name: Name = "/p/KEY/k".parse().unwrap();
    Preparation::Signatures(Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap())
}

fn number(piece: &Piece) -> Option<u64> {
    DataView::parse(piece.packet()).ok()?.name.last()?.segment()
}

/// A deterministic random generator.
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

/// Adds pieces within the window, a few at a time and out of order, until the queue is closed. Some
/// are lost for good.
fn bring(queue: &VerifyQueue<()>, again: &Mutex<VecDeque<u64>>, seed: u64) {
    let (mut chance, mut requested) = (Chance(seed), 0);
    let mut fresh: Vec<(u64, Vec<u8>)> = Vec::new();
    while !queue.is_closed() {
        if let Some(corrupt) = queue.news().and_then(|news| news.corrupt) {
            again.lock().unwrap().push_back(corrupt);
        }
        let wanted = again.lock().unwrap().pop_front();
        let end = PIECES.min(queue.handed() + SPAN);
        let next = wanted.or_else(|| (requested < end).then_some(requested));
        let Some(next) = next else {
            queue.add(&mut fresh, &mut Vec::new(), Progress::default());
            std::thread::yield_now();
            continue;
        };
        requested += u64::from(wanted.is_none());
        if wanted.is_none() && next % 701 == 700 {
            queue.lose(next);
        } else {
            let at = chance.below(fresh.len() as u64 + 1) as usize;
            fresh.insert(at, packet(next));
        }
        if fresh.len() as u64 > chance.below(100) {
            let later = fresh.split_off(fresh.len() / 2);
            queue.add(&mut fresh, &mut Vec::new(), Progress::default());
            fresh = later;
        }
    }
}

/// Takes every piece once and in order. About one in thirteen is treated as corrupt and added
/// again.
fn check(queue: &VerifyQueue<()>, help: &dyn Fn(), ahead: &Preparation, seed: u64) {
    let mut chance = Chance(seed);
    let mut next = 0;
    while next < PIECES {
        let NextPieces::Run(mut run) = queue.take(LOOK, &mut Vec::new(), help).unwrap() else { continue };
        while let Some(piece) = run.pop_front() {
            if piece.packet().is_empty() {
                assert_eq!(next % 701, 700);
            } else {
                assert_eq!(number(&piece), Some(next));
                if chance.below(13) == 0 {
                    queue.give_back(next, std::mem::take(&mut run));
                    continue;
                }
            }
            next += 1;
        }
        queue.prepare(Some(ahead.clone()));
        queue.hand_over(next);
    }
    assert!(queue.most() as u64 <= SPAN, "{} waited", queue.most());
}

#[test]
fn pieces_leave_once_and_in_order() {
    let ms = std::env::var("NAMELY_STRESS_MS").ok().and_then(|ms| ms.parse().ok()).unwrap_or(500);
    let until = Instant::now() + Duration::from_millis(ms);
    let helpers = Helpers::default();
    let preparations = [Preparation::Digests(ManifestHash::Blake3), signatures()];
    let mut seed = 1;
    while seed == 1 || Instant::now() < until {
        let (queue, again) = (VerifyQueue::new(0), Mutex::new(VecDeque::new()));
        std::thread::scope(|scope| {
            scope.spawn(|| bring(&queue, &again, seed));
            helpers.with(&queue, 4, |help| check(&queue, help, &preparations[seed as usize % 2], seed));
        });
        seed += 1;
    }
    assert!((1..=3).contains(&helpers.most()), "{} helped", helpers.most());
}

#[test]
fn helpers_end_with_an_interrupted_read() {
    let (helpers, ahead) = (Helpers::default(), signatures());
    for seed in 0..20 {
        let (queue, again) = (VerifyQueue::new(0), Mutex::new(VecDeque::new()));
        std::thread::scope(|scope| {
            scope.spawn(|| bring(&queue, &again, seed));
            helpers.with(&queue, 4, |help| {
                let mut taken = 0;
                loop {
                    if let NextPieces::Run(run) = queue.take(LOOK, &mut Vec::new(), help).unwrap() {
                        taken += run.len() as u64;
                    }
                    if taken > 100 * seed {
                        break;
                    }
                    queue.prepare(Some(ahead.clone()));
                    queue.hand_over(taken);
                }
            });
        });
    }
}
