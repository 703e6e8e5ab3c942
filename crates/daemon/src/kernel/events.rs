//! Passes events of the kernel's forwarder to the control thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use namely_host::Waker;
use namely_messages::{FaceEventKind, FaceEventNotification};
use namely_mgmt::Faces;
use namely_nnet::{Event, Events, FaceKind};
use rustix::event::{PollFd, PollFlags};

use super::Kernel;
use super::faces::status;
use crate::exit::Failure;

/// Events of the kernel's faces that wait for the control thread.
///
/// # Limit
/// Further events wait in the socket; when that is full, the kernel reports an overflow and the
/// faces are listed again.
/// - Tests: `excess_kernel_events_wait_in_the_socket`
const EVENTS_WAITING_MAX: usize = 256;

/// The remaining work of the control thread for an event.
pub(crate) enum KernelEvent {
    /// A face of a device was created or closed.
    Face(FaceEventNotification),
    /// The forwarder has stopped, for this reason. No packet is forwarded any more.
    Stopped(String),
}

/// The thread that receives events. It stops when this handle is dropped.
pub(crate) struct EventListener {
    /// `None` during the stop.
    events: Option<Receiver<Event>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl EventListener {
    /// Listens in this network namespace, and calls `wake` for each event.
    ///
    /// # Errors
    /// [`Failure`]: an error of the system.
    pub(crate) fn start(wake: impl Fn() + Send + 'static) -> Result<Self, Failure> {
        let unheard = "no events of the kernel";
        let mut events = Events::open().map_err(Failure::system(unheard))?;
        let waker = Waker::new().map_err(Failure::system(unheard))?;
        let (sender, receiver) = sync_channel(EVENTS_WAITING_MAX);
        let ended = waker.clone();
        let listen = move || {
            while wait(&events, &ended) {
                let taken = match events.take() {
                    Ok(taken) => taken,
                    Err(error) => {
                        return tracing::error!("no more events of the kernel: {error}");
                    }
                };
                if !forward_events(taken, &sender, &wake) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("namely-kernel".into()).spawn(listen);
        let thread = thread.map_err(Failure::system(unheard))?;
        Ok(EventListener { events: Some(receiver), waker, thread: Some(thread) })
    }
}

/// Waits for an event. Returns false at the stop.
fn wait(events: &Events, ended: &Waker) -> bool {
    let mut wanted = [PollFd::new(events, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
    // Both sources are checked after an interruption, too.
    let _ = rustix::event::poll(&mut wanted, None);
    wanted[1].revents().is_empty()
}

/// Sends events to the control thread. Blocks while its queue is full. Returns false if it has
/// stopped.
fn forward_events(events: Vec<Event>, to: &SyncSender<Event>, wake: &impl Fn()) -> bool {
    events.into_iter().all(|event| {
        let is_taken = to.send(event).is_ok();
        wake();
        is_taken
    })
}

impl Drop for EventListener {
    fn drop(&mut self) {
        self.waker.wake();
        // The thread may be blocked by a full queue. Dropping the receiver unblocks it.
        self.events = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread for events of the kernel's faces ended by a panic");
        }
    }
}

impl Kernel {
    /// Applies the next event, if there is one. Returns the remaining work for it.
    pub(crate) fn take(&self, listening: &EventListener, now_ns: u64) -> Option<Option<KernelEvent>> {
        let event = listening.events.as_ref()?.try_recv().ok()?;
        Some(match event {
            Event::FaceNew(face) => {
                Some(KernelEvent::Face(FaceEventNotification::new(FaceEventKind::Created, &status(&face))))
            }
            Event::FaceDel(face) => {
                self.face_closed(face.id, now_ns);
                Some(KernelEvent::Face(FaceEventNotification::new(FaceEventKind::Destroyed, &status(&face))))
            }
            Event::Stopped(why) => Some(KernelEvent::Stopped(why)),
            Event::Missed => {
                self.forget_closed(now_ns);
                None
            }
        })
    }

    /// Removes device faces that have closed while events were missed.
    fn forget_closed(&self, now_ns: u64) {
        let Ok(faces) = self.control().faces() else { return };
        let is_there = |number| faces.iter().any(|face| face.id == number && face.kind != FaceKind::Socket);
        let known = self.fib.lock().device_faces();
        for number in known.into_iter().filter(|number| !is_there(*number)) {
            self.face_closed(number, now_ns);
        }
        tracing::debug!("{} faces of the kernel after events were missed", self.count());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TrySendError;

    use super::*;

    #[test]
    fn excess_kernel_events_wait_in_the_socket() {
        let (sender, receiver) = sync_channel(EVENTS_WAITING_MAX);
        assert!(forward_events(vec![Event::Missed; EVENTS_WAITING_MAX], &sender, &|| ()));
        assert_eq!(sender.try_send(Event::Missed), Err(TrySendError::Full(Event::Missed)));
        std::thread::scope(|scope| {
            // The thread that reads the socket blocks until there is room.
            let one_more = scope.spawn(|| forward_events(vec![Event::Missed], &sender, &|| ()));
            assert_eq!(receiver.recv(), Ok(Event::Missed));
            assert!(one_more.join().unwrap());
        });
        assert_eq!(receiver.try_iter().count(), EVENTS_WAITING_MAX);
        drop(receiver);
        assert!(!forward_events(vec![Event::Missed], &sender, &|| ()), "no receiver is left");
    }
}
