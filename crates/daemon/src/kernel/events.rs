//! What the kernel's forwarder tells of by itself, on its way to the control thread.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use namely_host::Waker;
use namely_mgmt::Faces;
use namely_nnet::{ControlError, Event, Events, FaceKind};
use namely_wire::mgmt::{FaceEventKind, FaceEventNotification};
use rustix::event::{PollFd, PollFlags};

use super::Kernel;
use super::faces::status;

/// Events that wait for the control thread; what comes meanwhile waits in the kernel, which says
/// when it has no room for more.
const EVENTS_WAITING_MAX: usize = 256;

/// What the control thread is to do about an event.
pub(crate) enum Heard {
    /// A face of a device has come or gone.
    Face(FaceEventNotification),
    /// The forwarder has stopped, for this reason: nothing more goes.
    Stopped(String),
}

/// The thread that listens. It ends with this.
pub(crate) struct Listening {
    /// `None` when it is to end.
    events: Option<Receiver<Event>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    /// Listens in this network namespace, and calls `wake` when something waits.
    ///
    /// # Errors
    /// What is not to be had, in words.
    pub(crate) fn start(wake: impl Fn() + Send + 'static) -> Result<Self, String> {
        let mut events = Events::open().map_err(|error: ControlError| error.to_string())?;
        let waker = Waker::new().map_err(|errno| errno.to_string())?;
        let (sender, receiver) = sync_channel(EVENTS_WAITING_MAX);
        let ended = waker.clone();
        let listen = move || {
            while wait(&events, &ended) {
                let taken = match events.take() {
                    Ok(taken) => taken,
                    Err(error) => {
                        return tracing::error!("what happens in the kernel is heard no more: {error}");
                    }
                };
                if !hand_on(taken, &sender, &wake) {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("namely-kernel".into()).spawn(listen);
        let thread = thread.map_err(|error| error.to_string())?;
        Ok(Listening { events: Some(receiver), waker, thread: Some(thread) })
    }
}

/// Waits for an event; false if it is time to end.
fn wait(events: &Events, ended: &Waker) -> bool {
    let mut wanted = [PollFd::new(events, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
    // Interrupted or not, all is looked at.
    let _ = rustix::event::poll(&mut wanted, None);
    wanted[1].revents().is_empty()
}

/// Gives events to the control thread, and waits while too many wait for it. False if it has ended.
fn hand_on(events: Vec<Event>, to: &SyncSender<Event>, wake: &impl Fn()) -> bool {
    events.into_iter().all(|event| {
        let is_taken = to.send(event).is_ok();
        wake();
        is_taken
    })
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.waker.wake();
        // It may wait for room, of which there is none any more then.
        self.events = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that hears of the kernel's faces ended by a panic");
        }
    }
}

impl Kernel {
    /// Takes the next event in, and says what is left to do about it; nothing if none waits.
    pub(crate) fn take(&self, listening: &Listening, now_ns: u64) -> Option<Option<Heard>> {
        let event = listening.events.as_ref()?.try_recv().ok()?;
        Some(match event {
            Event::FaceNew(face) => {
                Some(Heard::Face(FaceEventNotification::new(FaceEventKind::Created, &status(&face))))
            }
            Event::FaceDel(face) => {
                self.face_gone(face.id, now_ns);
                Some(Heard::Face(FaceEventNotification::new(FaceEventKind::Destroyed, &status(&face))))
            }
            Event::Stopped(why) => Some(Heard::Stopped(why)),
            Event::Missed => {
                self.forget_those_gone(now_ns);
                None
            }
        })
    }

    /// Faces of devices may have gone unheard.
    fn forget_those_gone(&self, now_ns: u64) {
        let Ok(faces) = self.control().faces() else { return };
        let is_there = |number| faces.iter().any(|face| face.id == number && face.kind != FaceKind::Socket);
        let known = self.fib.lock().of_devices();
        for number in known.into_iter().filter(|number| !is_there(*number)) {
            self.face_gone(number, now_ns);
        }
        tracing::debug!("{} faces of the kernel after events were missed", self.count());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::TrySendError;

    use super::*;

    #[test]
    fn events_wait_up_to_the_limit_and_then_in_the_socket() {
        let (sender, receiver) = sync_channel(EVENTS_WAITING_MAX);
        assert!(hand_on(vec![Event::Missed; EVENTS_WAITING_MAX], &sender, &|| ()));
        assert_eq!(sender.try_send(Event::Missed), Err(TrySendError::Full(Event::Missed)));
        std::thread::scope(|scope| {
            // Whoever reads the socket waits until there is room.
            let one_more = scope.spawn(|| hand_on(vec![Event::Missed], &sender, &|| ()));
            assert_eq!(receiver.recv(), Ok(Event::Missed));
            assert!(one_more.join().unwrap());
        });
        assert_eq!(receiver.try_iter().count(), EVENTS_WAITING_MAX);
        drop(receiver);
        assert!(!hand_on(vec![Event::Missed], &sender, &|| ()), "nobody takes it");
    }
}
