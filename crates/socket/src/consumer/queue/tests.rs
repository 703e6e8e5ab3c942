use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use namely_security::validity::ALWAYS;
use namely_security::{
    Certificate, KeyType, ManifestHash, PrivateKey, Signer, TrustPolicy, Verdict, Verifier, sign_data,
};
use namely_wire::{DataBuilder, Name};

use super::super::helpers::Helpers;
use super::*;

const BLAKE3: Preparation = Preparation::Digests(ManifestHash::Blake3);

/// The preparation for a key that signed none of the packets.
fn signatures() -> Preparation {
    let key = Arc::new(PrivateKey::generate(KeyType::Ed25519).unwrap());
    let key_name: Name = "/p/KEY/k".parse().unwrap();
    Preparation::Signatures(Certificate::self_signed(key_name.as_name(), &key, ALWAYS, 1).unwrap())
}

fn numbered(number: u64) -> (u64, Vec<u8>) {
    (number, number.to_string().into_bytes())
}

fn packets(run: VecDeque<Piece>) -> Vec<u64> {
    run.into_iter().map(|piece| String::from_utf8(piece.into_packet()).unwrap().parse().unwrap()).collect()
}

fn take<E: std::fmt::Debug>(queue: &VerifyQueue<E>, help: &dyn Fn()) -> VecDeque<Piece> {
    match queue.take(LOOK, &mut Vec::new(), help).unwrap() {
        NextPieces::Run(run) => run,
        other => panic!("{other:?}"),
    }
}

fn add<E>(queue: &VerifyQueue<E>, mut fresh: Vec<(u64, Vec<u8>)>) {
    queue.add(&mut fresh, &mut Vec::new(), Progress::default());
}

/// Returns the next run, after any number of preparations.
fn run(queue: &VerifyQueue<()>, help: &dyn Fn()) -> VecDeque<Piece> {
    loop {
        if let NextPieces::Run(run) = queue.take(LOOK, &mut Vec::new(), help).unwrap() {
            return run;
        }
    }
}

fn taken(queue: &VerifyQueue<&'static str>) -> Vec<u64> {
    packets(take(queue, &|| panic!("nobody is to help")))
}

#[test]
fn a_corrupt_piece_delays_later_pieces() {
    let queue = VerifyQueue::new(3);
    queue.prepare(None);
    add(&queue, [5, 3, 4, 7].map(numbered).into());
    let mut run = take(&queue, &|| ());
    assert_eq!(packets(run.clone()), [3, 4, 5]);
    let none = queue.take(Duration::ZERO, &mut Vec::new(), &|| ());
    assert!(matches!(none, Ok(NextPieces::Nothing)), "6 is not there");
    run.pop_front();
    run.pop_front();
    queue.give_back(4, run);
    assert_eq!(queue.news().unwrap().corrupt, Some(4));
    assert!(queue.news().is_none());
    add(&queue, [4, 6].map(numbered).into());
    let mut rest = Vec::new();
    while rest.len() < 4 {
        rest.extend(taken(&queue));
    }
    assert_eq!(rest, [4, 5, 6, 7]);
    assert_eq!(queue.most(), 4);
    queue.lose(8);
    queue.end("lost");
    assert!(take(&queue, &|| ())[0].packet().is_empty());
    assert_eq!(queue.take(LOOK, &mut Vec::new(), &|| ()).unwrap_err(), "lost");
}

#[test]
fn the_first_piece_decides_the_preparation() {
    let queue = VerifyQueue::<()>::new(0);
    add(&queue, (0..200).map(numbered).collect());
    let none = || panic!("nobody knows how to help");
    assert_eq!(take(&queue, &none).len(), 1);
    queue.prepare(Some(signatures()));
    let called = AtomicUsize::new(0);
    let call = || {
        called.fetch_add(1, Ordering::Relaxed);
    };
    let mut runs = 0;
    for next in (1..200).step_by(RUN_MAX) {
        let run = packets(take(&queue, &call));
        assert_eq!(run, (next..200.min(next + RUN_MAX as u64)).collect::<Vec<_>>());
        runs += 1;
    }
    // A helper is requested while at least `AHEAD_RUN` packets wait behind a run.
    assert_eq!((runs, called.load(Ordering::Relaxed)), (7, 5));
}

