//! What the data plane tells the control thread.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::time::Duration;

use namely_forwarder::FaceId;
use namely_io::Credentials;
use namely_wire::LpHeaders;
use namely_wire::mgmt::FaceEventNotification;

use super::Packet;

/// Maximum number of packets that wait for the control thread; a further one is dropped and
/// counted.
pub const CONTROL_PACKETS_MAX: usize = 1024;

/// Maximum number of face events that wait for the control thread before peers are refused new
/// faces. Events of the faces that exist are never lost.
pub const CONTROL_EVENTS_MAX: usize = 4096;

/// Something for the control thread.
#[derive(Debug)]
pub enum ControlEvent {
    /// A packet that the forwarder sent to the internal face.
    Packet(ControlPacket),
    /// A face came, went, or changed its state.
    Face(Box<FaceEventNotification>),
    /// [`InboxWaker::wake`] was called.
    Woken,
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
    /// Who is at that face's other end, if that is known.
    pub credentials: Option<Credentials>,
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
    receiver: Receiver<ControlEvent>,
    waiting: Arc<Waiting>,
    waker: Sender<ControlEvent>,
}

/// The data plane's end.
#[derive(Debug)]
pub(super) struct Outbox {
    sender: Sender<ControlEvent>,
    waiting: Arc<Waiting>,
}

/// Lets another thread (signals) end the control thread's wait.
#[derive(Clone, Debug)]
pub struct InboxWaker {
    sender: Sender<ControlEvent>,
}

#[derive(Debug, Default)]
struct Waiting {
    packets: AtomicUsize,
    events: AtomicUsize,
    is_stopped: std::sync::atomic::AtomicBool,
}

pub(super) fn pair() -> (Outbox, Inbox) {
    let (sender, receiver) = channel();
    let waiting = Arc::new(Waiting::default());
    let inbox = Inbox { receiver, waiting: waiting.clone(), waker: sender.clone() };
    (Outbox { sender, waiting }, inbox)
}

impl Inbox {
    /// Waits for the next event.
    ///
    /// # Errors
    /// [`InboxError::TimedOut`], or [`InboxError::Stopped`] once everything that happened was
    /// taken.
    pub fn next(&self, timeout: Duration) -> Result<ControlEvent, InboxError> {
        let event = match self.receiver.try_recv() {
            Ok(event) => event,
            Err(_) if self.waiting.is_stopped.load(Ordering::Acquire) => return self.last(),
            Err(_) => self.receiver.recv_timeout(timeout).map_err(|error| match error {
                RecvTimeoutError::Timeout => InboxError::TimedOut,
                RecvTimeoutError::Disconnected => InboxError::Stopped,
            })?,
        };
        self.count_taken(&event);
        match event {
            // The data plane's last word.
            ControlEvent::Woken if self.waiting.is_stopped.load(Ordering::Acquire) => self.last(),
            event => Ok(event),
        }
    }

    /// The next event, if one is there.
    pub fn try_next(&self) -> Option<ControlEvent> {
        match self.receiver.try_recv() {
            Ok(event) => {
                self.count_taken(&event);
                Some(event)
            }
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => None,
        }
    }

    /// Lets another thread end a wait in [`Inbox::next`].
    pub fn waker(&self) -> InboxWaker {
        InboxWaker { sender: self.waker.clone() }
    }

    /// What is left after the data plane has stopped.
    fn last(&self) -> Result<ControlEvent, InboxError> {
        self.try_next().ok_or(InboxError::Stopped)
    }

    fn count_taken(&self, event: &ControlEvent) {
        match event {
            ControlEvent::Packet(_) => self.waiting.packets.fetch_sub(1, Ordering::Relaxed),
            ControlEvent::Face(_) => self.waiting.events.fetch_sub(1, Ordering::Relaxed),
            ControlEvent::Woken => 0,
        };
    }
}

impl InboxWaker {
    /// Makes [`Inbox::next`] return [`ControlEvent::Woken`].
    pub fn wake(&self) {
        // Without a receiver nobody waits.
        let _ = self.sender.send(ControlEvent::Woken);
    }
}

impl Outbox {
    /// Hands over a packet; false if too many wait.
    pub(super) fn packet(&self, packet: ControlPacket) -> bool {
        if self.waiting.packets.load(Ordering::Relaxed) >= CONTROL_PACKETS_MAX {
            return false;
        }
        self.waiting.packets.fetch_add(1, Ordering::Relaxed);
        self.sender.send(ControlEvent::Packet(packet)).is_ok()
    }

    /// Tells of a face.
    pub(super) fn face(&self, event: FaceEventNotification) {
        self.waiting.events.fetch_add(1, Ordering::Relaxed);
        let _ = self.sender.send(ControlEvent::Face(Box::new(event)));
    }

    /// The data plane has stopped.
    pub(super) fn stop(&self) {
        if !self.waiting.is_stopped.swap(true, Ordering::AcqRel) {
            let _ = self.sender.send(ControlEvent::Woken);
        }
    }

    /// Returns true if peers may have new faces: not while the control thread is far behind.
    pub(super) fn has_room(&self) -> bool {
        self.waiting.events.load(Ordering::Relaxed) < CONTROL_EVENTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(1);

    fn packet() -> ControlPacket {
        ControlPacket {
            packet: Packet::from(&[5, 0][..]),
            headers: LpHeaders::default(),
            incoming: None,
            credentials: None,
        }
    }

    #[test]
    fn packets_are_taken_up_to_the_limit_and_again_when_one_is_read() {
        let (outbox, inbox) = pair();
        assert!((0..CONTROL_PACKETS_MAX).all(|_| outbox.packet(packet())));
        assert!(!outbox.packet(packet()), "one past the limit");
        assert!(matches!(inbox.next(SHORT), Ok(ControlEvent::Packet(_))));
        assert!(outbox.packet(packet()));
    }

    #[test]
    fn what_came_before_the_stop_is_read_before_the_stop() {
        let (outbox, inbox) = pair();
        outbox.packet(packet());
        outbox.stop();
        assert!(matches!(inbox.next(SHORT), Ok(ControlEvent::Packet(_))));
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::Stopped);
        assert_eq!(inbox.next(SHORT).unwrap_err(), InboxError::Stopped);
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
