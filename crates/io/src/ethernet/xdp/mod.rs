//! The XDP sockets of a device: which worker reads which of its queues, and who sends on them.
//!
//! There is one socket for each receive queue, read by one worker: with as many workers as queues
//! each has its own, and with fewer queues than workers some do not read the device. Any worker
//! sends on any of them, under the lock of its sending half; a transport keeps to one, so that its
//! frames keep their order. No lock is held during a system call, but where a program is attached.

mod transmit_queue;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use namely_datagrams::ethernet::frame::HEADER_OCTETS;
use namely_datagrams::ethernet::monitor::Device;
use namely_datagrams::ethernet::ring::Arrived;
use namely_datagrams::ethernet::xdp::{self, Layout, Mode, Program, QUEUES_MAX, Receive};
use namely_wire::MacAddress;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::options::{IoOptions, Xdp};
use crate::sender::Sent;
use crate::sockets;
pub(super) use transmit_queue::{TransmitQueue, Via, label};

/// The kernel frees a queue a moment after the socket that had it is closed, as that of a router
/// that was there before.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// Why a device is not read so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    doing: &'static str,
    errno: Errno,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = std::io::Error::from_raw_os_error(self.errno.raw_os_error());
        write!(f, "{}: {error}", self.doing)?;
        f.write_str(match self.errno {
            Errno::PERM | Errno::ACCESS => {
                " (it needs the capabilities CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF)"
            }
            Errno::NOBUFS => " (it needs CAP_IPC_LOCK, or a higher limit on locked memory)",
            Errno::OPNOTSUPP => " (the driver has no place for it)",
            Errno::RANGE => " (the MTU is too long for the driver)",
            Errno::BUSY | Errno::EXIST => " (another program is there)",
            Errno::TOOBIG => " (it has more than 64)",
            _ => "",
        })
    }
}

impl Refusal {
    fn at(doing: &'static str) -> impl FnOnce(Errno) -> Refusal {
        move |errno| Refusal { doing, errno }
    }
}

/// A device's program and sockets, as far as its workers and transports share them.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    attached: Mutex<Option<Attached>>,
    /// By queue. They stay when the device goes, empty until it is back.
    transmit_queues: Mutex<BTreeMap<u32, Arc<TransmitQueue>>>,
}

#[derive(Debug)]
struct Attached {
    index: u32,
    address: MacAddress,
    mode: Mode,
    program: Program,
}

/// The queues that a worker reads: each of those whose number has this remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) remainder: usize,
    pub(super) readers: usize,
}

impl Sockets {
    /// Opens a worker's share of a device's queues; there may be none. `timer` wakes that worker
    /// when something that is to be sent waits.
    ///
    /// # Errors
    /// What the device, its driver, the kernel or this process's rights do not allow.
    pub(super) fn open(
        &self,
        device: &Device,
        share: Share,
        wanted: Xdp,
        options: &IoOptions,
        timer: &Arc<OwnedFd>,
    ) -> Result<Vec<Queue>, Refusal> {
        refuse_too_many_queues(device)?;
        self.attach(device, wanted)?;
        let frame_octets = device.mtu + HEADER_OCTETS + 4;
        let layout =
            Layout::new(frame_octets, options.datagram_receive_buffer_octets, options.send_buffer_octets);
        let mut queues = Vec::new();
        for number in (0..QUEUES_MAX).skip(share.remainder).step_by(share.readers.max(1)) {
            match self.open_queue(device, number, layout, options, timer) {
                Ok(queue) => queues.push(queue),
                // There are no more.
                Err(Refusal { errno: Errno::INVAL, .. }) if number > 0 => break,
                Err(refusal) => {
                    drop(queues);
                    self.detach_if_unused();
                    return Err(refusal);
                }
            }
        }
        Ok(queues)
    }

    /// The transmit_queue that a transport to this address uses, if there is any.
    pub(super) fn transmit_queue(&self, remote: MacAddress) -> Option<Arc<TransmitQueue>> {
        let transmit_queues = self.transmit_queues.lock();
        let sum = remote.0.iter().fold(0, |sum, octet| sum + usize::from(*octet));
        transmit_queues.values().nth(sum.checked_rem(transmit_queues.len())?).cloned()
    }

