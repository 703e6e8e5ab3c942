//! The queue between the thread that receives Data in the order of arrival and the thread that
//! verifies them in order (HT-19). It holds pieces by number, at most
//! [`namely_transport::fetch::Options::span_octets_max`] octets of them, because no further pieces
//! are requested until earlier ones are verified and handed over.
//!
//! The most expensive steps of verification, digests and signatures, are done ahead and in any
//! order (`namely_security::prepared`). The verifying thread does them for the pieces that it takes
//! in runs; helpers ([`super::helpers`]) join it when more pieces wait than it can process. A piece
//! that a helper has taken out still counts as waiting: its slot stays [`Slot::Out`] until the
//! piece is put back, so that no later piece is taken first.
//!
//! One lock protects everything except three words. The requesting thread reads `handed` and `news`
//! in each round without the lock: a release by the writer and an acquire by the reader make the
//! preceding writes visible. If the reader misses a change, it is woken and reads the change in the
//! next round. `over` is set under the lock, so that no helper misses it between its check and its
//! wait.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use namely_security::{Preparation, Prepared};
use namely_transport::object::Progress;

/// Maximum number of pieces in a run. The lock is taken once for each run instead of once for each
/// piece.
pub(super) const RUN_MAX: usize = 32;

/// Number of pieces prepared at once out of order: the largest number of packets that one processor
/// hashes in parallel.
pub(super) const AHEAD_RUN: usize = 16;

/// Digests are computed out of order if at least this number of pieces wait. Fewer digests take no
/// longer than waking a thread.
pub(super) const AHEAD_DIGESTS: usize = 128;

/// Time for which a thread waits for pieces before it checks whether the result is still awaited.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// Maximum number of buffers retained for later packets. One round of a stream receives this number
/// of packets of 1200 octets. A calling thread verifies all of them before it receives more.
const SPARE_MAX: usize = 256;

/// Time for which a helper waits for work before it ends.
const IDLE: Duration = Duration::from_millis(100);

/// A piece's packet and the results of the verification steps done so far. Empty: the piece is lost
/// for good.
pub(super) type Piece = Prepared<Vec<u8>>;

/// The received pieces of one object that are not verified yet. `E`: the reason why no further
/// pieces arrive.
#[derive(Debug)]
pub(super) struct VerifyQueue<E> {
    pieces: Mutex<Pieces<E>>,
    /// Wakes the verifying thread: the next piece has arrived, or pieces need preparation.
    ready: Condvar,
    /// Wakes helpers: pieces need preparation.
    unprepared: Condvar,
    /// Every piece before this number was handed over.
    handed: AtomicU64,
    /// Set when `pieces` has news for the requesting thread.
    news: AtomicBool,
    over: AtomicBool,
}

#[derive(Debug)]
struct Pieces<E> {
    /// The number of the first of `slots`.
    base: u64,
    slots: VecDeque<Slot>,
    /// Number of `slots` that are not missing.
    filled: usize,
    /// Number of `slots` that are unprepared. No unprepared slot is before the number
    /// `unprepared_from`.
    unprepared: usize,
    unprepared_from: u64,
    ahead: PreparationMode,
    /// The verifying thread waits.
    waits: bool,
    /// Number of helpers that wait for work.
    idle: usize,
    /// A helper panicked, and its pieces are lost.
    broken: bool,
    most: usize,
    corrupt: Option<u64>,
    last_segment: Option<u64>,
    ended: Option<E>,
    /// The progress of requesting at the last report.
    progress: Progress,
    /// Memory of handed-over pieces, at most [`SPARE_MAX`] buffers.
    spare: Vec<Vec<u8>>,
}

#[derive(Debug)]
enum Slot {
    Missing,
    Unprepared(Vec<u8>),
    /// A thread is preparing it.
    Out,
    Prepared(Piece),
}

/// The preparation that is possible ahead of verification.
#[derive(Clone, Debug)]
enum PreparationMode {
    /// Unknown before the first piece was verified.
    Unknown,
    Nothing,
    By(Preparation),
}

impl PreparationMode {
    fn prepare(&self, packets: Vec<Vec<u8>>) -> Vec<Piece> {
        match self {
            PreparationMode::By(preparation) => Prepared::each(preparation, packets),
            PreparationMode::Unknown | PreparationMode::Nothing => {
                packets.into_iter().map(Prepared::from).collect()
            }
        }
    }
}

