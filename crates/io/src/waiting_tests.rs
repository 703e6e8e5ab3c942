use std::net::{IpAddr, Ipv4Addr};

use super::*;

/// A worker with sources of which some have more whenever they have been read.
#[derive(Default)]
struct Worker {
    waiting: Waiting,
    now_ns: u64,
    /// Whether a source's packets are answered.
    is_answered: Vec<bool>,
    /// By number: whose source it is, and what serving it takes, ns.
    sources: Vec<(Whose, u64)>,
    /// How long each was served, ns.
    had_ns: Vec<u64>,
}

const ROOT: Whose = Whose::Face(Holder::Root);

fn user(uid: u32) -> Whose {
    Whose::Face(Holder::uid(uid))
}

fn host(number: u32) -> Whose {
    Whose::Face(Holder::address(IpAddr::V4(Ipv4Addr::from(number))))
}

fn listener(number: usize) -> Whose {
    Whose::Listener(SourceId::new(0, number, 0))
}

impl Worker {
    fn new(sources: Vec<(Whose, u64)>) -> Self {
        let (had_ns, is_answered) = (vec![0; sources.len()], vec![true; sources.len()]);
        let mut worker = Worker { sources, had_ns, is_answered, ..Worker::default() };
        (0..worker.sources.len()).for_each(|number| worker.wait(number));
        worker
    }

    fn wait(&mut self, number: usize) {
        self.waiting.push(self.sources[number].0, SourceId::new(0, number, 0));
    }

    /// Runs turns of 2 ms for so long. Each source that was served wants more.
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

    /// One turn: how long it took, and who was served. Of whom `has_more` is true, more is known as
    /// soon as it has been served.
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

    /// The part of all time that sources had which `of` is true for.
    fn part(&self, of: impl Fn(usize) -> bool) -> f64 {
        let had: u64 = (0..self.had_ns.len()).filter(|number| of(*number)).map(|n| self.had_ns[n]).sum();
        had as f64 / self.had_ns.iter().sum::<u64>() as f64
    }
}

const US: u64 = 1000;

#[test]
fn one_with_a_thousand_sources_has_no_more_turns_than_one_with_one() {
    let mut sources = vec![(user(1), 10 * US); 1000];
    sources.push((user(2), 10 * US));
    let mut worker = Worker::new(sources);
    worker.run(1_000_000 * US);
    let part = worker.part(|number| number == 1000);
    assert!((0.45..=0.55).contains(&part), "{part}");
}

#[test]
fn who_takes_ten_times_as_long_is_served_a_tenth_as_often() {
    let mut worker = Worker::new(vec![(host(1), 100 * US), (host(2), 10 * US)]);
    worker.run(1_000_000 * US);
    let part = worker.part(|number| number == 0);
    assert!((0.45..=0.55).contains(&part), "{part}");
}

