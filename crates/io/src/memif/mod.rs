//! Shared-memory faces with the memif protocol: faces of local applications that connect, and faces
//! to a packet processor that listens.
//!
//! A face is one memif interface. Its frames are link packets, one in each memif packet, without an
//! Ethernet header, as NDN-DPDK and NDNgo applications exchange them. NDNLPv2 fragments longer
//! packets. The face's MTU is the size of one of the peer's buffers, because not every peer accepts
//! packets that continue in a second buffer.
//!
//! No event reports when a full ring of the peer has room again. The receiving half therefore
//! retries at growing intervals.

mod acceptor;
mod client;

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use namely_link::LinkDrop;
use namely_memif::{Interface, Kick, Link, PushOutcome};
use namely_messages::FacePersistency;
use namely_wire::{DecodeError, FaceUri};
use rustix::io::Errno;

use crate::error::{CloseReason, OpenError};
use crate::faces::Handler;
use crate::kind::{ReadContext, Receiver};
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport, Sender};
use crate::status::{Carrier, Credentials, LinkInfo, RemoteKind};
use crate::unix;

/// The MTU if the peer does not report the size of its buffers. It is the default size in libmemif
/// and NDN-DPDK.
const BUFFER_OCTETS_DEFAULT: usize = 2048;

/// First and longest wait before a full ring is retried, ns.
const RETRY_NS: (u64, u64) = (200_000, 20_000_000);

/// The state that both halves of a face share.
#[derive(Debug, Default)]
struct SharedState {
    /// Whether the peer's ring was full at the last flush.
    is_blocked: AtomicBool,
}

/// The receiving half.
#[derive(Debug)]
struct MemifReceiver {
    link: Link,
    receiver: namely_memif::Receiver,
    common: Arc<SharedState>,
    retry_ns: u64,
}

/// The sending half.
#[derive(Debug)]
struct MemifSender {
    sender: namely_memif::Sender,
    kick: Kick,
    common: Arc<SharedState>,
}

/// Prepares the asynchronous requests that wake peers without blocking.
fn prepare() -> Result<(), OpenError> {
    let doing = "cannot set up asynchronous requests for shared memory: the kernel has none, or all \
                 fs.aio-max-nr are in use";
    namely_memif::prepare().map_err(OpenError::system(doing))
}

/// Returns both halves of an interface, and the size of the peer's buffers in octets.
fn halves(interface: Interface) -> (MemifReceiver, MemifSender, usize) {
    let Interface { sender, receiver, link, .. } = interface;
    let mtu = sender.buffer_octets().map_or(BUFFER_OCTETS_DEFAULT, |octets| octets as usize);
    let (kick, common) = (link.kick(), Arc::<SharedState>::default());
    let receiver = MemifReceiver { link, receiver, common: common.clone(), retry_ns: RETRY_NS.0 };
    (receiver, MemifSender { sender, kick, common }, mtu)
}

fn info(remote: FaceUri, reach: RemoteKind, mtu: usize, credentials: Option<Credentials>) -> LinkInfo {
    LinkInfo {
        remote,
        reach,
        holder: unix::holder(credentials),
        carrier: Carrier::Datagrams,
        // The peer chooses the size of its buffers, so it is limited to sizes that the link service
        // allows.
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
    /// Takes packets, and ensures that the remaining ones are taken later.
    fn take<H: Handler>(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        // While this end reads, each wake-up would be a needless system call of the peer.
        self.receiver.stay_awake();
        let budget = turn.options().read_datagrams_per_turn;
        let received = self.receiver.receive_each(budget, &mut |frame| turn.deliver_shared(frame));
        let received = received.map_err(|fault| {
            turn.count(fault.label());
            CloseReason::BadRing(fault)
        })?;
        (0..received.too_long).for_each(|_| turn.count(DecodeError::LengthTooLarge.label()));
        let now_ns = turn.now_ns();
        // `sleep` is called after the last read. It returns false if the peer added a packet
        // meanwhile, for which it did not wake this end.
        if received.packets == budget || !self.receiver.sleep() {
            // The rest is read in the next turn, after the other sources.
            turn.set_timer(Some(now_ns + 1));
        } else if self.common.is_blocked.load(Ordering::Acquire) {
            // No event reports that the ring has room, so the timer retries.
            turn.set_timer(Some(now_ns + self.retry_ns));
        }
        Ok(())
    }

    /// Retries a full ring.
    fn retry<H: Handler>(&mut self, turn: &mut ReadContext<'_, H>) {
        // Acquire: pairs with the swap in `flush`, which any worker may run.
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
        // Packets that the peer sent before it disconnected are read, within the budget of a turn.
        self.take(turn)?;
        gone.map_or(Ok(()), |fault| Err(CloseReason::Memif(fault)))
    }

    fn on_timer(&mut self, turn: &mut ReadContext<'_, H>) -> Result<(), CloseReason> {
        self.retry(turn);
        self.take(turn)
    }
}

impl<P: AsRef<[u8]>> Sender<P> for MemifSender {
    fn flush(&mut self, queue: &mut FrameQueue<P>, sent: &mut FlushReport) -> Result<FlushProgress, Errno> {
        let mut flushed = FlushProgress::All;
        loop {
            let Some(frame) = queue.frames().next() else { break };
            let pushed = self.sender.push(&frame.slices());
            match pushed {
                Ok(PushOutcome::Accepted) => {
                    sent.octets += queue.pop() as u64;
                    sent.frames += 1;
                }
                Ok(PushOutcome::Full) => {
                    flushed = FlushProgress::Blocked;
                    break;
                }
                Ok(PushOutcome::TooLong) => {
                    sent.drops.count(LinkDrop::MessageTooLarge.label());
                    queue.pop();
                }
                Err(fault) => {
                    sent.drops.count(fault.label());
                    // A `Sender` returns only error numbers of the system. The counter names the
                    // fault.
                    return Err(Errno::PROTO);
                }
            }
        }
        // Published once for all frames, so that the peer is woken once.
        self.sender.publish();
        let is_blocked = flushed == FlushProgress::Blocked;
        // The flag is set before the kick, so the thread that the kick wakes finds it set.
        if !self.common.is_blocked.swap(is_blocked, Ordering::AcqRel) && is_blocked {
            // The kick makes the receiving half begin to retry.
            self.kick.kick();
        }
        Ok(flushed)
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
