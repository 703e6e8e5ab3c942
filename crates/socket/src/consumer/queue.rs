//! The queue between who receives Data as the window brings them and who verifies them in order
//! (HT-19): pieces by number, at most [`namely_transport::fetch::Options::span_max`], because no
//! further ones are requested before earlier ones were handed over.
//!
//! What costs most of verifying them, digests and signatures, is done ahead and in any order
//! (`namely_security::prepared`): by the thread that verifies, which takes them in runs, and by
//! helpers ([`super::helpers`]) when more wait than that thread gets to. A helper has its pieces
//! out of here meanwhile, and they still count as waiting: the slot of each stays [`Slot::Out`]
//! until it is put back, so that nobody takes a later piece first.
//!
//! Everything is under one lock but three words: `handed` and `news` are read by who requests
//! pieces, on each turn; a release of the writer and an acquire of the reader make what was written
//! before visible, and who reads too early reads again on the next turn, for which it is woken.
//! `over` is set under the lock, so that no helper misses it between its look and its wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namely_security::{Preparation, Prepared};
use namely_transport::object::Progress;

/// Pieces handed over at once: a lock for each run, not for each piece.
pub(super) const RUN_MAX: usize = 32;

/// Pieces prepared at once out of their turn: as many as processors hash side by side.
pub(super) const AHEAD_RUN: usize = 16;

/// Digests of pieces are computed out of their turn when so many wait: fewer are done in the time
/// that waking a thread takes.
pub(super) const AHEAD_DIGESTS: usize = 128;

/// How long a thread waits for pieces before it looks whether somebody still waits for the result.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Maximum number of buffers kept for the packets to come: as many packets of 1200 octets as a
/// stream's reading brings in one turn, all of which a calling thread verifies before it reads on.
const SPARE_MAX: usize = 256;

/// How long a helper waits for more to do before it ends.
const IDLE: Duration = Duration::from_millis(100);

/// A piece's packet, and what was done of its verification. Empty: the piece is lost for good.
pub(super) type Piece = Prepared<Vec<u8>>;

/// The pieces of one object that came and were not verified. `E`: why no further ones come.
#[derive(Debug)]
pub(super) struct VerifyQueue<E> {
    pieces: Mutex<Pieces<E>>,
    /// For the thread that verifies: the next piece is there, or something to prepare.
    ready: Condvar,
    /// For helpers: there is something to prepare.
    unprepared: Condvar,
    /// Every piece before this number was handed over.
    handed: AtomicU64,
    /// Set when who requests pieces has something to learn from `pieces`.
    news: AtomicBool,
    over: AtomicBool,
}

