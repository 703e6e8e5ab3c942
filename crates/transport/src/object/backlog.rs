//! What lies between who takes Data in as the window brings them and who checks them in order (HT-19): pieces by number, at most
//! as many as [`crate::fetch::Options::span_max`], because no further ones are asked for before earlier ones were handed over.
//!
//! What costs most of checking them, digests and signatures, is done ahead and in any order (`namely_security::prepared`): by the
//! thread that checks, which takes them in runs, and by helpers ([`super::helpers`]) when more wait than that thread gets to. A
//! helper has its pieces out of here meanwhile, and they still count as waiting.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namely_security::{Preparation, Prepared};

/// Pieces handed over at once: a lock for each run, not for each piece.
pub const RUN_MAX: usize = 32;

/// Pieces prepared at once out of their turn: as many as processors hash side by side.
pub const AHEAD_RUN: usize = 16;

/// Digests of pieces are computed out of their turn when so many wait: fewer are done in the time that waking a thread takes.
pub const AHEAD_DIGESTS: usize = 128;

/// How often a waiting thread looks whether the call was given up.
const LOOK: Duration = Duration::from_millis(50);

/// How long a helper waits for more to do before it ends.
const IDLE: Duration = Duration::from_millis(100);

/// A piece's packet, and what was done of its verification. Empty: the piece is lost for good.
pub type Piece = Prepared<Vec<u8>>;

/// The pieces of one object that came and were not checked. `E`: why no further ones come.
#[derive(Debug)]
pub struct Backlog<E> {
    state: Mutex<State<E>>,
    /// For the thread that checks: the next piece is there, or something to prepare.
    ready: Condvar,
    /// For helpers: there is something to prepare.
    unprepared: Condvar,
    /// Every piece before this number was handed over.
    handed: AtomicU64,
    /// Whether who asks for pieces has something to learn from `state`.
    news: AtomicBool,
    over: AtomicBool,
}

#[derive(Debug)]
struct State<E> {
    /// The number of the first of `slots`.
    base: u64,
    slots: VecDeque<Slot>,
    /// How many of `slots` are not missing.
    filled: usize,
    /// How many of `slots` are unprepared; none is before the number `unprepared_from`.
    unprepared: usize,
    unprepared_from: u64,
    how: How,
    /// Whether the thread that checks waits.
    waits: bool,
    /// Helpers that wait for something to do.
    idle: usize,
    /// Whether a helper panicked: the pieces that it had are gone.
    broken: bool,
    most: usize,
    corrupt: Option<u64>,
    last_segment: Option<u64>,
    ended: Option<E>,
}

#[derive(Debug)]
enum Slot {
    Missing,
    Unprepared(Vec<u8>),
    /// Somebody is preparing it.
    Out,
    Prepared(Piece),
}

/// What can be done ahead.
#[derive(Clone, Debug)]
enum How {
    /// Nobody knows before the first piece was checked.
    Unknown,
    Nothing,
    By(Preparation),
}

impl How {
    fn prepare(&self, packets: Vec<Vec<u8>>) -> Vec<Piece> {
        match self {
            How::By(preparation) => Prepared::each(preparation, packets),
            How::Unknown | How::Nothing => packets.into_iter().map(Prepared::from).collect(),
        }
    }
}

/// What the checking thread found out.
#[derive(Debug, Default)]
pub struct News {
    /// This piece is to be asked for again.
    pub corrupt: Option<u64>,
    /// This segment is the last one.
    pub last_segment: Option<u64>,
}

/// Why no further pieces come.
#[derive(Debug)]
pub enum Stopped<E> {
    /// Who asks for them says why.
    Ended(E),
    /// Nobody waits for the result.
    GivenUp,
}

/// Pieces that somebody is preparing.
struct Work {
    how: How,
    numbers: Vec<u64>,
    packets: Vec<Vec<u8>>,
}

