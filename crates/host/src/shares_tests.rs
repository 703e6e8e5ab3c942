use super::*;
use proptest::prelude::*;

fn host(n: u8) -> Holder {
    Holder::address([192, 0, 2, n].into())
}

#[test]
fn addresses_count_by_host_and_ipv6_addresses_by_their_first_64_bits() {
    let of = |text: &str| Holder::address(text.parse().unwrap());
    assert_eq!(of("2001:db8:1:2:3:4:5:6"), of("2001:db8:1:2::1"));
    assert_ne!(of("2001:db8:1:2::1"), of("2001:db8:1:3::1"));
    assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    assert_ne!(of("127.0.0.1"), of("127.0.0.2"));
    assert_eq!(of("2001:db8:1:2::1").to_string(), "2001:db8:1:2::/64");
    assert_eq!(Holder::Station([2, 0, 0, 0, 0, 0xab]).to_string(), "02:00:00:00:00:ab");
}

#[test]
fn each_holder_has_a_number_of_its_own_and_roots_is_0() {
    let addresses = ["0.0.0.0", "0.0.0.1", "::", "2001:db8::1", "2001:db8:0:1::1", "2001:db8:1::1"];
    let mut holders: Vec<_> = addresses.map(|text| Holder::address(text.parse().unwrap())).to_vec();
    holders.extend([0, 1, 2, u32::MAX].map(Holder::uid));
    holders.extend([[0; 6], [0xff; 6], [0, 0, 0, 0, 0, 1]].map(Holder::Station));
    let numbers: BTreeSet<u128> = holders.iter().map(|holder| holder.number()).collect();
    assert_eq!(numbers.len(), holders.len());
    assert_eq!(Holder::Root.number(), 0);
}

#[test]
fn roots_uid_is_root_and_no_other_is() {
    assert_eq!((Holder::uid(0), Holder::uid(7)), (Holder::Root, Holder::Uid(7)));
    assert!(Holder::uid(7).is_local() && !host(1).is_local());
}

#[test]
fn root_has_its_extra_when_all_is_in_use_and_no_more() {
    let mut shares = Shares::new(ShareLimits { total: 4, root_extra: 2, ..ShareLimits::default() });
    shares.take(host(1), 4).unwrap();
    assert_eq!(shares.take(Holder::Root, 2), Ok(()));
    assert_eq!(shares.take(Holder::Root, 1), Err(Refusal::Full { payer: Some(host(1)) }));
}

#[test]
fn hosts_on_the_network_leave_the_reserve_of_this_machine_alone() {
    let mut shares = Shares::new(ShareLimits { total: 8, local_reserve: 3, ..ShareLimits::default() });
    (1..=5).for_each(|n| shares.take(host(n), 1).unwrap());
    shares.take(Holder::uid(1), 2).unwrap();
    let refused = shares.take(host(6), 1);
    assert!(matches!(refused, Err(Refusal::Full { payer: Some(Holder::Address(_)) })), "{refused:?}");
    assert_eq!(shares.take(Holder::uid(2), 1), Ok(()));
    assert_eq!(shares.take(Holder::uid(2), 1), Err(Refusal::Full { payer: Some(Holder::uid(1)) }));
}

#[test]
fn who_has_no_more_than_the_reserve_does_not_pay() {
    let mut shares = Shares::new(ShareLimits { total: 4, reserve: 2, ..ShareLimits::default() });
    (1..=2).for_each(|n| shares.take(host(n), 2).unwrap());
    assert_eq!(shares.take(host(3), 1), Err(Refusal::Full { payer: None }));
}

#[test]
fn a_share_goes_back_when_it_is_dropped() {
    let pool = SharePool::new(ShareLimits { total: 10, ceiling: 6, ..ShareLimits::default() });
    let mut share = pool.take(host(1), 4).unwrap();
    assert_eq!(share.grow(3), Err(Refusal::Ceiling));
    assert_eq!(share.grow(2), Ok(()));
    assert_eq!((pool.used(), pool.held(host(1)), share.amount(), share.holder()), (6, 6, 6, host(1)));
    drop(share);
    assert_eq!((pool.used(), pool.check(host(1), 6)), (0, Ok(())));
}

/// The same by sums over a list, without any order kept.
#[derive(Default)]
struct Naive(Vec<(Holder, u64)>);

impl Naive {
    fn held(&self, holder: Holder) -> u64 {
        self.0.iter().filter(|(h, _)| *h == holder).map(|(_, held)| held).sum()
    }

    fn used(&self, local: Option<bool>) -> u64 {
        self.0.iter().filter(|(h, _)| local.is_none_or(|l| l == h.is_local())).map(|(_, held)| held).sum()
    }

    fn most(&self, remote_only: bool) -> u64 {
        let counts = self.0.iter().filter(|(h, _)| *h != Holder::Root && !(remote_only && h.is_local()));
        counts.map(|(h, _)| self.held(*h)).max().unwrap_or(0)
    }
}

fn holder() -> impl Strategy<Value = Holder> {
    prop_oneof![Just(Holder::Root), (1u32..4).prop_map(Holder::uid), (1u8..6).prop_map(host)]
}

proptest! {
    #[test]
    fn sums_refusals_and_payers_are_those_of_a_naive_model(
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
            let is_root = holder == Holder::Root;
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
                        prop_assert!(payer != Holder::Root && (!pays_himself || payer == holder));
                    }
                }
            }
            prop_assert_eq!((shares.used(), shares.held(holder)), (naive.used(None), naive.held(holder)));
            prop_assert!(shares.used() <= total + root_extra);
            prop_assert_eq!(shares.largest().map_or(0, |(_, held)| held), naive.most(false));
        }
    }
}
