//! What the data plane tells the control thread.

mod turns;

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use namely_forwarder::{FaceId, Learned};
use namely_host::clock;
use namely_host::shares::Holder;
use namely_io::Credentials;
use namely_wire::mgmt::FaceEventNotification;
use namely_wire::{LpHeaders, Name, NameRef};
use parking_lot::{Condvar, Mutex, MutexGuard};

use self::turns::{Turn, Turns};
use super::Packet;

pub(super) use self::turns::Full;
pub use self::turns::{
    CONTROL_PACKETS_MAX, CONTROL_PACKETS_PER_HOLDER_MAX, CONTROL_PACKETS_PER_SECOND, CONTROL_TIME_SHARE,
};

/// Maximum number of face events that wait for the control thread before peers are refused new
/// faces. Events of the faces that exist are never lost.
pub const CONTROL_EVENTS_MAX: usize = 4096;

/// Routes that Data has shown and that wait for the control thread with their announcements; those
/// of further ones are dropped and counted.
pub const LEARNED_ROUTES_WAITING_MAX: usize = 256;

/// How many face events are handled before a packet, if one waits.
const EVENTS_PER_PACKET: u32 = 16;

/// Something for the control thread.
#[derive(Debug)]
pub enum ControlEvent {
    /// A packet that the forwarder sent to the internal face.
    Packet(ControlPacket),
    /// A face came, went, or changed its state.
    Face(Box<FaceEventNotification>),
    /// Data has shown a route.
    Learned(Shown),
    /// [`InboxWaker::wake`] was called.
    Woken,
}

/// By a face came Data that shows where an object can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Where it came from.
    pub face: FaceId,
    /// What it is of.
    pub object: Name,
    /// The PrefixAnnouncement that came with it, unchecked; empty if none did.
    pub announcement: Vec<u8>,
}

/// A packet for the router itself. Answer with [`super::DataPlane::inject`].
#[derive(Clone, Debug)]
pub struct ControlPacket {
    /// The packet.
    pub packet: Packet,
    /// Its headers: the PIT token belongs onto the answer.
    pub headers: LpHeaders,
    /// The face it came from; `None` if the router itself asked.
    pub incoming: Option<FaceId>,
    /// Whether that face is local.
    pub is_local: bool,
    /// Who is at that face's other end, if that is known.
    pub credentials: Option<Credentials>,
    /// Who pays for the time that it takes.
    pub holder: Holder,
}

/// Why nothing comes from an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboxError {
    /// Nothing happened in time.
    TimedOut,
    /// The data plane has stopped.
    Stopped,
}

impl fmt::Display for InboxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            InboxError::TimedOut => "nothing happened in time",
            InboxError::Stopped => "the data plane has stopped",
        })
    }
}

impl std::error::Error for InboxError {}

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

/// Lets another thread (signals) end the control thread's wait.
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
    learned: VecDeque<Shown>,
    packets: Turns,
    /// Whose packet is being handled, and since when, ns.
    handling: Option<(Holder, u64)>,
}

pub(super) fn pair() -> (Outbox, Inbox) {
    let shared = Arc::new(Shared::default());
    (Outbox { shared: shared.clone() }, Inbox { shared })
}

impl Inbox {
    /// Waits for the next event. Whoever sent the last packet is charged with the time since.
    ///
    /// # Errors
    /// [`InboxError::TimedOut`], or [`InboxError::Stopped`] once everything that happened was
    /// taken.
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

    /// Ends the time that whoever sent the last packet is charged with.
    pub fn handled(&self) {
        self.shared.queue.lock().charge(clock::monotonic_ns());
    }

    /// The next event, if one is there.
    pub fn try_next(&self) -> Option<ControlEvent> {
        self.next(Duration::ZERO).ok()
    }

    /// Lets another thread end a wait in [`Inbox::next`].
    pub fn waker(&self) -> InboxWaker {
        InboxWaker { shared: self.shared.clone() }
    }
}

