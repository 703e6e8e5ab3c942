//! Messages from the data plane to the control thread.

mod fair_queue;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use namely_forwarder::{FaceId, Learned};
use namely_host::clock;
use namely_host::shares::Owner;
use namely_io::Credentials;
use namely_messages::FaceEventNotification;
use namely_wire::{LpHeaders, Name, NameRef};
use parking_lot::{Condvar, Mutex, MutexGuard};

use self::fair_queue::{FairQueue, NextOwner};
use super::Packet;

pub(super) use self::fair_queue::Full;
pub use self::fair_queue::{
    CONTROL_PACKETS_MAX, CONTROL_PACKETS_PER_HOLDER_MAX, CONTROL_PACKETS_PER_SECOND, CONTROL_TIME_SHARE,
};

/// Face events that wait for the control thread.
///
/// # Limit
/// Peers get no new faces until the control thread has caught up; events of existing faces are
/// never lost.
/// - Counter: `control_busy`
/// - Tests: `a_busy_control_thread_misses_no_event`
pub const CONTROL_EVENTS_MAX: usize = 4096;

/// Routes learned from Data that wait for the control thread.
///
/// # Limit
/// Further routes are learned, and their announcements are dropped.
/// - Counter: `learned_queue_full`
/// - Tests: `learned_routes_wait_up_to_their_limit`
pub const LEARNED_ROUTES_WAITING_MAX: usize = 256;

/// Number of face events that are handled before a packet, if one waits.
const EVENTS_PER_PACKET: u32 = 16;

/// An event for the control thread.
#[derive(Debug)]
pub enum ControlEvent {
    /// A packet that the forwarder sent to the internal face.
    Packet(ControlPacket),
    /// A face was created, was destroyed, or changed its state.
    Face(Box<FaceEventNotification>),
    /// Data has revealed a route.
    Learned(LearnedRoute),
    /// [`InboxWaker::wake`] was called.
    Woken,
}

/// A route to an object, revealed by Data that arrived on a face.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LearnedRoute {
    /// The face by which it arrived.
    pub face: FaceId,
    /// The object's name.
    pub object: Name,
    /// Its PrefixAnnouncement, unchecked; empty if it had none.
    pub announcement: Vec<u8>,
}

/// A packet for the router itself. Answer with [`super::DataPlane::inject`].
#[derive(Clone, Debug)]
pub struct ControlPacket {
    /// The packet.
    pub packet: Packet,
    /// Its headers. Its PIT token must be copied to the answer.
    pub headers: LpHeaders,
    /// Its incoming face; `None` if the router itself sent it.
    pub incoming: Option<FaceId>,
    /// Whether that face is local.
    pub is_local: bool,
    /// The credentials of that face's peer, if known.
    pub credentials: Option<Credentials>,
    /// The owner that is charged for its handling.
    pub holder: Owner,
}

/// The reason for which an inbox returns no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InboxError {
    /// No event occurred in time.
    #[error("nothing happened in time")]
    TimedOut,
    /// The data plane has stopped.
    #[error("the data plane has stopped")]
    Stopped,
}

/// The control thread's end.
#[derive(Debug)]
pub struct Inbox {
    shared: Arc<Shared>,
}

/// The data plane's end.
#[derive(Debug)]
pub(super) struct Outbox {
    shared: Arc<Shared>,
}

/// Lets another thread, such as the one for signals, end the control thread's wait.
#[derive(Clone, Debug)]
pub struct InboxWaker {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    is_woken: bool,
    is_stopped: bool,
    events: VecDeque<Box<FaceEventNotification>>,
    /// Events since the last packet.
    events_in_a_row: u32,
    learned: VecDeque<LearnedRoute>,
    packets: FairQueue,
    /// The owner whose packet is being handled, and since when, ns.
    handling: Option<(Owner, u64)>,
}

pub(super) fn pair() -> (Outbox, Inbox) {
    let shared = Arc::new(Shared::default());
    (Outbox { shared: shared.clone() }, Inbox { shared })
}

