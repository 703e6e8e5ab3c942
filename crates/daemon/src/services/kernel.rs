//! The kernel's forwarder, as the control thread follows it.

use namely_mgmt::Now;
use namely_wire::mgmt::{FaceEventKind, FaceEventNotification};
use parking_lot::Mutex;

use super::{Notice, Service, Start};
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::kernel::{Heard, Listening};

/// The kernel's forwarder as a service: the thread that waits for its events. The router joins it
/// before it listens, and leaves it after its control thread has ended.
#[derive(Default)]
pub(super) struct KernelForwarder(Mutex<Option<Listening>>);

impl Service for KernelForwarder {
    fn start(&self, start: &Start<'_>) -> Result<(), Failure> {
        if start.home.kernel.is_some() {
            let orders = start.orders.clone();
            let listening = Listening::start(move || orders.wake()).map_err(|why| {
                Failure::new(Exit::Failed, format!("what happens in the kernel is not heard: {why}"))
            })?;
            *self.0.lock() = Some(listening);
        }
        Ok(())
    }

    fn face_event(&self, home: &Home, event: &FaceEventNotification, now_ns: u64) {
        if let (Some(kernel), FaceEventKind::Destroyed) = (&home.kernel, event.kind) {
            kernel.face_gone(event.face_id, now_ns);
        }
    }

    fn notice(&self, home: &Home, now_ns: u64) -> Option<Notice> {
        let listening = self.0.lock();
        loop {
            match home.kernel.as_ref()?.take(listening.as_ref()?, now_ns)? {
                Some(Heard::Face(event)) => return Some(Notice::Face(event)),
                Some(Heard::Stopped(why)) => {
                    return Some(Notice::Fatal(format!("the kernel's forwarder has stopped: {why}")));
                }
                None => {}
            }
        }
    }

    fn tick(&self, home: &Home, now: Now) -> Option<u64> {
        home.kernel.as_ref()?.tick(now.ns)
    }

    fn stop(&self) {
        *self.0.lock() = None;
    }
}