impl Queue {
    /// Takes out what is next; else when a packet may be handled that waits, ns.
    fn take(&mut self, now_ns: u64) -> Result<ControlEvent, Option<u64>> {
        if std::mem::take(&mut self.is_woken) {
            return Ok(ControlEvent::Woken);
        }
        // After what was told of faces before, and never many.
        if self.events.is_empty()
            && let Some(shown) = self.learned.pop_front()
        {
            return Ok(ControlEvent::Learned(shown));
        }
        let turn = self.packets.next(now_ns, !self.is_stopped);
        let is_their_turn = self.events_in_a_row < EVENTS_PER_PACKET || !matches!(turn, Turn::Of(_));
        if is_their_turn && let Some(event) = self.events.pop_front() {
            self.events_in_a_row += 1;
            return Ok(ControlEvent::Face(event));
        }
        self.events_in_a_row = 0;
        let holder = match turn {
            Turn::Of(holder) => holder,
            Turn::At(due_ns) => return Err(Some(due_ns)),
            Turn::Nobody => return Err(None),
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
    /// Makes [`Inbox::next`] return [`ControlEvent::Woken`], before anything else.
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

    /// Hands over a packet. [`Full`] if it is not taken, or that another one made place for it.
    pub(super) fn packet(&self, packet: ControlPacket) -> Result<(), Full> {
        let mut queue = self.shared.queue.lock();
        let evicted = queue.packets.push(packet.holder, packet);
        self.told(queue);
        match evicted {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(Full::All),
            Err(full) => Err(full),
        }
    }

    /// Tells of a face.
    pub(super) fn face(&self, event: FaceEventNotification) {
        let mut queue = self.shared.queue.lock();
        queue.events.push_back(Box::new(event));
        self.told(queue);
    }

    /// Tells of a route to `object` that Data has shown. False if too many wait.
    pub(super) fn learned(&self, learned: &Learned<'_>, object: NameRef<'_>, announcement: &[u8]) -> bool {
        let face = learned.face;
        let mut queue = self.shared.queue.lock();
        let is_known = |shown: &Shown| {
            shown.face == face && shown.object.as_name() == object && shown.announcement == announcement
        };
        // An object's pieces come together.
        if queue.learned.back().is_some_and(is_known) {
            return true;
        }
        if queue.learned.len() >= LEARNED_ROUTES_WAITING_MAX {
            return false;
        }
        let (object, announcement) = (object.to_name(), announcement.to_vec());
        queue.learned.push_back(Shown { face, object, announcement });
        self.told(queue);
        true
    }

    /// The data plane has stopped.
    pub(super) fn stop(&self) {
        let mut queue = self.shared.queue.lock();
        queue.is_stopped = true;
        self.told(queue);
    }

    /// Returns true if a peer may have a new face: not while the control thread is far behind.
    /// Peers on the network are refused first, root last.
    pub(super) fn has_room(&self, holder: Holder) -> bool {
        let max = match holder {
            Holder::Root => CONTROL_EVENTS_MAX + CONTROL_EVENTS_MAX / 4,
            Holder::Uid(_) => CONTROL_EVENTS_MAX,
            Holder::Address(_) | Holder::Station(_) | Holder::Site(_) => CONTROL_EVENTS_MAX / 4 * 3,
        };
        self.shared.queue.lock().events.len() < max
    }

    fn told(&self, queue: MutexGuard<'_, Queue>) {
        drop(queue);
        self.shared.filled.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use namely_wire::mgmt::{FaceEventKind, FaceStatus};

    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn packet() -> ControlPacket {
        ControlPacket {
            packet: Packet::from(&[5, 0][..]),
            headers: LpHeaders::default(),
            incoming: None,
            is_local: true,
            credentials: None,
            holder: Holder::Root,
        }
    }

    #[test]
    fn face_events_come_before_packets_and_do_not_keep_them_waiting() {
        let (outbox, inbox) = pair();
        outbox.packet(packet()).unwrap();
        for _ in 0..2 * EVENTS_PER_PACKET {
            outbox.face(FaceEventNotification::new(FaceEventKind::Created, &FaceStatus::default()));
        }
        let events = std::iter::from_fn(|| inbox.try_next());
        let place = events.take_while(|event| matches!(event, ControlEvent::Face(_))).count();
        assert_eq!(place, EVENTS_PER_PACKET as usize);
    }

    #[test]
    fn who_is_told_to_wait_is_handled_when_the_time_has_come() {
        let (outbox, inbox) = pair();
        let slow = Holder::uid(1);
        let now_ns = clock::monotonic_ns();
        outbox.packet(ControlPacket { holder: slow, ..packet() }).unwrap();
        // It has used up its second, and a tenth of the next.
        inbox.shared.queue.lock().packets.charge(slow, 1_100_000_000 / CONTROL_TIME_SHARE, now_ns);
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::TimedOut);
        assert!(matches!(inbox.next(Duration::from_secs(20)), Ok(ControlEvent::Packet(_))));
        assert!(clock::monotonic_ns() - now_ns >= 100_000_000);
    }

    #[test]
    fn what_came_before_the_stop_is_read_before_the_stop() {
        let (outbox, inbox) = pair();
        outbox.packet(packet()).unwrap();
        outbox.stop();
        assert!(matches!(inbox.next(SHORT), Ok(ControlEvent::Packet(_))));
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::Stopped);
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::Stopped);
    }

    #[test]
    fn learned_routes_wait_up_to_their_limit_and_one_more_is_not_taken() {
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
            assert!(matches!(next, Some(ControlEvent::Learned(shown)) if shown.object == name(i)));
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
