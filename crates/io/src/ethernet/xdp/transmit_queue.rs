//! Sending through an AF_XDP socket that several transports of a device share.

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namely_datagrams::ethernet::frame::{self, HEADER_OCTETS};
use namely_datagrams::ethernet::xdp::{Transmit, kick};
use namely_link::Frame;
use namely_wire::MacAddress;
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};

use crate::labels::sent;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport};

/// Time for which a transport waits for room in the ring: about one and a half times the time in
/// which a device sends a full ring at 10 Gbit/s.
const WAIT_NS: i64 = 1_000_000;

/// Maximum number of times that one flush fills the free chunks.
const ROUNDS_MAX: usize = 16;

/// Maximum number of system calls that one round makes to notify the kernel.
const KICKS_MAX: usize = 64;

/// The peer, header and MTU of the transport that sends.
pub(in super::super) struct TransmitContext {
    pub(in super::super) remote: MacAddress,
    pub(in super::super) header: [u8; HEADER_OCTETS],
    pub(in super::super) mtu: usize,
}

/// The sending half of one hardware queue. `open` is `None` while there is no socket. A frame
/// occupies one or more descriptors of the ring, its pieces.
#[derive(Debug, Default)]
pub(in super::super) struct TransmitQueue {
    open: Mutex<Option<OpenTransmitQueue>>,
    /// The transports that found no room.
    waiting: Mutex<BTreeSet<MacAddress>>,
    /// Whether the ring holds pieces that the kernel did not take.
    is_stuck: AtomicBool,
    /// Whether `waiting` may have an entry, or `is_stuck` may be set.
    is_anything: AtomicBool,
}

#[derive(Debug)]
struct OpenTransmitQueue {
    transmit: Transmit,
    /// Wakes the worker that reads the queue.
    timer: Arc<OwnedFd>,
}

impl TransmitQueue {
    pub(super) fn open(&self, transmit: Transmit, timer: Arc<OwnedFd>) {
        *self.open.lock() = Some(OpenTransmitQueue { transmit, timer });
    }

    pub(super) fn close(&self) {
        *self.open.lock() = None;
    }

    /// Returns the number of pieces in the ring that the kernel has not taken. Their frames are
    /// already counted as sent.
    pub(super) fn pending(&self) -> u64 {
        self.open.lock().as_ref().map_or(0, |open| u64::from(open.transmit.pending()))
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.lock().is_some()
    }

    /// Sends frames from the front of `queue` until the ring has no room. Returns `None`, without
    /// effect, if there is no socket.
    pub(in super::super) fn flush<P: AsRef<[u8]>>(
        &self,
        via: &TransmitContext,
        queue: &mut FrameQueue<P>,
        sent: &mut FlushReport,
    ) -> Option<FlushProgress> {
        for _ in 0..ROUNDS_MAX {
            let before = sent.frames;
            // This block releases the lock before the kernel is notified, which is a system call.
            let socket = {
                let mut open = self.open.lock();
                let OpenTransmitQueue { transmit, .. } = open.as_mut()?;
                transmit.reap();
                put(transmit, via, queue, sent);
                transmit.publish()
            };
            if let Some(socket) = socket {
                self.push(&socket, sent);
            }
            if queue.is_empty() {
                self.forget(via.remote);
                return Some(FlushProgress::All);
            }
            if sent.frames == before {
                // Inserted before the timer is set, so that the worker that the timer wakes finds
                // the entry.
                self.waiting.lock().insert(via.remote);
                self.wait();
                return Some(FlushProgress::Blocked);
            }
        }
        self.forget(via.remote);
        Some(FlushProgress::Some)
    }