#[test]
fn however_many_hosts_there_are_root_and_users_have_their_parts() {
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
fn what_one_class_does_not_use_the_others_have() {
    let mut worker = Worker::new((0..4).map(|n| (host(n), 10 * US)).collect());
    worker.run(100_000 * US);
    assert_eq!(worker.part(|_| true), 1.0);
    assert!((0..4).all(|n| worker.had_ns[n] > 24_000 * US));
}

#[test]
fn whoever_needs_little_is_served_before_all_who_want_more() {
    let mut sources = vec![(host(1000), 10 * US)];
    sources.extend((0..300).map(|n| (host(n), 500 * US)));
    let mut worker = Worker::new(sources);
    // Each of the others has been served.
    (0..100).for_each(|_| drop(worker.turn(|number| number > 0)));
    for _ in 0..100 {
        // It has one packet every third turn.
        worker.turn(|number| number > 0);
        worker.turn(|number| number > 0);
        worker.wait(0);
        let (_, served) = worker.turn(|number| number > 0);
        assert_eq!(served.first(), Some(&0), "{served:?}");
    }
}

#[test]
fn nobody_saves_up_time_that_he_did_not_want() {
    let mut worker = Worker::new(vec![(host(1), 100 * US), (host(2), 100 * US)]);
    // For a second only the first one wants anything.
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
fn sources_of_one_holder_are_all_served_in_order() {
    let mut worker = Worker::new(vec![(ROOT, US); 100]);
    assert_eq!(worker.turn(|_| false).1, (0..100).collect::<Vec<_>>());
    assert_eq!(worker.waiting.due_ns(), None);
}

#[test]
fn a_turn_ends_with_the_first_who_may_have_more_by_the_next_look() {
    let of_users = (0..3).flat_map(|n| [(user(n + 1), US); 4]);
    let mut worker = Worker::new(of_users.chain([(listener(1), US)]).collect());
    assert_eq!(worker.turn(|_| false).1.len(), 4, "the listener may have more");
    assert_eq!(worker.turn(|_| false).1.len(), 9);
    assert_eq!(worker.turn(|_| false).1, []);
}

#[test]
fn who_has_gone_does_not_hold_up_the_others() {
    let mut worker = Worker::new(vec![(host(1), US), (host(2), US)]);
    worker.waiting.begin(0);
    assert!(worker.waiting.next().is_some());
    // Nobody said that it was served.
    assert!(worker.waiting.next().is_some());
    assert!(worker.waiting.next().is_none());
    assert_eq!(worker.waiting.due_ns(), None);
}

#[test]
fn so_many_holders_are_remembered_and_one_more_makes_room() {
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

/// What one is charged for the time in which the worker had no processor has an end.
#[test]
fn one_serving_is_charged_two_milliseconds_at_most() {
    let mut worker = Worker::new(vec![(host(1), 1_000_000 * US), (host(2), 1000 * US)]);
    let served: Vec<usize> = (0..5).flat_map(|_| worker.turn(|_| true).1).collect();
    assert!(served.iter().filter(|number| **number == 0).count() >= 2, "{served:?}");
}

#[test]
fn who_is_not_answered_has_a_small_part_of_the_time_even_where_nobody_else_wants_it() {
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
fn who_is_answered_an_eighth_of_the_time_is_one_like_others_and_who_hardly_ever_is_not() {
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

/// A worker at which one host asks at these times: whether it counts as not answered then.
fn asked(asks: &[(u64, u64, u64)]) -> Vec<bool> {
    let mut waiting = Waiting::default();
    let mut ask = |(ms, packets, answers): &(u64, u64, u64)| {
        waiting.begin(ms * 1000 * US);
        waiting.push(host(1), SourceId::new(0, 0, 0));
        // Until it has time again.
        waiting.begin(ms * 1000 * US + 30_000 * US);
        assert!(waiting.next().is_some());
        waiting.note(*packets, *packets, *answers);
        waiting.end(None);
        waiting.end_turn(0);
        waiting.accounts[0].class == UNANSWERED
    };
    asks.iter().map(&mut ask).collect()
}

#[test]
fn so_many_packets_are_not_judged_and_one_more_is_and_who_is_answered_again_is_forgiven() {
    let less = JUDGED_PACKETS - 1;
    assert_eq!(asked(&[(0, 0, 0), (500, less, 0), (1000, 0, 0), (1500, 0, 0)]), [false; 4]);
    let judged = asked(&[(0, 0, 0), (500, JUDGED_PACKETS, 0), (1000, 0, 0), (1001, 8, 8)]);
    assert_eq!(judged, [false, false, true, false]);
}

/// A consumer far away, with a large window.
#[test]
fn what_was_asked_for_just_now_may_be_answered_yet() {
    let asks = [(0, 4000, 0), (100, 4000, 0), (190, 0, 0), (250, 0, 1000), (300, 500, 500), (600, 500, 500)];
    assert_eq!(asked(&asks), [false; 6]);
    assert_eq!(asked(&[(0, 4000, 0), (199, 4000, 0), (200, 0, 0)]), [false, false, true]);
}

#[test]
fn root_and_groups_are_one_like_others_whether_or_not_they_are_answered() {
    let group = Whose::Face(Holder::address(IpAddr::V4(Ipv4Addr::new(224, 0, 23, 170))));
    let mut worker = Worker::new(vec![(ROOT, 10 * US), (group, 10 * US), (user(1), 10 * US)]);
    worker.is_answered = vec![false; 3];
    worker.run(2 * JUDGED_AFTER_NS);
    worker.had_ns = vec![0; 3];
    worker.run(1_000_000 * US);
    let parts = [worker.part(|n| n == 0), worker.part(|n| n == 1), worker.part(|n| n == 2)];
    assert!(parts[0] > 0.5 && parts[1] > 0.25 && parts[2] < 0.1, "{parts:?}");
}
