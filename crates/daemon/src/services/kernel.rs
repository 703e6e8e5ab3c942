//! The events of the kernel's forwarder, for the control thread.

use namely_messages::{FaceEventKind, FaceEventNotification};
use namely_mgmt::Now;
use parking_lot::Mutex;

use super::{Notice, Service, StartContext};
use crate::exit::Failure;
use crate::home::RouterHandle;
use crate::kernel::{EventListener, KernelEvent};

/// The kernel's forwarder as a service: the thread that waits for its events. The router opens the
/// forwarder before it listens, and leaves it after its control thread has ended.
#[derive(Default)]
pub(super) struct KernelForwarder(Mutex<Option<EventListener>>);

impl Service for KernelForwarder {
    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        if start.home.kernel.is_some() {
            let orders = start.orders.clone();
            *self.0.lock() = Some(EventListener::start(move || orders.wake())?);
        }
        Ok(())
    }

    fn face_event(&self, home: &RouterHandle, event: &FaceEventNotification, now_ns: u64) {
        if let (Some(kernel), FaceEventKind::Destroyed) = (&home.kernel, event.kind) {
            kernel.face_closed(event.face_id, now_ns);
        }
    }

    fn notice(&self, home: &RouterHandle, now_ns: u64) -> Option<Notice> {
        let listening = self.0.lock();
        loop {
            match home.kernel.as_ref()?.take(listening.as_ref()?, now_ns)? {
                Some(KernelEvent::Face(event)) => return Some(Notice::Face(event)),
                Some(KernelEvent::Stopped(why)) => {
                    return Some(Notice::Fatal(format!("the kernel's forwarder has stopped: {why}")));
                }
                None => {}
            }
        }
    }

    fn tick(&self, home: &RouterHandle, now: Now) -> Option<u64> {
        home.kernel.as_ref()?.tick(now.ns)
    }

    fn stop(&self) {
        *self.0.lock() = None;
    }
}
