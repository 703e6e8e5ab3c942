use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use namely_security::validity::ALWAYS;
use namely_security::{
    Certificate, KeyType, ManifestHash, PrivateKey, Signer, TrustPolicy, Verdict, Verifier, sign_data,
};
use namely_wire::{DataBuilder, Name};

use super::*;
use crate::object::helpers::Helpers;

const BLAKE3: Preparation = Preparation::Digests(ManifestHash::Blake3);

/// Of a key that signed nothing of this.
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

fn taken(backlog: &Backlog<&'static str>) -> Vec<u64> {
    packets(backlog.take(&|| false, &|| panic!("nobody is to help")).unwrap())
}

#[test]
fn pieces_come_out_in_order_and_a_corrupt_one_is_waited_for_again() {
    let backlog = Backlog::new(3);
    backlog.prepare(None);
    backlog.add(&mut [5, 3, 4, 7].map(numbered).into());
    let mut run = backlog.take(&|| false, &|| ()).unwrap();
    assert_eq!(packets(run.clone()), [3, 4, 5]);
    assert!(matches!(backlog.take(&|| true, &|| ()), Err(Stopped::GivenUp)), "6 is not there");
    run.pop_front();
    run.pop_front();
    backlog.give_back(4, run);
    assert_eq!(backlog.news().unwrap().corrupt, Some(4));
    assert!(backlog.news().is_none());
    backlog.add(&mut [4, 6].map(numbered).into());
    let mut rest = Vec::new();
    while rest.len() < 4 {
        rest.extend(taken(&backlog));
    }
    assert_eq!(rest, [4, 5, 6, 7]);
    assert_eq!(backlog.most(), 4);
    backlog.give_up(8);
    backlog.end("lost");
    assert!(backlog.take(&|| false, &|| ()).unwrap()[0].packet().is_empty());
    assert!(matches!(backlog.take(&|| false, &|| ()), Err(Stopped::Ended("lost"))));
}

#[test]
fn the_first_piece_comes_alone_and_says_how_those_behind_are_prepared() {
    let backlog = Backlog::<()>::new(0);
    backlog.add(&mut (0..200).map(numbered).collect());
    let none = || panic!("nobody knows how to help");
    assert_eq!(backlog.take(&|| false, &none).unwrap().len(), 1);
    backlog.prepare(Some(signatures()));
    let called = AtomicUsize::new(0);
    let call = || {
        called.fetch_add(1, Ordering::Relaxed);
    };
    let mut runs = 0;
    for next in (1..200).step_by(RUN_MAX) {
        let run = packets(backlog.take(&|| false, &call).unwrap());
        assert_eq!(run, (next..200.min(next + RUN_MAX as u64)).collect::<Vec<_>>());
        runs += 1;
    }
    // While so many wait behind a run that somebody else could prepare some of them.
    assert_eq!((runs, called.load(Ordering::Relaxed)), (7, 5));
}

#[test]
fn what_came_behind_a_gap_is_prepared_meanwhile() {
    let backlog = Backlog::<&'static str>::new(0);
    backlog.prepare(Some(signatures()));
    backlog.add(&mut (1..40).map(numbered).collect());
    let looked = AtomicUsize::new(0);
    let given_up = || looked.fetch_add(1, Ordering::Relaxed) > 3;
    assert!(matches!(backlog.take(&given_up, &|| ()), Err(Stopped::GivenUp)));
    assert_eq!(backlog.lock().unprepared, 39 % AHEAD_RUN);
    backlog.add(&mut vec![numbered(0)]);
    let mut all = Vec::new();
    while all.len() < 40 {
        all.extend(taken(&backlog));
    }
    assert_eq!(all, (0..40).collect::<Vec<_>>());
    assert_eq!(backlog.most(), 40);
}

#[test]
fn a_helper_that_panicked_is_noticed() {
    let backlog = Backlog::<()>::new(0);
    let helper = std::thread::scope(|scope| {
        let helper = scope.spawn(|| {
            let _broken = BreaksOnPanic(&backlog);
            panic!("as a test wants it");
        });
        helper.join()
    });
    assert!(helper.is_err());
    let waiting = std::panic::catch_unwind(|| backlog.take(&|| false, &|| ()).is_ok());
    assert!(waiting.is_err());
}

#[test]
fn no_more_help_than_they_may_and_all_are_gone_in_the_end() {
    let helpers = Helpers::default();
    for threads in [1, 2, 4] {
        let backlog = Backlog::<()>::new(0);
        backlog.prepare(Some(BLAKE3));
        let signed = |number| {
            let name = Name::new().join_segment(number);
            (
                number,
                sign_data(&DataBuilder::new(name.as_name()), &[7; 100], &Signer::digest_sha256()).unwrap(),
            )
        };
        backlog.add(&mut (0..2000).map(signed).collect());
        let mut verifier = Verifier::new(TrustPolicy::digest_only());
        helpers.with(&backlog, threads, |help| {
            // They may be called for as often as one likes.
            (0..10).for_each(|_| help());
            let mut next = 0;
            while next < 2000 {
                for piece in backlog.take(&|| false, help).unwrap() {
                    let Verdict::Verified(data) = verifier.verify_prepared(piece, 0) else { panic!() };
                    assert_eq!(data.name().last().and_then(|last| last.segment()), Some(next));
                    next += 1;
                }
            }
        });
        assert_eq!(helpers.most(), threads - 1, "the thread that checks is one of them");
        assert!(backlog.is_closed());
    }
}

#[test]
fn it_takes_more_digests_than_signatures_for_others_to_help() {
    for (how, enough) in [(signatures(), AHEAD_RUN), (BLAKE3, AHEAD_DIGESTS)] {
        let backlog = Backlog::<()>::new(0);
        backlog.prepare(Some(how));
        backlog.add(&mut (1..enough as u64).map(numbered).collect());
        assert!(backlog.lock().work().is_none());
        backlog.add(&mut vec![numbered(enough as u64)]);
        assert_eq!(backlog.lock().work().unwrap().packets.len(), AHEAD_RUN);
    }
}
