//! Shared memory with the memif protocol: faces of local applications, and faces to a packet
//! processor that listens.
//!
//! A face is one memif interface. Its frames are link packets, one in each memif packet, without an
//! Ethernet header, which is what NDN-DPDK and applications on NDNgo exchange. What is longer than
//! one of the peer's buffers is cut by NDNLPv2 (the face's MTU is that of a buffer), since not
//! every peer takes packets that go on in a second buffer.
//!
//! While the peer's ring is full nothing tells when it no longer is. The receiving half then looks
//! again at growing intervals.

mod acceptor;
mod client;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namely_memif::{Interface, Kick, Link, Pushed};
use namely_wire::FaceUri;
use namely_wire::mgmt::FacePersistency;
use rustix::io::Errno;

use crate::error::{CloseReason, OpenError};
use crate::faces::Handler;
use crate::kind::{ReadContext, Receiver};
use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sender, Sent};
use crate::status::{Carrier, Credentials, LinkInfo, Reach};
use crate::unix;

/// MTU where the peer does not say how large its buffers are: theirs by default, in libmemif and
/// NDN-DPDK.
const BUFFER_OCTETS_DEFAULT: usize = 2048;

/// First and longest wait before a full ring is looked at again, ns.
const RETRY_NS: (u64, u64) = (200_000, 20_000_000);

/// What both halves of a face know.
#[derive(Debug, Default)]
struct Common {
    /// The peer's ring was full.
    is_blocked: AtomicBool,
}

/// The receiving half.
#[derive(Debug)]
struct MemifReceiver {
    link: Link,
    receiver: namely_memif::Receiver,
    common: Arc<Common>,
    retry_ns: u64,
}

/// The sending half.
#[derive(Debug)]
struct MemifSender {
    sender: namely_memif::Sender,
    kick: Kick,
    common: Arc<Common>,
}

/// What wakes peers without a wait.
fn prepare() -> Result<(), OpenError> {
    let doing = "shared memory needs asynchronous requests of the system, of which fs.aio-max-nr are \
                 in use or none are there";
    namely_memif::prepare().map_err(OpenError::system(doing))
}

/// Both halves of an interface, and the octets of the peer's buffers.
fn halves(interface: Interface) -> (MemifReceiver, MemifSender, usize) {
    let Interface { sender, receiver, link, .. } = interface;
    let mtu = sender.buffer_octets().map_or(BUFFER_OCTETS_DEFAULT, |octets| octets as usize);
    let (kick, common) = (link.kick(), Arc::<Common>::default());
    let receiver = MemifReceiver { link, receiver, common: common.clone(), retry_ns: RETRY_NS.0 };
    (receiver, MemifSender { sender, kick, common }, mtu)
}

fn info(remote: FaceUri, reach: Reach, mtu: usize, credentials: Option<Credentials>) -> LinkInfo {
    LinkInfo {
        remote,
        reach,
        holder: unix::holder(credentials),
        carrier: Carrier::Datagrams,
        mtu: Some(mtu.clamp(namely_link::MTU_OCTETS_MIN, namely_wire::LP_PACKET_OCTETS_MAX)),
        path_octets: None,
        credentials,
        socket_inode: None,
        idle_ns: None,
        can_stall: true,
        refuses: |persistency| {
            (persistency == FacePersistency::Permanent)
                .then_some("a shared-memory face that its application opened cannot be permanent")
        },
    }
}

impl MemifReceiver {
    /// Takes packets, and ensures that what is left is not forgotten.
    fn take<H: Handler>(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        self.receiver.stay_awake();
        let budget = turn.options().read_datagrams_per_turn;
        let received = self.receiver.receive_each(budget, &mut |frame| turn.deliver_shared(frame));
        let received = received.map_err(|fault| {
            turn.count(fault.label());
            CloseReason::BadRing(fault)
        })?;
        (0..received.too_long).for_each(|_| turn.count("length_too_large"));
        let now_ns = turn.now_ns();
        if received.packets == budget || !self.receiver.sleep() {
            // In the next turn, after the others.
            turn.set_timer(Some(now_ns + 1));
        } else if self.common.is_blocked.load(Ordering::Acquire) {
            // Nothing wakes this end when there is room: it looks again by its timer.
            turn.set_timer(Some(now_ns + self.retry_ns));
        }
        Ok(())
    }

    /// Tries a full ring again.
    fn retry<H: Handler>(&mut self, turn: &mut ReadContext<'_, H>) {
        if !self.common.is_blocked.load(Ordering::Acquire) {
            self.retry_ns = RETRY_NS.0;
            return;
        }
        turn.flush();
        let is_blocked = self.common.is_blocked.load(Ordering::Acquire);
        self.retry_ns = if is_blocked { (self.retry_ns * 2).min(RETRY_NS.1) } else { RETRY_NS.0 };
    }
}

impl<H: Handler> Receiver<H> for MemifReceiver {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.link.as_fd())
    }

    fn read(&mut self, turn: &mut ReadContext<'_, H>, _: &mut [u8]) -> Result<(), CloseReason> {
        let ready = self.link.ready().map_err(CloseReason::System)?;
        let gone = if ready.control { self.link.check().err() } else { None };
        self.retry(turn);
        // What the peer sent before it went is taken, as far as it fits a turn.
        self.take(turn)?;
        gone.map_or(Ok(()), |fault| Err(CloseReason::Memif(fault)))
    }

    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        self.retry(turn);
        self.take(turn)
    }
}

impl<P: AsRef<[u8]>> Sender<P> for MemifSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut Sent) -> Result<Flushed, Errno> {
        let mut flushed = Flushed::All;
        loop {
            let Some(frame) = queue.frames().next() else { break };
            let pushed = self.sender.push(&frame.slices());
            match pushed {
                Ok(Pushed::Taken) => {
                    sent.octets += queue.pop() as u64;
                    sent.frames += 1;
                }
                Ok(Pushed::Full) => {
                    flushed = Flushed::Blocked;
                    break;
                }
                Ok(Pushed::TooLong) => {
                    sent.drops.count("message_too_large");
                    queue.pop();
                }
                Err(fault) => {
                    sent.drops.count(fault.label());
                    return Err(Errno::PROTO);
                }
            }
        }
        self.sender.publish();
        let is_blocked = flushed == Flushed::Blocked;
        // The flag is set before the kick: whoever is woken by that finds it set.
        if !self.common.is_blocked.swap(is_blocked, Ordering::AcqRel) && is_blocked {
            // So that the receiving half begins to look.
            self.kick.kick();
        }
        Ok(flushed)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