    fn attach(&self, device: &Device, wanted: Xdp) -> Result<(), Refusal> {
        let mut attached = self.attached.lock();
        let (index, address) = (device.index, device.address);
        if attached.as_ref().is_some_and(|known| known.index == index && known.address == address) {
            return Ok(());
        }
        // A device has one program at a time.
        *attached = None;
        let native = Program::attach(index, address, Mode::Native).map(|program| (Mode::Native, program));
        let (mode, program) = native
            .or_else(|errno| match wanted {
                Xdp::On => {
                    Program::attach(index, address, Mode::Generic).map(|program| (Mode::Generic, program))
                }
                Xdp::Off | Xdp::Auto => Err(errno),
            })
            .map_err(Refusal::at("attaching the XDP program"))?;
        *attached = Some(Attached { index, address, mode, program });
        Ok(())
    }

    fn detach_if_unused(&self) {
        if !self.transmit_queues.lock().values().any(|transmit_queue| transmit_queue.is_open()) {
            *self.attached.lock() = None;
        }
    }

    fn open_queue(
        &self,
        device: &Device,
        number: u32,
        layout: Layout,
        options: &IoOptions,
        timer: &Arc<OwnedFd>,
    ) -> Result<Queue, Refusal> {
        let mut opened = xdp::open(device.index, number, layout);
        for _ in 1..TRIES {
            if !matches!(opened, Err(Errno::BUSY)) {
                break;
            }
            std::thread::sleep(BETWEEN_TRIES);
            opened = xdp::open(device.index, number, layout);
        }
        let (receive, transmit) = opened.map_err(Refusal::at("opening an XDP socket"))?;
        sockets::set_buffers(&receive, options.send_buffer_octets, 0);
        let attached = self.attached.lock();
        let attached =
            attached.as_ref().ok_or(Refusal { doing: "finding the XDP program", errno: Errno::NOENT })?;
        attached
            .program
            .lead(number, receive.socket())
            .map_err(Refusal::at("joining socket and XDP program"))?;
        let mode = attached.mode;
        let is_zero_copy = receive.is_zero_copy();
        tracing::info!(
            index = device.index,
            queue = number,
            ?mode,
            is_zero_copy,
            "AF_XDP reads the network device"
        );
        let transmit_queue = self.transmit_queues.lock().entry(number).or_default().clone();
        transmit_queue.open(transmit, timer.clone());
        Ok(Queue { receive, transmit_queue })
    }
}

/// Sees that a device has not more queues than are read: what came to a further one would be lost.
fn refuse_too_many_queues(device: &Device) -> Result<(), Refusal> {
    match xdp::open(device.index, QUEUES_MAX, Layout::new(0, 0, 0)) {
        Err(Errno::INVAL) => Ok(()),
        Ok(_) => Err(Refusal { doing: "counting receive queues", errno: Errno::TOOBIG }),
        Err(errno) => Err(Refusal { doing: "opening an XDP socket", errno }),
    }
}

/// A receive queue of a device, and the way out beside it.
#[derive(Debug)]
pub(super) struct Queue {
    receive: Receive,
    transmit_queue: Arc<TransmitQueue>,
}

impl Queue {
    /// Shows frames to `take`, as many as there are in `max` pieces. Returns how many pieces there
    /// were.
    pub(super) fn receive(&mut self, max: usize, take: impl FnMut(Arrived<'_>)) -> usize {
        self.receive.receive(max, take)
    }

    /// Frames that the kernel dropped since this was last called.
    pub(super) fn drops(&mut self) -> u64 {
        self.receive.drops()
    }

    /// Pieces of frames that count as sent and have not left.
    pub(super) fn pending(&self) -> u64 {
        self.transmit_queue.pending()
    }

    /// Addresses whose transports wait for this queue, and must be flushed. `sent` gets drops of
    /// frames that had been counted as sent.
    pub(super) fn waiting(&self, sent: &mut Sent) -> Vec<MacAddress> {
        self.transmit_queue.waiting(sent)
    }
}

impl AsFd for Queue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receive.as_fd()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.transmit_queue.close();
    }
}
