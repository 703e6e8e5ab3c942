use std::net::{IpAddr, Ipv4Addr};

use super::*;

/// A worker with sources. Some of them have more packets whenever they have been read.
#[derive(Default)]
struct Worker {
    waiting: Waiting,
    now_ns: u64,
    /// Whether a source's packets are answered.
    is_answered: Vec<bool>,
    /// Each source's holder, and the time that serving it takes, ns.
    sources: Vec<(AccountKey, u64)>,
    /// The time for which each source was served, ns.
    had_ns: Vec<u64>,
}

const ROOT: AccountKey = AccountKey::Face(Owner::Root);

fn user(uid: u32) -> AccountKey {
    AccountKey::Face(Owner::uid(uid))
}

fn host(number: u32) -> AccountKey {
    AccountKey::Face(Owner::address(IpAddr::V4(Ipv4Addr::from(number))))
}

fn listener(number: usize) -> AccountKey {
    AccountKey::Listener(SourceId::new(0, number, 0))
}

impl Worker {
    fn new(sources: Vec<(AccountKey, u64)>) -> Self {
        let (had_ns, is_answered) = (vec![0; sources.len()], vec![true; sources.len()]);
        let mut worker = Worker { sources, had_ns, is_answered, ..Worker::default() };
        (0..worker.sources.len()).for_each(|number| worker.wait(number));
        worker
    }

    fn wait(&mut self, number: usize) {
        self.waiting.push(self.sources[number].0, SourceId::new(0, number, 0));
    }

    /// Runs turns of 2 ms until `ns` have passed. Each source that was served waits again.
    fn run(&mut self, ns: u64) {
        let end_ns = self.now_ns + ns;
        while self.now_ns < end_ns {
            match self.waiting.due_ns() {
                Some(due_ns) => self.now_ns = self.now_ns.max(due_ns),
                None => return,
            }
            self.turn(|_| true);
        }
    }

    /// Runs one turn. Returns its duration and the numbers of the served sources. A source with
    /// `has_more` waits again as soon as it has been served.
    fn turn(&mut self, has_more: impl Fn(usize) -> bool) -> (u64, Vec<usize>) {
        let (mut turn_ns, mut served) = (0, Vec::new());
        self.waiting.begin(self.now_ns);
        while let Some(id) = self.waiting.next() {
            let number = id.index();
            served.push(number);
            turn_ns += self.sources[number].1;
            self.had_ns[number] += self.sources[number].1;
            self.waiting.note(1, 1, u64::from(self.is_answered[number]));
            if has_more(number) {
                self.wait(number);
            }
            self.waiting.end(self.waiting.has_more().then_some(turn_ns));
            if self.waiting.has_more() && turn_ns >= 2_000_000 {
                break;
            }
        }
        self.waiting.end_turn(turn_ns);
        self.now_ns += turn_ns;
        (turn_ns, served)
    }

    /// Returns the share of all served time that went to the sources for which `of` is true.
    fn part(&self, of: impl Fn(usize) -> bool) -> f64 {
        let had: u64 = (0..self.had_ns.len()).filter(|number| of(*number)).map(|n| self.had_ns[n]).sum();
        had as f64 / self.had_ns.iter().sum::<u64>() as f64
    }
}

const US: u64 = 1000;

#[test]
fn many_sources_give_no_extra_turns() {
    let mut sources = vec![(user(1), 10 * US); 1000];
    sources.push((user(2), 10 * US));
    let mut worker = Worker::new(sources);
    worker.run(1_000_000 * US);
    let part = worker.part(|number| number == 1000);
    assert!((0.45..=0.55).contains(&part), "{part}");
}

#[test]
fn slow_sources_are_served_less_often() {
    let mut worker = Worker::new(vec![(host(1), 100 * US), (host(2), 10 * US)]);
    worker.run(1_000_000 * US);
    let part = worker.part(|number| number == 0);
    assert!((0.45..=0.55).contains(&part), "{part}");
}