#[test]
fn pieces_behind_a_gap_are_prepared() {
    let queue = VerifyQueue::<&'static str>::new(0);
    queue.prepare(Some(signatures()));
    add(&queue, (1..40).map(numbered).collect());
    let mut rounds = 0;
    while let NextPieces::Prepared = queue.take(Duration::ZERO, &mut Vec::new(), &|| ()).unwrap() {
        rounds += 1;
    }
    assert_eq!(rounds, 39 / AHEAD_RUN, "one run at a time, so that packets are received between them");
    assert_eq!(queue.lock().unprepared, 39 % AHEAD_RUN);
    add(&queue, vec![numbered(0)]);
    let mut all = Vec::new();
    while all.len() < 40 {
        all.extend(taken(&queue));
    }
    assert_eq!(all, (0..40).collect::<Vec<_>>());
    assert_eq!(queue.most(), 40);
}

#[test]
fn a_panicking_helper_is_detected() {
    let queue = VerifyQueue::<()>::new(0);
    let helper = std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let _broken = PanicGuard(&queue);
            panic!("as a test wants it");
        });
        helper.join()
    });
    assert!(helper.is_err());
    let waiting = std::panic::catch_unwind(|| queue.take(LOOK, &mut Vec::new(), &|| ()).is_ok());
    assert!(waiting.is_err());
}

#[test]
fn verification_helpers_are_limited() {
    let helpers = Helpers::default();
    for threads in [1, 2, 4] {
        let queue = VerifyQueue::<()>::new(0);
        queue.prepare(Some(BLAKE3));
        let signed = |number| {
            let name = Name::new().join_segment(number);
            (
                number,
                sign_data(&DataBuilder::new(name.as_name()), &[7; 100], &Signer::digest_sha256()).unwrap(),
            )
        };
        add(&queue, (0..2000).map(signed).collect());
        let mut verifier = Verifier::new(TrustPolicy::digest_only());
        helpers.with(&queue, threads, |help| {
            // Further requests for helpers than the limit have no effect.
            (0..10).for_each(|_| help());
            let mut next = 0;
            while next < 2000 {
                for piece in run(&queue, help) {
                    let Verdict::Verified(data) = verifier.verify_prepared(piece, 0) else { panic!() };
                    assert_eq!(data.name().last().and_then(|last| last.segment()), Some(next));
                    next += 1;
                }
            }
        });
        assert_eq!(helpers.most(), threads - 1, "the thread that checks is one of them");
        assert!(queue.is_closed());
    }
}

#[test]
fn digests_need_larger_batches_for_helpers() {
    for (how, enough) in [(signatures(), AHEAD_RUN), (BLAKE3, AHEAD_DIGESTS)] {
        let queue = VerifyQueue::<()>::new(0);
        queue.prepare(Some(how));
        add(&queue, (1..enough as u64).map(numbered).collect());
        assert!(queue.lock().work().is_none());
        add(&queue, vec![numbered(enough as u64)]);
        assert_eq!(queue.lock().work().unwrap().packets.len(), AHEAD_RUN);
    }
}

#[test]
fn piece_memory_is_reused_up_to_a_limit() {
    let queue = VerifyQueue::<()>::new(0);
    let mut used = vec![vec![0; 8]; SPARE_MAX + 1];
    queue.take(Duration::ZERO, &mut used, &|| ()).unwrap();
    assert!(used.is_empty());
    let mut spare = Vec::new();
    queue.add(&mut vec![numbered(0)], &mut spare, Progress::default());
    assert_eq!(spare.len(), SPARE_MAX);
    used = vec![vec![0; 8]; 2];
    queue.take(Duration::ZERO, &mut used, &|| ()).unwrap();
    queue.add(&mut vec![numbered(1)], &mut spare, Progress::default());
    assert_eq!(spare.len(), SPARE_MAX + 2);
}