#[derive(Debug)]
struct Pieces<E> {
    /// The number of the first of `slots`.
    base: u64,
    slots: VecDeque<Slot>,
    /// How many of `slots` are not missing.
    filled: usize,
    /// How many of `slots` are unprepared; none is before the number `unprepared_from`.
    unprepared: usize,
    unprepared_from: u64,
    ahead: Ahead,
    /// The thread that verifies waits.
    waits: bool,
    /// Helpers that wait for something to do.
    idle: usize,
    /// A helper panicked: the pieces that it had are gone.
    broken: bool,
    most: usize,
    corrupt: Option<u64>,
    last_segment: Option<u64>,
    ended: Option<E>,
    /// How far requesting was when somebody looked last.
    progress: Progress,
    /// Memory of pieces that were handed over, at most [`SPARE_MAX`].
    spare: Vec<Vec<u8>>,
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
enum Ahead {
    /// Nobody knows before the first piece was verified.
    Unknown,
    Nothing,
    By(Preparation),
}

impl Ahead {
    fn prepare(&self, packets: Vec<Vec<u8>>) -> Vec<Piece> {
        match self {
            Ahead::By(preparation) => Prepared::each(preparation, packets),
            Ahead::Unknown | Ahead::Nothing => packets.into_iter().map(Prepared::from).collect(),
        }
    }
}

/// What the verifying thread found out.
#[derive(Debug, Default)]
pub(super) struct News {
    /// This piece is to be requested again.
    pub(super) corrupt: Option<u64>,
    /// This segment is the last one.
    pub(super) last_segment: Option<u64>,
}

/// What [`VerifyQueue::take`] came to.
#[derive(Debug)]
pub(super) enum Taken {
    /// The next pieces in order, those that are lost for good empty.
    Run(VecDeque<Piece>),
    /// The next one is not there; some behind it were prepared, and more may wait for that.
    Prepared,
    /// Nothing is to be done until more comes.
    Nothing,
}

/// Pieces that somebody is preparing.
struct Work {
    ahead: Ahead,
    numbers: Vec<u64>,
    packets: Vec<Vec<u8>>,
}

impl<E> VerifyQueue<E> {
    /// For pieces from `first` on.
    pub(super) fn new(first: u64) -> Self {
        VerifyQueue {
            pieces: Mutex::new(Pieces {
                base: first,
                slots: VecDeque::new(),
                filled: 0,
                unprepared: 0,
                unprepared_from: first,
                ahead: Ahead::Unknown,
                waits: false,
                idle: 0,
                broken: false,
                most: 0,
                corrupt: None,
                last_segment: None,
                ended: None,
                progress: Progress::default(),
                spare: Vec::new(),
            }),
            ready: Condvar::new(),
            unprepared: Condvar::new(),
            handed: AtomicU64::new(first),
            news: AtomicBool::new(false),
            over: AtomicBool::new(false),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Pieces<E>> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds what came, and takes over the memory of pieces that were handed over.
    pub(super) fn add(&self, fresh: &mut Vec<(u64, Vec<u8>)>, spare: &mut Vec<Vec<u8>>, progress: Progress) {
        let mut state = self.lock();
        for (number, wire) in fresh.drain(..) {
            state.put(number, Slot::Unprepared(wire));
        }
        state.progress = progress;
        spare.append(&mut state.spare);
        self.tell(state);
    }

    /// Records how far requesting is.
    pub(super) fn report(&self, progress: Progress) {
        self.lock().progress = progress;
    }

    /// How far requesting was when that was recorded last.
    pub(super) fn progress(&self) -> Progress {
        self.lock().progress
    }

    /// Piece `number` is lost for good: an empty one takes its place.
    pub(super) fn lose(&self, number: u64) {
        let mut state = self.lock();
        state.put(number, Slot::Prepared(Vec::new().into()));
        self.tell(state);
    }

    /// Wakes who has something to do.
    fn tell(&self, mut state: MutexGuard<'_, Pieces<E>>) {
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
    pub(super) fn end(&self, error: E) {
        self.lock().ended.get_or_insert(error);
        self.ready.notify_all();
    }

    /// Takes the next pieces in order, at most [`RUN_MAX`]. If the next one is not there, prepares
    /// some that came behind it; if there is none of these either, waits for `wait` at most. Calls
    /// `help` when more wait to be prepared than this thread takes and nobody else is there to do
    /// it. Keeps the memory `used` for packets to come.
    pub(super) fn take(&self, wait: Duration, used: &mut Vec<Vec<u8>>, help: &dyn Fn()) -> Result<Taken, E> {
        let mut state = self.lock();
        used.truncate(SPARE_MAX - state.spare.len());
        state.spare.append(used);
        let mut waited = false;
        loop {
            assert!(!state.broken, "a thread that helped to verify panicked");
            let prepared = state.prepared_run();
            if !prepared.is_empty() {
                return Ok(Taken::Run(prepared));
            }
            if let Some((ahead, packets)) = state.unprepared_run() {
                self.call(state, help);
                return Ok(Taken::Run(ahead.prepare(packets).into()));
            }
            let is_next_out = matches!(state.slots.front(), Some(Slot::Out));
            if !is_next_out && let Some(error) = state.ended.take() {
                return Err(error);
            }
            if let Some(work) = state.work() {
                self.call(state, help);
                drop(self.done(work));
                return Ok(Taken::Prepared);
            }
            // A helper that has the next piece needs no packet to go on: it is waited for in any
            // case.
            if waited || (wait.is_zero() && !is_next_out) {
                return Ok(Taken::Nothing);
            }
            state.waits = true;
            let woken =
                self.ready.wait_timeout(state, wait.max(LOOK)).unwrap_or_else(PoisonError::into_inner);
            (state, waited) = (woken.0, woken.1.timed_out());
            state.waits = false;
        }
    }

    /// Returns true if pieces wait that [`VerifyQueue::take`] can do something with.
    pub(super) fn is_ready(&self) -> bool {
        let state = self.lock();
        state.is_next_there() || state.is_work_ahead() || matches!(state.slots.front(), Some(Slot::Out))
    }

    /// Calls somebody else who prepares what this thread leaves.
    fn call(&self, state: MutexGuard<'_, Pieces<E>>, help: &dyn Fn()) {
        let (ahead, idle) = (state.is_work_ahead(), state.idle);
        drop(state);
        match (ahead, idle) {
            (false, _) => {}
            (true, 0) => help(),
            (true, _) => self.unprepared.notify_one(),
        }
    }

    /// Prepares pieces and puts them back.
    fn done(&self, work: Work) -> MutexGuard<'_, Pieces<E>> {
        let pieces = work.ahead.prepare(work.packets);
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

    /// What can be done ahead of pieces that are still to be verified; nothing, too, is an answer.
    pub(super) fn prepare(&self, preparation: Option<Preparation>) {
        self.lock().ahead = preparation.map_or(Ahead::Nothing, Ahead::By);
    }

    /// Returns what could not be verified yet: pieces behind `corrupt`, which came wrong.
    pub(super) fn give_back(&self, corrupt: u64, pieces: VecDeque<Piece>) {
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
    pub(super) fn tell_last(&self, segment: u64) {
        self.lock().last_segment = Some(segment);
        self.news.store(true, Ordering::Release);
    }

    /// Everything before piece `number` was handed over.
    pub(super) fn hand_over(&self, number: u64) {
        self.handed.store(number, Ordering::Release);
    }

    /// See [`VerifyQueue::hand_over`].
    pub(super) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// What the verifying thread found out since the last call.
    pub(super) fn news(&self) -> Option<News> {
        if !self.news.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut state = self.lock();
        Some(News { corrupt: state.corrupt.take(), last_segment: state.last_segment.take() })
    }

    /// Nobody takes from it any more; helpers end.
    pub(super) fn close(&self) {
        let state = self.lock();
        self.over.store(true, Ordering::Release);
        drop(state);
        self.unprepared.notify_all();
    }

    /// Returns true once it is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The largest number of pieces that waited at once.
    pub(super) fn most(&self) -> usize {
        self.lock().most
    }
}

/// Tells the thread that verifies when a helper is gone with its pieces.
struct BreaksOnPanic<'a, E>(&'a VerifyQueue<E>);

impl<E> Drop for BreaksOnPanic<'_, E> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().broken = true;
            self.0.ready.notify_all();
        }
    }
}

impl<E> Pieces<E> {
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

    /// Returns true if pieces that are not in turn should be prepared.
    fn is_work_ahead(&self) -> bool {
        match self.ahead {
            Ahead::By(Preparation::Signatures(_)) => self.unprepared >= AHEAD_RUN,
            Ahead::By(Preparation::Digests(_)) => self.unprepared >= AHEAD_DIGESTS,
            Ahead::Unknown | Ahead::Nothing => false,
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

    /// Takes out the unprepared pieces that are in turn: the first one alone, since it says what
    /// can be done ahead of others.
    fn unprepared_run(&mut self) -> Option<(Ahead, Vec<Vec<u8>>)> {
        let run_max = if matches!(self.ahead, Ahead::Unknown) { 1 } else { RUN_MAX };
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
        (!packets.is_empty()).then(|| (self.ahead.clone(), packets))
    }

    /// Takes out pieces to be prepared out of their turn.
    fn work(&mut self) -> Option<Work> {
        if !self.is_work_ahead() {
            return None;
        }
        let mut work = Work { ahead: self.ahead.clone(), numbers: Vec::new(), packets: Vec::new() };
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
mod stress;
#[cfg(test)]
mod tests;