impl<E> Backlog<E> {
    /// For pieces from `first` on.
    pub fn new(first: u64) -> Self {
        Backlog {
            state: Mutex::new(State {
                base: first,
                slots: VecDeque::new(),
                filled: 0,
                unprepared: 0,
                unprepared_from: first,
                how: How::Unknown,
                waits: false,
                idle: 0,
                broken: false,
                most: 0,
                corrupt: None,
                last_segment: None,
                ended: None,
            }),
            ready: Condvar::new(),
            unprepared: Condvar::new(),
            handed: AtomicU64::new(first),
            news: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<E>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what came.
    pub fn add(&self, fresh: &mut Vec<(u64, Vec<u8>)>) {
        let mut state = self.lock();
        for (number, wire) in fresh.drain(..) {
            state.put(number, Slot::Unprepared(wire));
        }
        self.tell(state);
    }

    /// Piece `number` is lost for good: an empty one takes its place.
    pub fn give_up(&self, number: u64) {
        let mut state = self.lock();
        state.put(number, Slot::Prepared(Vec::new().into()));
        self.tell(state);
    }

    /// Wakes who has something to do.
    fn tell(&self, mut state: MutexGuard<'_, State<E>>) {
        state.most = state.most.max(state.filled);
        let ahead = state.is_work_ahead();
        let (check, help) = (state.waits && (ahead || state.is_next_there()), ahead && state.idle > 0);
        drop(state);
        if check {
            self.ready.notify_one();
        }
        if help {
            self.unprepared.notify_one();
        }
    }

    /// Nothing further comes.
    pub fn end(&self, error: E) {
        self.lock().ended.get_or_insert(error);
        self.ready.notify_all();
    }

    /// The next pieces in order, at least one and at most [`RUN_MAX`], those that are lost for good empty; waits for them until
    /// `given_up`, and prepares meanwhile what came behind them. Calls `help` when more wait to be prepared than this thread
    /// takes and nobody else is there to do it.
    pub fn take(&self, given_up: &dyn Fn() -> bool, help: &dyn Fn()) -> Result<VecDeque<Piece>, Stopped<E>> {
        let mut state = self.lock();
        loop {
            assert!(!state.broken, "a thread that helped to verify panicked");
            if given_up() {
                return Err(Stopped::GivenUp);
            }
            let prepared = state.prepared_run();
            if !prepared.is_empty() {
                return Ok(prepared);
            }
            if let Some((how, packets)) = state.unprepared_run() {
                self.call(state, help);
                return Ok(how.prepare(packets).into());
            }
            let is_next_out = matches!(state.slots.front(), Some(Slot::Out));
            if !is_next_out && let Some(error) = state.ended.take() {
                return Err(Stopped::Ended(error));
            }
            if let Some(work) = state.work() {
                self.call(state, help);
                state = self.done(work);
                continue;
            }
            state.waits = true;
            state = self.ready.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
            state.waits = false;
        }
    }

    /// Sees to it that somebody else prepares what this thread leaves.
    fn call(&self, state: MutexGuard<'_, State<E>>, help: &dyn Fn()) {
        let (ahead, idle) = (state.is_work_ahead(), state.idle);
        drop(state);
        match (ahead, idle) {
            (false, _) => {}
            (true, 0) => help(),
            (true, _) => self.unprepared.notify_one(),
        }
    }

    /// Prepares pieces and puts them back.
    fn done(&self, work: Work) -> MutexGuard<'_, State<E>> {
        let pieces = work.how.prepare(work.packets);
        let mut state = self.lock();
        for (number, piece) in work.numbers.into_iter().zip(pieces) {
            state.put_back(number, piece);
        }
        state
    }

    /// Prepares pieces as they come, until this is closed or nothing was to do for a while.
    pub(super) fn help(&self) {
        let _broken = BreaksOnPanic(self);
        let mut state = self.lock();
        loop {
            if self.is_closed() {
                return;
            }
            if let Some(work) = state.work() {
                drop(state);
                state = self.done(work);
                if state.waits && state.is_next_there() {
                    self.ready.notify_one();
                }
                continue;
            }
            state.idle += 1;
            let waited = self.unprepared.wait_timeout(state, IDLE);
            let (awake, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = awake;
            state.idle -= 1;
            if timeout.timed_out() && !state.is_work_ahead() {
                return;
            }
        }
    }

    /// What can be done ahead of pieces that are still to be checked; nothing, too, is an answer.
    pub fn prepare(&self, preparation: Option<Preparation>) {
        self.lock().how = preparation.map_or(How::Nothing, How::By);
    }

    /// Gives back what could not be checked yet: pieces behind `corrupt`, which came wrong.
    pub fn give_back(&self, corrupt: u64, pieces: VecDeque<Piece>) {
        let mut state = self.lock();
        state.filled += pieces.len();
        for piece in pieces.into_iter().rev() {
            state.slots.push_front(Slot::Prepared(piece));
        }
        state.slots.push_front(Slot::Missing);
        state.base = corrupt;
        state.unprepared_from = state.unprepared_from.min(corrupt);
        state.corrupt = Some(corrupt);
        self.news.store(true, Ordering::Release);
    }

    /// A verified segment said that `segment` is the last one.
    pub fn tell_last(&self, segment: u64) {
        self.lock().last_segment = Some(segment);
        self.news.store(true, Ordering::Release);
    }

    /// Everything before piece `number` was handed over.
    pub fn hand_over(&self, number: u64) {
        self.handed.store(number, Ordering::Release);
    }

    /// See [`Backlog::hand_over`].
    pub fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// What the checking thread found out since this was asked last.
    pub fn news(&self) -> Option<News> {
        if !self.news.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut state = self.lock();
        Some(News { corrupt: state.corrupt.take(), last_segment: state.last_segment.take() })
    }

    /// Nobody takes from it any more; helpers end.
    pub fn close(&self) {
        let state = self.lock();
        self.over.store(true, Ordering::Release);
        drop(state);
        self.unprepared.notify_all();
    }

    /// Whether that is so.
    pub fn is_closed(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The most pieces that waited at once.
    pub fn most(&self) -> usize {
        self.lock().most
    }
}

/// Tells the thread that checks when a helper is gone with its pieces.
struct BreaksOnPanic<'a, E>(&'a Backlog<E>);

impl<E> Drop for BreaksOnPanic<'_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().broken = true;
            self.0.ready.notify_all();
        }
    }
}