#[test]
fn hosts_leave_root_and_users_their_shares() {
    let mut sources = vec![(ROOT, 20 * US), (user(1), 20 * US), (listener(1), 20 * US)];
    sources.extend((0..1000).map(|n| (host(n), 20 * US)));
    let mut worker = Worker::new(sources);
    worker.run(2_000_000 * US);
    let parts = [worker.part(|n| n == 0), worker.part(|n| n == 1), worker.part(|n| n == 2)];
    for (part, wanted) in parts.into_iter().zip([0.4, 0.2, 0.2]) {
        assert!((part - wanted).abs() < 0.03, "{parts:?}");
    }
    let most = *worker.had_ns[3..].iter().max().unwrap();
    assert!(most <= 2 * worker.had_ns[3..].iter().sum::<u64>() / 1000, "hosts have the same");
}

#[test]
fn unused_class_time_goes_to_others() {
    let mut worker = Worker::new((0..4).map(|n| (host(n), 10 * US)).collect());
    worker.run(100_000 * US);
    assert_eq!(worker.part(|_| true), 1.0);
    assert!((0..4).all(|n| worker.had_ns[n] > 24_000 * US));
}

#[test]
fn modest_sources_are_served_first() {
    let mut sources = vec![(host(1000), 10 * US)];
    sources.extend((0..300).map(|n| (host(n), 500 * US)));
    let mut worker = Worker::new(sources);
    // Serves each of the other sources.
    (0..100).for_each(|_| drop(worker.turn(|number| number > 0)));
    for _ in 0..100 {
        // Source 0 has one packet every third turn.
        worker.turn(|number| number > 0);
        worker.turn(|number| number > 0);
        worker.wait(0);
        let (_, served) = worker.turn(|number| number > 0);
        assert_eq!(served.first(), Some(&0), "{served:?}");
    }
}

#[test]
fn unused_time_is_not_saved_up() {
    let mut worker = Worker::new(vec![(host(1), 100 * US), (host(2), 100 * US)]);
    // For one second only the first source has packets.
    worker.turn(|number| number == 0);
    for _ in 0..10_000 {
        worker.turn(|number| number == 0);
    }
    worker.wait(1);
    worker.had_ns = vec![0, 0];
    worker.run(100_000 * US);
    let part = worker.part(|number| number == 1);
    assert!((0.45..=0.55).contains(&part), "{part}");
}

#[test]
fn sources_of_one_holder_take_turns() {
    let mut worker = Worker::new(vec![(ROOT, US); 100]);
    assert_eq!(worker.turn(|_| false).1, (0..100).collect::<Vec<_>>());
    assert_eq!(worker.waiting.due_ns(), None);
}

#[test]
fn a_turn_ends_at_a_refilled_source() {
    let of_users = (0..3).flat_map(|n| [(user(n + 1), US); 4]);
    let mut worker = Worker::new(of_users.chain([(listener(1), US)]).collect());
    assert_eq!(worker.turn(|_| false).1.len(), 4, "the listener may have more");
    assert_eq!(worker.turn(|_| false).1.len(), 9);
    assert_eq!(worker.turn(|_| false).1, []);
}

#[test]
fn a_departed_source_delays_no_other() {
    let mut worker = Worker::new(vec![(host(1), US), (host(2), US)]);
    worker.waiting.begin(0);
    assert!(worker.waiting.next().is_some());
    // The first source was never reported as served.
    assert!(worker.waiting.next().is_some());
    assert!(worker.waiting.next().is_none());
    assert_eq!(worker.waiting.due_ns(), None);
}

#[test]
fn the_number_of_remembered_holders_is_bounded() {
    let mut waiting = Waiting::default();
    for n in 0..10_000u32 {
        waiting.push(host(n), SourceId::new(0, 0, 0));
        waiting.begin(0);
        while waiting.next().is_some() {
            waiting.end(Some(1_000_000));
        }
        waiting.end_turn(1_000_000);
        assert!(waiting.numbers.len() <= ACCOUNTS_IDLE_MAX + 2);
    }
    assert!(waiting.accounts.len() <= ACCOUNTS_IDLE_MAX + 2);
}

/// The charge of a holder is limited even if the worker was preempted while it served the holder.
#[test]
fn one_serving_has_a_maximum_charge() {
    let mut worker = Worker::new(vec![(host(1), 1_000_000 * US), (host(2), 1000 * US)]);
    let served: Vec<usize> = (0..5).flat_map(|_| worker.turn(|_| true).1).collect();
    assert!(served.iter().filter(|number| **number == 0).count() >= 2, "{served:?}");
}

