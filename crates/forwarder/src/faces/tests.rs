//! Tests of the face table against a model of its reference counts.

use alloc::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

type Table = Faces<parking_lot::RawMutex>;

/// `IS-09`, `IS-10`: upper and lower faces share one space of ids.
#[test]
fn upper_and_lower_faces_get_unique_ids() {
    let faces = Table::new(100).unwrap();
    let specs = [FaceProperties::application(), FaceProperties::remote(), FaceProperties::group()];
    let mut ids: Vec<FaceId> = (0..30).map(|i| faces.register(specs[i % 3]).unwrap()).collect();
    assert!(ids.iter().all(|id| *id >= FaceId::FIRST));
    assert_eq!(faces.snapshot().iter().map(|face| face.spec).take(3).collect::<Vec<_>>(), specs);
    // Faces of both layers are registered and released in an irregular order. At any time an id
    // belongs to one face only.
    for turn in 0..3_000 {
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "turn {turn}");
        if turn % 5 < 2 || ids.len() == 100 {
            let gone = ids.swap_remove(turn * 7919 % ids.len());
            faces.release(gone).unwrap();
            assert!(faces.hold(gone).is_none());
        } else {
            ids.push(faces.register(specs[turn % 3]).unwrap());
        }
    }
    let mut listed: Vec<FaceId> = faces.snapshot().iter().map(|face| face.id).collect();
    listed.sort_unstable();
    ids.sort_unstable();
    assert_eq!(listed, ids);
}

/// `IS-11`: `local` is permanent.
#[test]
fn the_local_face_cannot_be_released() {
    let faces = Table::new(1).unwrap();
    assert_eq!(faces.release(FaceId::LOCAL).map(|_| ()), Err(FaceError::Permanent));
    assert!(faces.hold(FaceId::LOCAL).is_none());
    assert!(faces.register(FaceProperties::application()).is_ok(), "it takes no place in the table");
}

#[test]
fn a_face_past_the_limit_is_refused() {
    let faces = Table::new(2).unwrap();
    let first = faces.register(FaceProperties::remote()).unwrap();
    assert!(faces.register(FaceProperties::remote()).is_ok());
    assert_eq!(faces.register(FaceProperties::remote()), Err(FaceError::TableFull));
    faces.release(first).unwrap();
    assert!(faces.register(FaceProperties::remote()).is_ok());
    assert_eq!(faces.register(FaceProperties::remote()), Err(FaceError::TableFull));
}

#[test]
fn a_released_face_key_never_returns() {
    let faces = Table::new(1000).unwrap();
    let first = faces.register(FaceProperties::remote()).unwrap();
    let (key, _) = faces.release(first).unwrap();
    for _ in 0..FACE_IDS_RESTING {
        let id = faces.register(FaceProperties::remote()).unwrap();
        assert_ne!(id, first);
        faces.release(id).unwrap();
    }
    let again = faces.register(FaceProperties::remote()).unwrap();
    assert_eq!(again, first);
    assert!(faces.hold_key(key).is_none());
    assert!(faces.hold(first).is_some_and(|hold| hold.key() != key));
}

#[test]
fn packets_of_released_faces_stay_counted() {
    let faces = Table::new(10).unwrap();
    let id = faces.register(FaceProperties::remote()).unwrap();
    (0..3).for_each(|_| faces.hold(id).unwrap().count(Packets::InData));
    faces.release(id).unwrap();
    assert_eq!(faces.packets().in_data, 3);
    assert!(faces.snapshot().is_empty());
}

/// `IS-14`: the cell of an orphan has no other user until it is put.
#[test]
fn an_orphans_cell_awaits_its_last_put() {
    let faces = Table::new(1).unwrap();
    let first = faces.register(FaceProperties::remote()).unwrap();
    let orphan = faces.hold(first).unwrap();
    assert_eq!(faces.release(first).map(|(_, released)| released), Ok(Released::Orphaned));
    let second = faces.register(FaceProperties::remote()).unwrap();
    assert_ne!(second, first, "the orphan still has the cell");
    assert_eq!(orphan.id(), FaceId::NONE);
    faces.release(second).unwrap();
    drop(orphan);
    assert_eq!(faces.register(FaceProperties::application()), Ok(first));
    assert_eq!(
        faces.snapshot().iter().map(|face| face.spec).collect::<Vec<_>>(),
        [FaceProperties::application()]
    );
}