impl<E> State<E> {
    fn put(&mut self, number: u64, piece: Slot) {
        let Some(i) = number.checked_sub(self.base).and_then(|i| usize::try_from(i).ok()) else { return };
        if self.slots.len() <= i {
            self.slots.resize_with(i + 1, || Slot::Missing);
        }
        if !matches!(self.slots[i], Slot::Missing) {
            return;
        }
        self.filled += 1;
        if matches!(piece, Slot::Unprepared(_)) {
            self.unprepared += 1;
            self.unprepared_from = self.unprepared_from.min(number);
        }
        self.slots[i] = piece;
    }

    fn put_back(&mut self, number: u64, piece: Piece) {
        let i = number.checked_sub(self.base).and_then(|i| usize::try_from(i).ok());
        if let Some(slot @ Slot::Out) = i.and_then(|i| self.slots.get_mut(i)) {
            *slot = Slot::Prepared(piece);
        }
    }

    fn is_next_there(&self) -> bool {
        matches!(self.slots.front(), Some(Slot::Unprepared(_) | Slot::Prepared(_)))
    }

    /// Whether pieces that are not in turn should be prepared.
    fn is_work_ahead(&self) -> bool {
        match self.how {
            How::By(Preparation::Signatures(_)) => self.unprepared >= AHEAD_RUN,
            How::By(Preparation::Digests(_)) => self.unprepared >= AHEAD_DIGESTS,
            How::Unknown | How::Nothing => false,
        }
    }

    /// Takes out the prepared pieces that are in turn.
    fn prepared_run(&mut self) -> VecDeque<Piece> {
        let mut run = VecDeque::new();
        while run.len() < RUN_MAX
            && let Some(Slot::Prepared(_)) = self.slots.front()
            && let Some(Slot::Prepared(piece)) = self.slots.pop_front()
        {
            run.push_back(piece);
        }
        self.base += run.len() as u64;
        self.filled -= run.len();
        run
    }

    /// Takes out the unprepared pieces that are in turn: the first one alone, since it says what can be done ahead of others.
    fn unprepared_run(&mut self) -> Option<(How, Vec<Vec<u8>>)> {
        let run_max = if matches!(self.how, How::Unknown) { 1 } else { RUN_MAX };
        let mut packets = Vec::new();
        while packets.len() < run_max
            && let Some(Slot::Unprepared(_)) = self.slots.front()
            && let Some(Slot::Unprepared(packet)) = self.slots.pop_front()
        {
            packets.push(packet);
        }
        self.base += packets.len() as u64;
        self.filled -= packets.len();
        self.unprepared -= packets.len();
        (!packets.is_empty()).then(|| (self.how.clone(), packets))
    }

    /// Takes out pieces to be prepared out of their turn.
    fn work(&mut self) -> Option<Work> {
        if !self.is_work_ahead() {
            return None;
        }
        let mut work = Work { how: self.how.clone(), numbers: Vec::new(), packets: Vec::new() };
        let from = self.unprepared_from.max(self.base);
        for (number, slot) in (from..).zip(self.slots.iter_mut().skip((from - self.base) as usize)) {
            if let Slot::Unprepared(packet) = slot {
                work.packets.push(std::mem::take(packet));
                work.numbers.push(number);
                *slot = Slot::Out;
            }
            self.unprepared_from = number + 1;
            if work.packets.len() == AHEAD_RUN {
                break;
            }
        }
        self.unprepared -= work.packets.len();
        Some(work)
    }
}

#[cfg(test)]
mod tests;