impl Inbox {
    /// Waits for the next event. The owner of the last packet is charged for the time since that
    /// packet was returned.
    ///
    /// # Errors
    /// [`InboxError::TimedOut`], or [`InboxError::Stopped`] once all events were taken.
    pub fn next(&self, timeout: Duration) -> Result<ControlEvent, InboxError> {
        let mut now_ns = clock::monotonic_ns();
        let timeout_ns = u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX);
        let end_ns = now_ns.saturating_add(timeout_ns);
        let mut queue = self.shared.queue.lock();
        queue.charge(now_ns);
        loop {
            let due_ns = match queue.take(now_ns) {
                Ok(event) => return Ok(event),
                Err(_) if queue.is_stopped => return Err(InboxError::Stopped),
                Err(due_ns) => due_ns,
            };
            if now_ns >= end_ns {
                return Err(InboxError::TimedOut);
            }
            let wait_ns = due_ns.map_or(end_ns, |due_ns| due_ns.min(end_ns)).saturating_sub(now_ns);
            self.shared.filled.wait_for(&mut queue, Duration::from_nanos(wait_ns.max(1)));
            now_ns = clock::monotonic_ns();
        }
    }

    /// Ends the time that is charged to the owner of the last packet.
    pub fn handled(&self) {
        self.shared.queue.lock().charge(clock::monotonic_ns());
    }

    /// Returns the next event, if there is one. Does not wait.
    pub fn try_next(&self) -> Option<ControlEvent> {
        self.next(Duration::ZERO).ok()
    }

    /// Lets another thread end a wait in [`Inbox::next`].
    pub fn waker(&self) -> InboxWaker {
        InboxWaker { shared: self.shared.clone() }
    }
}

impl Queue {
    /// Takes out the next event; otherwise returns when a waiting packet may be handled, ns.
    fn take(&mut self, now_ns: u64) -> Result<ControlEvent, Option<u64>> {
        // First, so that no number of packets delays a signal.
        if std::mem::take(&mut self.is_woken) {
            return Ok(ControlEvent::Woken);
        }
        // Learned routes follow earlier events of faces. They precede packets, because few can
        // wait.
        if self.events.is_empty()
            && let Some(route) = self.learned.pop_front()
        {
            return Ok(ControlEvent::Learned(route));
        }
        // After the stop, the limits of time would only delay the packets that still wait.
        let turn = self.packets.next(now_ns, !self.is_stopped);
        let is_their_turn = self.events_in_a_row < EVENTS_PER_PACKET || !matches!(turn, NextOwner::Serve(_));
        if is_their_turn && let Some(event) = self.events.pop_front() {
            self.events_in_a_row += 1;
            return Ok(ControlEvent::Face(event));
        }
        self.events_in_a_row = 0;
        let holder = match turn {
            NextOwner::Serve(holder) => holder,
            NextOwner::WaitUntil(due_ns) => return Err(Some(due_ns)),
            NextOwner::Empty => return Err(None),
        };
        let packet = self.packets.pop(holder).ok_or(None)?;
        self.handling = Some((holder, now_ns));
        Ok(ControlEvent::Packet(packet))
    }

    fn charge(&mut self, now_ns: u64) {
        if let Some((holder, since_ns)) = self.handling.take() {
            self.packets.charge(holder, now_ns.saturating_sub(since_ns), now_ns);
        }
    }
}

impl InboxWaker {
    /// Makes [`Inbox::next`] return [`ControlEvent::Woken`], before any other event.
    pub fn wake(&self) {
        self.shared.queue.lock().is_woken = true;
        self.shared.filled.notify_one();
    }
}

impl Outbox {
    /// As [`InboxWaker::wake`].
    pub(super) fn wake(&self) {
        InboxWaker { shared: self.shared.clone() }.wake();
    }

    /// Hands over a packet. Returns [`Full`] if it is not accepted, or if another one was evicted
    /// for it.
    pub(super) fn packet(&self, packet: ControlPacket) -> Result<(), Full> {
        let mut queue = self.shared.queue.lock();
        let evicted = queue.packets.push(packet.holder, packet);
        self.notify(queue);
        match evicted {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(Full::All),
            Err(full) => Err(full),
        }
    }

    /// Reports an event of a face.
    pub(super) fn face(&self, event: FaceEventNotification) {
        let mut queue = self.shared.queue.lock();
        // Not limited, because no event of an existing face may be lost. `has_room` limits new
        // faces.
        queue.events.push_back(Box::new(event));
        self.notify(queue);
    }

    /// Reports a route to `object` that Data has revealed. Returns false if too many wait.
    pub(super) fn learned(&self, learned: &Learned<'_>, object: NameRef<'_>, announcement: &[u8]) -> bool {
        let face = learned.face;
        let mut queue = self.shared.queue.lock();
        let is_known = |route: &LearnedRoute| {
            route.face == face && route.object.as_name() == object && route.announcement == announcement
        };
        // The segments of an object arrive one after another and reveal the same route.
        if queue.learned.back().is_some_and(is_known) {
            return true;
        }
        if queue.learned.len() >= LEARNED_ROUTES_WAITING_MAX {
            return false;
        }
        let (object, announcement) = (object.to_name(), announcement.to_vec());
        queue.learned.push_back(LearnedRoute { face, object, announcement });
        self.notify(queue);
        true
    }