    /// Notifies the kernel of the pieces in the ring. For pieces that the kernel does not take, the
    /// timer repeats the notification.
    fn push(&self, socket: &OwnedFd, sent: &mut FlushReport) {
        let mut before = None;
        for _ in 0..KICKS_MAX {
            match kick(socket) {
                // The device is down or removed. Its listener then closes its faces and counts the
                // pieces in the ring.
                Ok(()) | Err(Errno::NETDOWN | Errno::NXIO) => return,
                Err(Errno::INTR) => (),
                // The device refused one frame, and the kernel has dropped it.
                Err(Errno::BUSY) => sent.drops.count(label(Errno::NOBUFS)),
                Err(_) => {
                    let pending = self.open.lock().as_ref().map(|open| open.transmit.pending());
                    // The kernel took nothing after the last notification. The timer tries again.
                    if pending.is_none() || pending == before {
                        break;
                    }
                    before = pending;
                }
            }
        }
        // Relaxed: `wait` releases this store, and the swap of `is_anything` in `waiting` acquires
        // it.
        self.is_stuck.store(true, Ordering::Relaxed);
        self.wait();
    }

    /// Sets the timer, which wakes the worker that reads the queue.
    fn wait(&self) {
        // Release publishes `is_stuck`, which was stored before. The timer is set after the flag,
        // so the worker that it wakes finds the flag set.
        self.is_anything.store(true, Ordering::Release);
        // Cloned, so that the timer is set without the lock.
        let timer = self.open.lock().as_ref().map(|open| open.timer.clone());
        if let Some(timer) = timer {
            let it_value = Timespec { tv_sec: 0, tv_nsec: WAIT_NS };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            // The call fails only for malformed times.
            let _ = timerfd_settime(&*timer, TimerfdTimerFlags::empty(), &once);
        }
    }

    /// Removes a transport that no longer waits, or was dropped.
    pub(in super::super) fn forget(&self, remote: MacAddress) {
        // Avoids the lock if no transport waits. If this read misses an entry, the next timer finds
        // the entry.
        if self.is_anything.load(Ordering::Acquire) {
            self.waiting.lock().remove(&remote);
        }
    }

    /// Returns the transports to flush. They stay in the set until `forget` removes them. Drops of
    /// frames that were counted as sent are added to `sent`.
    pub(super) fn waiting(&self, sent: &mut FlushReport) -> Vec<MacAddress> {
        // Cleared before the set is read: a transport that is added later sets the flag again.
        if !self.is_anything.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        if self.is_stuck.swap(false, Ordering::Relaxed) {
            let socket = self.open.lock().as_ref().and_then(|open| open.transmit.publish());
            if let Some(socket) = socket {
                self.push(&socket, sent);
            }
        }
        let waiting: Vec<MacAddress> = self.waiting.lock().iter().copied().collect();
        if !waiting.is_empty() {
            // Another thread may be flushing one of these transports. The timer finds the transport
            // again if it still waits.
            self.wait();
        }
        waiting
    }
}

/// Copies frames from `queue` into the ring until it has no room. Drops frames above the MTU.
fn put<P: AsRef<[u8]>>(
    transmit: &mut Transmit,
    via: &TransmitContext,
    queue: &mut FrameQueue<P>,
    sent: &mut FlushReport,
) {
    loop {
        let Some(frame) = queue.frames().next() else { return };
        // The MTU of the device may have been larger when the frame was queued.
        let fits = frame.octets() <= via.mtu;
        let [a, b, c, d] = Frame::slices(frame);
        if fits && !transmit.put(&[&via.header, a, b, c, d, frame::padding(frame.octets())]) {
            return;
        }
        let octets = queue.pop();
        if fits {
            sent.octets += octets as u64;
            sent.frames += 1;
        } else {
            sent.drops.count(label(Errno::MSGSIZE));
        }
    }
}

/// Returns the label of the counter for a frame that the system did not send.
pub(in super::super) fn label(errno: Errno) -> &'static str {
    match errno {
        Errno::MSGSIZE => sent::DATAGRAM_TOO_LARGE,
        Errno::NOBUFS | Errno::NOMEM => sent::NO_BUFFERS,
        Errno::NETDOWN | Errno::NXIO | Errno::NODEV => sent::UNREACHABLE,
        _ => sent::SEND_FAILED,
    }
}
