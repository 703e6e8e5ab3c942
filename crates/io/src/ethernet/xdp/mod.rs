//! The XDP sockets of a device. Workers read their receive queues, and transports send on them.
//!
//! Each receive queue has one socket, read by one worker. With more workers than queues, some
//! workers do not read the device. Any worker sends on any socket, under the lock of its sending
//! half. A transport always uses the same socket, so its frames stay in order. No lock is held
//! during a system call that sends or receives.

mod transmit_queue;

use std::collections::BTreeMap;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use namely_datagrams::ethernet::frame::HEADER_OCTETS;
use namely_datagrams::ethernet::monitor::Device;
use namely_datagrams::ethernet::ring::ReceivedFrame;
use namely_datagrams::ethernet::xdp::{self, Layout, Mode, Program, QUEUES_MAX, Receive};
use namely_wire::MacAddress;
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::options::{IoOptions, Xdp};
use crate::sender::FlushReport;
use crate::sockets;
pub(super) use transmit_queue::{TransmitContext, TransmitQueue, label};

/// Attempts to open a queue. The kernel frees a queue some time after its socket was closed, for
/// instance by a router that ran before.
const TRIES: u32 = 10;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// The reason for which AF_XDP cannot read a device.
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

/// The part of a device's program and sockets that its workers and transports share.
#[derive(Debug, Default)]
pub(super) struct Sockets {
    attached: Mutex<Option<XdpAttachment>>,
    /// The transmit queues by queue number. When the device is removed, they stay in the map
    /// without a socket until the device is back.
    transmit_queues: Mutex<BTreeMap<u32, Arc<TransmitQueue>>>,
}

#[derive(Debug)]
struct XdpAttachment {
    index: u32,
    address: MacAddress,
    mode: Mode,
    program: Program,
}

/// The queues that a worker reads: those whose number divided by `readers` has this remainder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkerQueues {
    pub(super) remainder: usize,
    pub(super) readers: usize,
}

impl Sockets {
    /// Opens a worker's share of a device's queues, which may be empty. `timer` wakes that worker
    /// when a frame waits for room.
    ///
    /// # Errors
    /// The device, its driver or the kernel does not support AF_XDP, the device has too many
    /// queues, or this process lacks a capability.
    pub(super) fn open(
        &self,
        device: &Device,
        share: WorkerQueues,
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
        // A step of zero would panic.
        for number in (0..QUEUES_MAX).skip(share.remainder).step_by(share.readers.max(1)) {
            match self.open_queue(device, number, layout, options, timer) {
                Ok(queue) => queues.push(queue),
                // The device has no more queues.
                Err(Refusal { errno: Errno::INVAL, .. }) if number > 0 => break,
                Err(refusal) => {
                    // Dropped first: this closes the transmit queues, whose state the next call
                    // checks.
                    drop(queues);
                    self.detach_if_unused();
                    return Err(refusal);
                }
            }
        }
        Ok(queues)
    }

    /// Returns the transmit queue for a transport to this address, if there is any.
    pub(super) fn transmit_queue(&self, remote: MacAddress) -> Option<Arc<TransmitQueue>> {
        let transmit_queues = self.transmit_queues.lock();
        // The address selects the queue, so a transport always has the same one.
        let sum = remote.0.iter().fold(0, |sum, octet| sum + usize::from(*octet));
        // Without a queue, `checked_rem` returns `None`.
        transmit_queues.values().nth(sum.checked_rem(transmit_queues.len())?).cloned()
    }

    fn attach(&self, device: &Device, wanted: Xdp) -> Result<(), Refusal> {
        // Held during the system calls, so that two workers do not attach a program at the same
        // time.
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
                // With `auto`, AF_PACKET reads a device whose driver has no native hook.
                Xdp::Off | Xdp::Auto => Err(errno),
            })
            .map_err(Refusal::at("attaching the XDP program"))?;
        *attached = Some(XdpAttachment { index, address, mode, program });
        Ok(())
    }

    fn detach_if_unused(&self) {
        // The condition releases the lock of `transmit_queues` before `attached` is locked, because
        // `open_queue` locks the two in the other order.
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

/// Refuses a device with more than `QUEUES_MAX` queues, because frames in the other queues would be
/// lost.
fn refuse_too_many_queues(device: &Device) -> Result<(), Refusal> {
    match xdp::open(device.index, QUEUES_MAX, Layout::new(0, 0, 0)) {
        // There is no queue with this number.
        Err(Errno::INVAL) => Ok(()),
        Ok(_) => Err(Refusal { doing: "counting receive queues", errno: Errno::TOOBIG }),
        Err(errno) => Err(Refusal { doing: "opening an XDP socket", errno }),
    }
}

/// A receive queue of a device, with its transmit queue.
#[derive(Debug)]
pub(super) struct Queue {
    receive: Receive,
    transmit_queue: Arc<TransmitQueue>,
}

impl Queue {
    /// Passes frames to `take`, at most `max` pieces. Returns the number of pieces.
    pub(super) fn receive(&mut self, max: usize, take: impl FnMut(ReceivedFrame<'_>)) -> usize {
        self.receive.receive(max, take)
    }

    /// Frames that the kernel dropped since the last call.
    pub(super) fn drops(&mut self) -> u64 {
        self.receive.drops()
    }

    /// Returns the number of pieces that the kernel has not taken. Their frames were counted as
    /// sent.
    pub(super) fn pending(&self) -> u64 {
        self.transmit_queue.pending()
    }

    /// Returns the addresses of the transports that wait for this queue and must be flushed. Drops
    /// of frames that were counted as sent are added to `sent`.
    pub(super) fn waiting(&self, sent: &mut FlushReport) -> Vec<MacAddress> {
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