#[test]
fn a_face_spec_is_kept_unchanged() {
    for layer in [FaceLayer::Upper, FaceLayer::Lower] {
        for scope in [FaceScope::Local, FaceScope::NonLocal] {
            for link_type in [LinkType::PointToPoint, LinkType::MultiAccess, LinkType::AdHoc] {
                for (local_fields, is_management_client) in [(false, false), (false, true), (true, false)] {
                    let spec = FaceProperties { layer, scope, link_type, local_fields, is_management_client };
                    assert_eq!(FaceProperties::unpack(spec.pack()), spec);
                    assert_eq!(FaceProperties::unpack(spec.pack() | FaceProperties::DOWN), spec);
                }
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Register,
    Release(usize),
    Hold(usize),
    Put(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Register),
        (0usize..8).prop_map(Step::Release),
        (0usize..8).prop_map(Step::Hold),
        (0usize..8).prop_map(Step::Put),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// `IS-13`, `IS-14`: `register` makes one user and `hold` adds one. `release` removes one, and
    /// makes an orphan of a face that is still held. The last `put` frees the cell.
    #[test]
    fn user_counts_follow_the_model(steps in proptest::collection::vec(step(), 1..100)) {
        let faces = Table::new(1000).unwrap();
        let mut registered: Vec<FaceId> = Vec::new();
        let mut held: Vec<(FaceId, FaceHold<'_>, bool)> = Vec::new();
        for step in steps {
            match step {
                Step::Register => registered.push(faces.register(FaceProperties::remote()).unwrap()),
                Step::Release(i) if !registered.is_empty() => {
                    let id = registered.remove(i % registered.len());
                    let users = held.iter().filter(|(face, _, alive)| *face == id && *alive).count();
                    let (_, released) = faces.release(id).unwrap();
                    prop_assert_eq!(released, if users == 0 { Released::Freed } else { Released::Orphaned });
                    held.iter_mut().filter(|(face, ..)| *face == id).for_each(|(.., alive)| *alive = false);
                    prop_assert_eq!(faces.release(id).map(|_| ()), Err(FaceError::NotFound));
                    prop_assert!(faces.hold(id).is_none());
                }
                Step::Hold(i) if !registered.is_empty() => {
                    let id = registered[i % registered.len()];
                    held.push((id, faces.hold(id).unwrap(), true));
                }
                Step::Put(i) if !held.is_empty() => {
                    let i = i % held.len();
                    let (_, hold, alive) = held.remove(i);
                    let (key, cell) = (hold.key(), hold.cell);
                    let others = held.iter().filter(|(_, other, _)| other.key() == key).count();
                    drop(hold);
                    prop_assert_eq!(cell.is_free(), others == 0 && !alive);
                }
                _ => {}
            }
            for (id, hold, alive) in &held {
                prop_assert_eq!(hold.id(), if *alive { *id } else { FaceId::NONE });
            }
            let mut users: BTreeMap<FaceId, usize> = registered.iter().map(|id| (*id, 1)).collect();
            held.iter().filter(|(.., alive)| *alive).for_each(|(id, ..)| *users.get_mut(id).unwrap() += 1);
            let counted: BTreeMap<FaceId, usize> = faces.snapshot().iter().map(|f| (f.id, f.users)).collect();
            prop_assert_eq!(counted, users);
        }
    }
}

/// `IS-09`, `IS-13`: threads that register faces at the same time receive different ids.
#[test]
fn concurrent_faces_never_share_an_id() {
    let faces = Table::new(64).unwrap();
    let present = std::sync::Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let (faces, present) = (&faces, &present);
            scope.spawn(move || {
                let specs =
                    [FaceProperties::application(), FaceProperties::remote(), FaceProperties::group()];
                let mut own = Vec::new();
                for turn in 0..2_000_usize {
                    if own.len() == 16 || (turn % 5 < 2 && !own.is_empty()) {
                        let gone = own.swap_remove((turn * 7919 + thread) % own.len());
                        assert!(present.lock().unwrap().remove(&gone));
                        faces.release(gone).unwrap();
                    } else {
                        let id = faces.register(specs[turn % 3]).unwrap();
                        assert!(present.lock().unwrap().insert(id), "{id:?} is another face's");
                        own.push(id);
                    }
                }
            });
        }
    });
    let listed: BTreeSet<FaceId> = faces.snapshot().iter().map(|face| face.id).collect();
    assert_eq!(listed, present.into_inner().unwrap());
}
