use super::*;
use proptest::prelude::*;

fn host(n: u8) -> Owner {
    Owner::address([192, 0, 2, n].into())
}

#[test]
fn ipv6_addresses_count_by_64_bit_prefix() {
    let of = |text: &str| Owner::address(text.parse().unwrap());
    assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
    assert_eq!(of("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
    assert_eq!(Owner::Station([2, 0, 0, 0, 0, 0xab]).to_string(), "02:00:00:00:00:ab");
}

#[test]
fn holder_numbers_are_unique() {
    let addresses = ["0.0.0.0", "0.0.0.1", "::", "2001:db8::1", "2001:db8:0:1::1", "2001:db8:1::1"];
    let mut holders: Vec<_> = addresses.map(|text| Owner::address(text.parse().unwrap())).to_vec();
    holders.extend([0, 1, 2, u32::MAX].map(Owner::uid));
    holders.extend([[0; 6], [0xff; 6], [0, 0, 0, 0, 0, 1]].map(Owner::Station));
    let numbers: BTreeSet<u128> = holders.iter().map(|holder| holder.number()).collect();
    assert_eq!(numbers.len(), holders.len());
    assert_eq!(Owner::Root.number(), 0);
}

#[test]
fn only_uid_0_is_root() {
    assert_eq!((Owner::uid(0), Owner::uid(7)), (Owner::Root, Owner::Uid(7)));
    assert!(Owner::uid(7).is_local() && !host(1).is_local());
}

#[test]
fn root_has_extra_room_when_full() {
    let mut shares = Shares::new(ShareLimits { total: 4, root_extra: 2, ..ShareLimits::default() });
    shares.take(host(1), 4).unwrap();
    assert_eq!(shares.take(Owner::Root, 2), Ok(()));
    assert_eq!(shares.take(Owner::Root, 1), Err(Refusal::Full { payer: Some(host(1)) }));
}

#[test]
fn network_hosts_leave_the_local_reserve() {
    let mut shares = Shares::new(ShareLimits { total: 8, local_reserve: 3, ..ShareLimits::default() });
    (1..=5).for_each(|n| shares.take(host(n), 1).unwrap());
    shares.take(Owner::uid(1), 2).unwrap();
    let refused = shares.take(host(6), 1);
    assert!(matches!(refused, Err(Refusal::Full { payer: Some(Owner::Address(_)) })), "{refused:?}");
    assert_eq!(shares.take(Owner::uid(2), 1), Ok(()));
    assert_eq!(shares.take(Owner::uid(2), 1), Err(Refusal::Full { payer: Some(Owner::uid(1)) }));
}

#[test]
fn a_holder_within_its_reserve_never_pays() {
    let mut shares = Shares::new(ShareLimits { total: 4, reserve: 2, ..ShareLimits::default() });
    (1..=2).for_each(|n| shares.take(host(n), 2).unwrap());
    assert_eq!(shares.take(host(3), 1), Err(Refusal::Full { payer: None }));
}

#[test]
fn a_dropped_share_is_returned() {
    let pool = SharePool::new(ShareLimits { total: 10, ceiling: 6, ..ShareLimits::default() });
    let mut share = pool.take(host(1), 4).unwrap();
    assert_eq!(share.grow(3), Err(Refusal::Ceiling));
    assert_eq!(share.grow(2), Ok(()));
    assert_eq!((pool.used(), pool.held(host(1)), share.amount(), share.holder()), (6, 6, 6, host(1)));
    drop(share);
    assert_eq!((pool.used(), pool.check(host(1), 6)), (0, Ok(())));
}

/// A model of the shares, which computes each sum over an unordered list.
#[derive(Default)]
struct Naive(Vec<(Owner, u64)>);

impl Naive {
    fn held(&self, holder: Owner) -> u64 {
        self.0.iter().filter(|(h, _)| *h == holder).map(|(_, held)| held).sum()
    }

    fn used(&self, local: Option<bool>) -> u64 {
        self.0.iter().filter(|(h, _)| local.is_none_or(|l| l == h.is_local())).map(|(_, held)| held).sum()
    }

    fn most(&self, remote_only: bool) -> u64 {
        let counts = self.0.iter().filter(|(h, _)| *h != Owner::Root && !(remote_only && h.is_local()));
        counts.map(|(h, _)| self.held(*h)).max().unwrap_or(0)
    }
}

fn holder() -> impl Strategy<Value = Owner> {
    prop_oneof![Just(Owner::Root), (1u32..4).prop_map(Owner::uid), (1u8..6).prop_map(host)]
}

proptest! {
    #[test]
    fn shares_match_a_naive_model(
        steps in prop::collection::vec((holder(), 0u64..12, any::<bool>()), 1..200),
        total in 1u64..40, ceiling in 1u64..20, local_ceiling in prop::option::of(1u64..20), reserve in 0u64..4, local_reserve in 0u64..10,
        root_extra in 0u64..6,
    ) {
        let limits = ShareLimits { total, ceiling, local_ceiling, reserve, local_reserve, root_extra };
        let mut shares = Shares::new(limits);
        let mut naive = Naive::default();
        for (holder, amount, takes) in steps {
            if !takes {
                let back = amount.min(naive.held(holder));
                shares.give_back(holder, amount);
                let left = naive.held(holder) - back;
                naive.0.retain(|(h, _)| *h != holder);
                naive.0.push((holder, left));
                continue;
            }
            let used = naive.used(None) + amount;
            let is_root = holder == Owner::Root;
            let ceiling = if holder.is_local() { local_ceiling.unwrap_or(ceiling) } else { ceiling };
            let over_ceiling = !is_root && naive.held(holder) + amount > ceiling;
            let fits_total = used <= total + if is_root { root_extra } else { 0 };
            let remote = naive.used(Some(false)) + amount;
            let fits_remote = holder.is_local() || remote <= total.saturating_sub(local_reserve);
            match shares.take(holder, amount) {
                Ok(()) => {
                    prop_assert!(!over_ceiling && fits_total && fits_remote);
                    naive.0.push((holder, amount));
                }
                Err(Refusal::Ceiling) => prop_assert!(over_ceiling),
                Err(Refusal::Full { payer }) => {
                    prop_assert!(!(over_ceiling || fits_total && fits_remote));
                    let most = naive.most(used <= total);
                    let pays_himself = !is_root && most > 0 && naive.held(holder) + amount > most;
                    let paid = if pays_himself { naive.held(holder) } else { most };
                    prop_assert_eq!(payer.is_some(), paid > reserve);
                    if let Some(payer) = payer {
                        prop_assert_eq!(naive.held(payer), paid);
                        prop_assert!(payer != Owner::Root && (!pays_himself || payer == holder));
                    }
                }
            }
            prop_assert_eq!((shares.used(), shares.held(holder)), (naive.used(None), naive.held(holder)));
            prop_assert!(shares.used() <= total + root_extra);
            prop_assert_eq!(shares.largest().map_or(0, |(_, held)| held), naive.most(false));
        }
    }
}
