//! Tests of the shares against lists of faces and charges, whose sums are computed anew.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;

fn face(slot: u32, generation: u32) -> FaceKey {
    FaceKey { slot, generation }
}

fn holder(n: u8) -> Owner {
    Owner::Given(OwnerId(n.into()))
}

#[derive(Clone, Debug)]
enum Step {
    Open { slot: u32, owner: u8 },
    Close { slot: u32 },
    Grant { slot: u32, wanted: u32 },
    Trim { slot: u32, used: u32 },
}

fn step() -> impl Strategy<Value = Step> {
    let slot = 0u32..5;
    prop_oneof![
        2 => (slot.clone(), 0u8..3).prop_map(|(slot, owner)| Step::Open { slot, owner }),
        1 => slot.clone().prop_map(|slot| Step::Close { slot }),
        5 => (slot.clone(), 1u32..40).prop_map(|(slot, wanted)| Step::Grant { slot, wanted }),
        3 => (slot, 0u32..40).prop_map(|(slot, used)| Step::Trim { slot, used }),
    ]
}

/// An element of the list of faces: the key, the owner, and the grant.
type Known = (FaceKey, Owner, u32);

fn sum(faces: &[Known], owner: Owner) -> u32 {
    faces.iter().filter(|known| known.1 == owner).map(|known| known.2).sum()
}

proptest! {
    #[test]
    fn grants_match_a_list_of_faces(steps in proptest::collection::vec(step(), 1..120)) {
        let ceilings = Ceilings { face_max: 50, holder_max: 90 };
        let mut grants = Grants::new(ceilings, 20).unwrap();
        let mut faces: Vec<Known> = Vec::new();
        let mut generation = 0;
        for step in steps {
            let known = |slot: u32| faces.iter().position(|known| known.0.slot == slot);
            match step {
                Step::Open { slot, owner } => {
                    generation += 1;
                    let key = face(slot, generation);
                    let (share, _) = grants.open(key, holder(owner)).unwrap();
                    faces.retain(|known| known.0.slot != slot);
                    let entries = if owner == 0 { 0 } else { sum(&faces, holder(owner)) };
                    prop_assert_eq!(share.of_holder, entries);
                    prop_assert_eq!(share.granted, if owner == 0 { 50 } else { 0 });
                    faces.push((key, holder(owner), 0));
                }
                Step::Close { slot } => match known(slot) {
                    Some(at) => {
                        let (key, owner, _) = faces.swap_remove(at);
                        let share = grants.close(key);
                        prop_assert_eq!(share.map(|share| share.of_holder), Some(sum(&faces, owner)));
                        prop_assert_eq!(grants.close(key), None, "once");
                    }
                    None => prop_assert_eq!(grants.close(face(slot, generation)), None),
                },
                Step::Grant { slot, wanted } => {
                    let Some(at) = known(slot) else {
                        prop_assert_eq!(grants.grant(face(slot, generation), wanted), None);
                        continue;
                    };
                    let (key, owner, before) = faces[at];
                    let granted = grants.grant(key, wanted).unwrap();
                    if owner == Owner::ROUTER {
                        prop_assert_eq!(granted, Err(Ceiling::Face), "all from the beginning");
                        continue;
                    }
                    let most = (50 - before).min(90 - sum(&faces, owner)).min(wanted.max(GRANT));
                    match granted {
                        Ok(share) => {
                            prop_assert_eq!(share.granted, before + most);
                            faces[at].2 = share.granted;
                            prop_assert_eq!(share.of_holder, sum(&faces, owner));
                        }
                        Err(ceiling) => {
                            prop_assert_eq!(most, 0);
                            prop_assert_eq!(ceiling == Ceiling::Face, before == 50);
                        }
                    }
                }
                Step::Trim { slot, used } => {
                    let Some(at) = known(slot) else { continue };
                    let (key, owner, before) = faces[at];
                    let share = grants.trim(key, used).unwrap();
                    if owner != Owner::ROUTER {
                        prop_assert_eq!(share.granted, before.min(used + GRANT));
                        faces[at].2 = share.granted;
                        prop_assert_eq!(share.of_holder, sum(&faces, owner));
                    }
                }
            }
            for (key, owner, _) in &faces {
                prop_assert_eq!(grants.owner_of(*key), *owner);
            }
        }
    }

    #[test]
    fn the_ledger_matches_a_list_of_charges(
        steps in proptest::collection::vec((0u8..3, 0usize..40, any::<bool>()), 1..200),
    ) {
        let mut ledger = OwnerAccounting::new(Names { count: 5, octets: 100 });
        let mut charges: Vec<(u8, usize)> = Vec::new();
        for (owner, octets, is_charge) in steps {
            let own = |charges: &[(u8, usize)]| {
                let own = charges.iter().filter(|charge| charge.0 == owner).map(|charge| charge.1);
                Names { count: own.clone().count(), octets: own.sum() }
            };
            if is_charge {
                let before = own(&charges);
                let fits = before.count < 5 && before.octets + octets <= 100;
                let expected = if owner == 0 || fits { ChargeOutcome::Yes } else { ChargeOutcome::Full };
                prop_assert_eq!(ledger.charge(holder(owner), octets), expected);
                if fits && owner != 0 {
                    charges.push((owner, octets));
                }
            } else if let Some(at) = charges.iter().position(|charge| charge.0 == owner) {
                let (_, octets) = charges.swap_remove(at);
                ledger.credit(holder(owner), octets);
            }
            if owner != 0 {
                prop_assert_eq!(ledger.held(holder(owner)), own(&charges));
            }
        }
    }
}

#[test]
fn only_larger_holders_above_reserve_pay() {
    assert!(pays(65, 0, 64) && pays(65, 64, 64) && pays(101, 100, 64));
    assert!(!pays(64, 0, 64) && !pays(100, 100, 64) && !pays(0, 0, 0));
}
