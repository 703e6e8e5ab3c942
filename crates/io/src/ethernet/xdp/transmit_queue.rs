//! The way out through an XDP socket, which the transports of a device share.

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

use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sent};

/// How long those wait for whom there was no room: the time in which a full ring leaves at 10
/// Gbit/s, and a half more.
const WAIT_NS: i64 = 1_000_000;

/// How often one flush fills the chunks that are free.
const ROUNDS_MAX: usize = 16;

/// System calls of one round.
const KICKS_MAX: usize = 64;

/// Who sends what on behalf of whom.
pub(in super::super) struct Via {
    pub(in super::super) remote: MacAddress,
    pub(in super::super) header: [u8; HEADER_OCTETS],
    pub(in super::super) mtu: usize,
}

/// The way out of one queue. Empty while there is no socket.
#[derive(Debug, Default)]
pub(in super::super) struct TransmitQueue {
    open: Mutex<Option<Open>>,
    /// Those who found no room.
    waiting: Mutex<BTreeSet<MacAddress>>,
    /// Whether the ring still has what the kernel did not take.
    is_stuck: AtomicBool,
    is_anything: AtomicBool,
}

#[derive(Debug)]
struct Open {
    transmit: Transmit,
    /// Wakes the worker that reads the queue.
    timer: Arc<OwnedFd>,
}

impl TransmitQueue {
    pub(super) fn open(&self, transmit: Transmit, timer: Arc<OwnedFd>) {
        *self.open.lock() = Some(Open { transmit, timer });
    }

    pub(super) fn close(&self) {
        *self.open.lock() = None;
    }

    /// What stands in the ring and the kernel has not taken: pieces of frames that count as sent.
    pub(super) fn pending(&self) -> u64 {
        self.open.lock().as_ref().map_or(0, |open| u64::from(open.transmit.pending()))
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.lock().is_some()
    }

    /// Sends frames from the front of a queue, as far as there is room. `None` if there is no
    /// socket: nothing happened then.
    pub(in super::super) fn flush<P: AsRef<[u8]>>(
        &self,
        via: &Via,
        queue: &mut FrameQueue<P>,
        sent: &mut Sent,
    ) -> Option<Flushed> {
        for _ in 0..ROUNDS_MAX {
            let before = sent.frames;
            let socket = {
                let mut open = self.open.lock();
                let Open { transmit, .. } = open.as_mut()?;
                transmit.reap();
                put(transmit, via, queue, sent);
                transmit.publish()
            };
            if let Some(socket) = socket {
                self.push(&socket, sent);
            }
            if queue.is_empty() {
                self.forget(via.remote);
                return Some(Flushed::All);
            }
            if sent.frames == before {
                self.waiting.lock().insert(via.remote);
                self.wait();
                return Some(Flushed::Blocked);
            }
        }
        self.forget(via.remote);
        Some(Flushed::Some)
    }

    /// Has the kernel send what stands in the ring. What it does not take now is tried again later.
    fn push(&self, socket: &OwnedFd, sent: &mut Sent) {
        let mut before = None;
        for _ in 0..KICKS_MAX {
            match kick(socket) {
                // When a device goes, its listener takes its faces down, and counts what stands in
                // the ring.
                Ok(()) | Err(Errno::NETDOWN | Errno::NXIO) => return,
                Err(Errno::INTR) => (),
                // One that the device refused; the kernel is done with it.
                Err(Errno::BUSY) => sent.drops.count(label(Errno::NOBUFS)),
                Err(_) => {
                    let pending = self.open.lock().as_ref().map(|open| open.transmit.pending());
                    if pending.is_none() || pending == before {
                        break;
                    }
                    before = pending;
                }
            }
        }
        self.is_stuck.store(true, Ordering::Relaxed);
        self.wait();
    }

    /// Has the worker that reads the queue look after it in a while.
    fn wait(&self) {
        self.is_anything.store(true, Ordering::Release);
        let timer = self.open.lock().as_ref().map(|open| open.timer.clone());
        if let Some(timer) = timer {
            let it_value = Timespec { tv_sec: 0, tv_nsec: WAIT_NS };
            let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value };
            let _ = timerfd_settime(&*timer, TimerfdTimerFlags::empty(), &once);
        }
    }

    /// A transport has nothing that waits, or is no more.
    pub(in super::super) fn forget(&self, remote: MacAddress) {
        if self.is_anything.load(Ordering::Acquire) {
            self.waiting.lock().remove(&remote);
        }
    }

    /// Whom to flush, so that what waits leaves. They wait until they say that they do not. `sent`
    /// gets drops of frames that had been counted as sent.
    pub(super) fn waiting(&self, sent: &mut Sent) -> Vec<MacAddress> {
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
            // A transport whose flush has not quite ended is found waiting once more.
            self.wait();
        }
        waiting
    }
}

/// Copies frames into the ring.
fn put<P: AsRef<[u8]>>(transmit: &mut Transmit, via: &Via, queue: &mut FrameQueue<P>, sent: &mut Sent) {
    loop {
        let Some(frame) = queue.frames().next() else { return };
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

/// The counter of a frame that the system did not send.
pub(in super::super) fn label(errno: Errno) -> &'static str {
    match errno {
        Errno::MSGSIZE => "datagram_too_large",
        Errno::NOBUFS | Errno::NOMEM => "no_buffers",
        Errno::NETDOWN | Errno::NXIO | Errno::NODEV => "unreachable",
        _ => "send_failed",
    }
}