#[test]
fn unanswered_holders_get_a_small_share() {
    let mut worker = Worker::new((0..12).map(|n| (host(n), 50 * US)).collect());
    worker.is_answered = vec![false; 12];
    worker.run(2 * JUDGED_AFTER_NS);
    worker.had_ns = vec![0; 12];
    worker.run(1_000_000 * US);
    let part = worker.had_ns.iter().sum::<u64>() as f64 / 1e9;
    let wanted = 1.0 / UNANSWERED_PART as f64;
    assert!((wanted * 0.9..=wanted * 1.1).contains(&part), "{part}");
    let [least, most] = [worker.had_ns.iter().min(), worker.had_ns.iter().max()].map(Option::unwrap);
    assert!(*most <= 2 * least, "and each of them has the same: {:?}", worker.had_ns);
}

#[test]
fn rarely_answered_holders_count_as_unanswered() {
    let mut worker = Worker::new(vec![(host(1), US), (host(2), US)]);
    for n in 0..10_000u64 {
        worker.waiting.begin(n * 100_000);
        while let Some(id) = worker.waiting.next() {
            let every = if id.index() == 0 { 8 } else { 40 };
            worker.waiting.note(1, 1, u64::from(n % every == 0));
            worker.waiting.end(None);
        }
        worker.waiting.end_turn(0);
        (0..2).for_each(|number| worker.wait(number));
    }
    let class = |n| worker.waiting.accounts[worker.waiting.numbers[&host(n)]].class;
    assert_eq!((class(1), class(2)), (3, UNANSWERED));
}

/// A worker serves one host several times. Each of `load` is a time in ms, a number of packets and
/// a number of answers. Returns for each whether the host counts as unanswered afterwards.
fn unanswered(load: &[(u64, u64, u64)]) -> Vec<bool> {
    let mut waiting = Waiting::default();
    let mut serve = |(ms, packets, answers): &(u64, u64, u64)| {
        waiting.begin(ms * 1000 * US);
        waiting.push(host(1), SourceId::new(0, 0, 0));
        // Advances the clock until unanswered holders have time again.
        waiting.begin(ms * 1000 * US + 30_000 * US);
        assert!(waiting.next().is_some());
        waiting.note(*packets, *packets, *answers);
        waiting.end(None);
        waiting.end_turn(0);
        waiting.accounts[0].class == UNANSWERED
    };
    load.iter().map(&mut serve).collect()
}

#[test]
fn judgment_starts_at_a_packet_count() {
    let less = JUDGED_PACKETS - 1;
    assert_eq!(unanswered(&[(0, 0, 0), (500, less, 0), (1000, 0, 0), (1500, 0, 0)]), [false; 4]);
    let judged = unanswered(&[(0, 0, 0), (500, JUDGED_PACKETS, 0), (1000, 0, 0), (1001, 8, 8)]);
    assert_eq!(judged, [false, false, true, false]);
}

/// A consumer far away, with a large window.
#[test]
fn recent_requests_may_still_be_answered() {
    let load = [(0, 4000, 0), (100, 4000, 0), (190, 0, 0), (250, 0, 1000), (300, 500, 500), (600, 500, 500)];
    assert_eq!(unanswered(&load), [false; 6]);
    assert_eq!(unanswered(&[(0, 4000, 0), (199, 4000, 0), (200, 0, 0)]), [false, false, true]);
}

#[test]
fn root_and_groups_are_never_judged() {
    let group = AccountKey::Face(Owner::address(IpAddr::V4(Ipv4Addr::new(224, 0, 23, 170))));
    let mut worker = Worker::new(vec![(ROOT, 10 * US), (group, 10 * US), (user(1), 10 * US)]);
    worker.is_answered = vec![false; 3];
    worker.run(2 * JUDGED_AFTER_NS);
    worker.had_ns = vec![0; 3];
    worker.run(1_000_000 * US);
    let parts = [worker.part(|n| n == 0), worker.part(|n| n == 1), worker.part(|n| n == 2)];
    assert!(parts[0] > 0.5 && parts[1] > 0.25 && parts[2] < 0.1, "{parts:?}");
}
