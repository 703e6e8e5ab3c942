//! Follows the addresses and the network devices of this machine. After a change, the faces check
//! their sockets, and the router listens on devices of the configuration that have come.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use namely_datagrams::ethernet::monitor::Monitor;
use namely_host::Waker;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Service, StartContext};
use crate::exit::Failure;
use crate::home::RouterHandle;
use crate::threads::Thread;

/// Changes within this time are handled together. A device that comes gets several addresses.
const GATHER: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The monitor as a service.
#[derive(Default)]
pub(super) struct AddressMonitor(OnceLock<Running>);

struct Running {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Thread,
}

impl Service for AddressMonitor {
    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        let opened = Monitor::with_addresses().and_then(|monitor| Ok((monitor, Waker::new()?)));
        let (monitor, waker) = match opened {
            Ok(opened) => opened,
            Err(errno) => {
                // A container may forbid it. The faces still check their sockets after silence.
                tracing::warn!("changes of addresses and devices are not followed: {errno}");
                return Ok(());
            }
        };
        let stop = Arc::<AtomicBool>::default();
        let follower =
            Follower { monitor, waker: waker.clone(), stop: stop.clone(), home: start.home.clone() };
        let thread = Thread::start("namely-addresses", move || follower.run())
            .map_err(Failure::system("no thread for addresses"))?;
        let _ = self.0.set(Running { stop, waker, thread });
        Ok(())
    }

    fn stop(&self) {
        let Some(running) = self.0.get() else { return };
        // Relaxed: the waker orders the flag before the thread's next check.
        running.stop.store(true, Ordering::Relaxed);
        running.waker.wake();
        running.thread.join();
    }
}

struct Follower {
    monitor: Monitor,
    waker: Waker,
    stop: Arc<AtomicBool>,
    home: RouterHandle,
}

impl Follower {
    fn run(self) {
        // A device may have come since the router tried to listen on it.
        self.home.awaited.listen(&self.home.plane);
        loop {
            let mut sources =
                [PollFd::new(&self.monitor, PollFlags::IN), PollFd::new(&self.waker, PollFlags::IN)];
            // An interrupted wait is repeated, and finds no change.
            let _ = poll(&mut sources, None);
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            let _ = poll(&mut [PollFd::new(&self.waker, PollFlags::IN)], Some(&GATHER));
            if self.stop.load(Ordering::Relaxed) {
                return;
            }
            if self.monitor.take_changes() {
                self.home.plane.addresses_changed();
                self.home.awaited.listen(&self.home.plane);
            }
        }
    }
}