/// Findings of the verifying thread.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// The number of a piece to request again.
    pub(super) corrupt: Option<u64>,
    /// This segment is the last one.
    pub(super) last_segment: Option<u64>,
}

/// The result of [`VerifyQueue::take`].
#[derive(Debug)]
pub(super) enum NextPieces {
    /// The next pieces in order; those that are lost for good are empty.
    Run(VecDeque<Piece>),
    /// The next piece is missing. Some later pieces were prepared, and more may wait for
    /// preparation.
    Prepared,
    /// There is no work until more pieces arrive.
    Nothing,
}

/// Pieces that a thread is preparing.
struct PreparationWork {
    ahead: PreparationMode,
    numbers: Vec<u64>,
    packets: Vec<Vec<u8>>,
}

impl<E> VerifyQueue<E> {
    /// Creates a queue for the pieces from `first` on.
    pub(super) fn new(first: u64) -> Self {
        VerifyQueue {
            pieces: Mutex::new(Pieces {
                base: first,
                slots: VecDeque::new(),
                filled: 0,
                unprepared: 0,
                unprepared_from: first,
                ahead: PreparationMode::Unknown,
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

    /// Adds received pieces. Moves the memory of pieces that were handed over to `spare`.
    pub(super) fn add(&self, fresh: &mut Vec<(u64, Vec<u8>)>, spare: &mut Vec<Vec<u8>>, progress: Progress) {
        let mut state = self.lock();
        for (number, wire) in fresh.drain(..) {
            state.put(number, Slot::Unprepared(wire));
        }
        state.progress = progress;
        spare.append(&mut state.spare);
        self.wake(state);
    }

    /// Records the progress of requesting.
    pub(super) fn report(&self, progress: Progress) {
        self.lock().progress = progress;
    }

    /// The progress of requesting at the last report.
    pub(super) fn progress(&self) -> Progress {
        self.lock().progress
    }

    /// Marks piece `number` as lost for good by an empty piece.
    pub(super) fn lose(&self, number: u64) {
        let mut state = self.lock();
        state.put(number, Slot::Prepared(Vec::new().into()));
        self.wake(state);
    }

    /// Wakes the threads that now have work.
    fn wake(&self, mut state: MutexGuard<'_, Pieces<E>>) {
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

    /// Records that no further pieces arrive, because of `error`.
    pub(super) fn end(&self, error: E) {
        self.lock().ended.get_or_insert(error);
        self.ready.notify_all();
    }

    /// Takes the next pieces in order, at most [`RUN_MAX`]. If the next piece is missing, prepares
    /// some later pieces. If no piece needs preparation either, waits for `wait`, and for [`LOOK`]
    /// at least. If `wait` is zero, it waits only for a piece that a helper is preparing. Calls
    /// `help` when more pieces need preparation than this thread takes and no helper is idle.
    /// Retains the memory `used` for later packets.
    pub(super) fn take(
        &self,
        wait: Duration,
        used: &mut Vec<Vec<u8>>,
        help: &dyn Fn(),
    ) -> Result<NextPieces, E> {
        let mut state = self.lock();
        used.truncate(SPARE_MAX - state.spare.len());
        state.spare.append(used);
        let mut waited = false;
        loop {
            assert!(!state.broken, "a thread that helped to verify panicked");
            let prepared = state.prepared_run();
            if !prepared.is_empty() {
                return Ok(NextPieces::Run(prepared));
            }
            if let Some((ahead, packets)) = state.unprepared_run() {
                self.call(state, help);
                return Ok(NextPieces::Run(ahead.prepare(packets).into()));
            }
            let is_next_out = matches!(state.slots.front(), Some(Slot::Out));
            if !is_next_out && let Some(error) = state.ended.take() {
                return Err(error);
            }
            if let Some(work) = state.work() {
                self.call(state, help);
                drop(self.done(work));
                return Ok(NextPieces::Prepared);
            }
            // A helper that has the next piece needs no further packet to finish. This thread
            // therefore always waits for it.
            if waited || (wait.is_zero() && !is_next_out) {
                return Ok(NextPieces::Nothing);
            }
            state.waits = true;
            let woken =
                self.ready.wait_timeout(state, wait.max(LOOK)).unwrap_or_else(PoisonError::into_inner);
            (state, waited) = (woken.0, woken.1.timed_out());
            state.waits = false;
        }
    }

    /// Returns true if [`VerifyQueue::take`] has work to do, or if a helper is preparing the next
    /// piece.
    pub(super) fn is_ready(&self) -> bool {
        let state = self.lock();
        state.is_next_there() || state.is_work_ahead() || matches!(state.slots.front(), Some(Slot::Out))
    }

    /// Wakes or starts a helper for the pieces that this thread did not take.
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
    fn done(&self, work: PreparationWork) -> MutexGuard<'_, Pieces<E>> {
        let pieces = work.ahead.prepare(work.packets);
        let mut state = self.lock();
        for (number, piece) in work.numbers.into_iter().zip(pieces) {
            state.put_back(number, piece);
        }
        state
    }

    /// Prepares pieces as they arrive, until the queue is closed or the helper was idle for too
    /// long.
    pub(super) fn help(&self) {
        let _broken = PanicGuard(self);
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

    /// Sets the preparation that is possible for pieces not yet verified. None: no preparation is
    /// possible.
    pub(super) fn prepare(&self, preparation: Option<Preparation>) {
        self.lock().ahead = preparation.map_or(PreparationMode::Nothing, PreparationMode::By);
    }

    /// Returns unverified pieces to the queue. They follow `corrupt`, which failed verification.
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

    /// Records that, according to a verified segment, `segment` is the last one.
    pub(super) fn set_last_segment(&self, segment: u64) {
        self.lock().last_segment = Some(segment);
        self.news.store(true, Ordering::Release);
    }

    /// Records that every piece before `number` was verified and handed over.
    pub(super) fn hand_over(&self, number: u64) {
        self.handed.store(number, Ordering::Release);
    }

    /// See [`VerifyQueue::hand_over`].
    pub(super) fn handed(&self) -> u64 {
        self.handed.load(Ordering::Acquire)
    }

    /// Returns the findings of the verifying thread since the last call.
    pub(super) fn news(&self) -> Option<Findings> {
        if !self.news.swap(false, Ordering::AcqRel) {
            return None;
        }
        let mut state = self.lock();
        Some(Findings { corrupt: state.corrupt.take(), last_segment: state.last_segment.take() })
    }

    /// Closes the queue. The verifying thread takes no more pieces, and helpers end.
    pub(super) fn close(&self) {
        let state = self.lock();
        self.over.store(true, Ordering::Release);
        drop(state);
        self.unprepared.notify_all();
    }

    /// Returns true if the queue is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// The largest number of pieces that waited at once.
    pub(super) fn most(&self) -> usize {
        self.lock().most
    }
}

/// Notifies the verifying thread if a helper panics with its pieces.
struct PanicGuard<'a, E>(&'a VerifyQueue<E>);

impl<E> Drop for PanicGuard<'_, E> {
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

    /// Returns true if later pieces should be prepared out of order.
    fn is_work_ahead(&self) -> bool {
        match self.ahead {
            PreparationMode::By(Preparation::Signatures(_)) => self.unprepared >= AHEAD_RUN,
            PreparationMode::By(Preparation::Digests(_)) => self.unprepared >= AHEAD_DIGESTS,
            PreparationMode::Unknown | PreparationMode::Nothing => false,
        }
    }

    /// Takes out the prepared pieces that are next in order.
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

    /// Takes out the unprepared pieces that are next in order. While the preparation is unknown
    /// this is the first piece alone, because it determines the preparation of the others.
    fn unprepared_run(&mut self) -> Option<(PreparationMode, Vec<Vec<u8>>)> {
        let run_max = if matches!(self.ahead, PreparationMode::Unknown) { 1 } else { RUN_MAX };
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

    /// Takes out pieces to prepare out of order.
    fn work(&mut self) -> Option<PreparationWork> {
        if !self.is_work_ahead() {
            return None;
        }
        let mut work =
            PreparationWork { ahead: self.ahead.clone(), numbers: Vec::new(), packets: Vec::new() };
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