    /// The data plane has stopped.
    pub(super) fn stop(&self) {
        let mut queue = self.shared.queue.lock();
        queue.is_stopped = true;
        self.notify(queue);
    }

    /// Returns true if a peer may have a new face. Peers are refused while the control thread is
    /// far behind: peers on the network first, root last.
    pub(super) fn has_room(&self, holder: Owner) -> bool {
        let max = match holder {
            Owner::Root => CONTROL_EVENTS_MAX + CONTROL_EVENTS_MAX / 4,
            Owner::Uid(_) => CONTROL_EVENTS_MAX,
            Owner::Address(_) | Owner::Station(_) | Owner::Site(_) => CONTROL_EVENTS_MAX / 4 * 3,
        };
        self.shared.queue.lock().events.len() < max
    }

    fn notify(&self, queue: MutexGuard<'_, Queue>) {
        // Released first, so that the woken thread does not wait for the lock.
        drop(queue);
        self.shared.filled.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use namely_messages::{FaceEventKind, FaceStatus};

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn packet() -> ControlPacket {
        ControlPacket {
            packet: Packet::from(&[5, 0][..]),
            headers: LpHeaders::default(),
            incoming: None,
            is_local: true,
            credentials: None,
            holder: Owner::Root,
        }
    }

    #[test]
    fn face_events_precede_control_packets() {
        let (outbox, inbox) = pair();
        outbox.packet(packet()).unwrap();
        for _ in 0..2 * EVENTS_PER_PACKET {
            outbox.face(FaceEventNotification::new(FaceEventKind::Created, &FaceStatus::default()));
        }
        let events = std::iter::from_fn(|| inbox.try_next());
        let face_events = events.take_while(|event| matches!(event, ControlEvent::Face(_))).count();
        assert_eq!(face_events, EVENTS_PER_PACKET as usize);
    }

    #[test]
    fn a_holder_over_its_time_waits() {
        let (outbox, inbox) = pair();
        let slow = Owner::uid(1);
        let now_ns = clock::monotonic_ns();
        outbox.packet(ControlPacket { holder: slow, ..packet() }).unwrap();
        // The owner has used up its burst of a second, and a tenth of a second more.
        inbox.shared.queue.lock().packets.charge(slow, 1_100_000_000 / CONTROL_TIME_SHARE, now_ns);
        // On a busy machine, the tenth of a second may be over by now.
        let next = match inbox.next(SHORT) {
            Err(InboxError::TimedOut) => inbox.next(Duration::from_secs(20)),
            next => next,
        };
        assert!(matches!(next, Ok(ControlEvent::Packet(_))), "{next:?}");
        assert!(clock::monotonic_ns() - now_ns >= 100_000_000);
    }

    #[test]
    fn events_before_the_stop_are_read() {
        let (outbox, inbox) = pair();
        outbox.packet(packet()).unwrap();
        outbox.stop();
        assert!(matches!(inbox.next(SHORT), Ok(ControlEvent::Packet(_))));
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::Stopped);
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::Stopped);
    }

    #[test]
    fn learned_routes_wait_up_to_their_limit() {
        let (outbox, inbox) = pair();
        let name = |i: usize| format!("/{i}").parse::<Name>().unwrap();
        let learn = |face, i| {
            let object = name(i);
            let data = object.as_name();
            let learned = Learned { face: FaceId(face), data, wire: &[] };
            outbox.learned(&learned, data, b"")
        };
        for i in 0..LEARNED_ROUTES_WAITING_MAX {
            assert!(learn(300, i));
        }
        let last = LEARNED_ROUTES_WAITING_MAX - 1;
        assert!(learn(300, last), "the same again needs no place");
        assert!(!learn(301, last));
        for i in 0..LEARNED_ROUTES_WAITING_MAX {
            let next = inbox.try_next();
            assert!(matches!(next, Some(ControlEvent::Learned(route)) if route.object == name(i)));
        }
        assert!(inbox.try_next().is_none());
    }

    #[test]
    fn a_waker_ends_a_wait() {
        let (_outbox, inbox) = pair();
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::TimedOut);
        let waker = inbox.waker();
        let waking = std::thread::spawn(move || waker.wake());
        assert!(matches!(inbox.next(Duration::from_secs(20)), Ok(ControlEvent::Woken)));
        waking.join().unwrap();
    }
}
