//! Sending datagrams on a socket, and the buffer for receiving them.

use std::os::fd::OwnedFd;

use namely_datagrams::mmsg;
use namely_datagrams::udp::UdpSender;
use rustix::io::Errno;

use crate::labels::sent;
use crate::queue::FrameQueue;
use crate::sender::{FlushProgress, FlushReport};

/// Maximum system calls in one flush of a transport. A failed datagram uses one.
const WRITES_PER_TURN_MAX: usize = 64;

/// Messages that one system call reads from a UDP socket.
///
/// Each may be a run of 64 datagrams, or of 128 from Linux 6.9 on, and all of them are processed in
/// the same turn. No further call follows after 2 ms of a turn.
///
/// # Limit
/// The rest is read by the next call.
/// - Tests: `a_peer_flood_harms_no_other_peer`,
///   `datagram_runs_get_no_longer_turns`,
///   `reads_are_limited_by_the_buffer`
const MESSAGES_PER_CALL: usize = 8;

/// Returns the part of a worker's buffer into which one call reads.
pub(super) fn room(scratch: &mut [u8]) -> &mut [u8] {
    let octets = mmsg::receive_octets(MESSAGES_PER_CALL).min(scratch.len());
    &mut scratch[..octets]
}

/// Sends waiting datagrams as far as the socket accepts them. A datagram that the system refuses is
/// dropped and counted.
pub(crate) fn flush<P: AsRef<[u8]>>(
    socket: &OwnedFd,
    queue: &mut FrameQueue<P>,
    sender: &mut UdpSender,
    sent: &mut FlushReport,
) -> Result<FlushProgress, Errno> {
    let mut was_refused = false;
    for _ in 0..WRITES_PER_TURN_MAX {
        if queue.is_empty() {
            return Ok(FlushProgress::All);
        }
        match sender.send(socket, queue.frames()) {
            Ok(taken) => {
                for _ in 0..taken {
                    sent.octets += queue.pop() as u64;
                    sent.frames += 1;
                }
                was_refused = false;
            }
            Err(Errno::INTR) => (),
            Err(Errno::AGAIN) => return Ok(FlushProgress::Blocked),
            Err(Errno::NOBUFS | Errno::NOMEM) => return Ok(FlushProgress::Refused),
            // The peer refused an earlier datagram. The present one was not sent yet.
            Err(Errno::CONNREFUSED) if !was_refused => {
                was_refused = true;
                sent.drops.count(sent::REFUSED);
            }
            Err(errno) => {
                queue.pop();
                sent.drops.count(label(errno));
            }
        }
    }
    Ok(if queue.is_empty() { FlushProgress::All } else { FlushProgress::Some })
}

/// Returns the label of the counter for a datagram that the system did not send.
fn label(errno: Errno) -> &'static str {
    match errno {
        Errno::MSGSIZE => sent::DATAGRAM_TOO_LARGE,
        Errno::CONNREFUSED => sent::REFUSED,
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::NODEV => sent::UNREACHABLE,
        Errno::PERM | Errno::ACCESS => sent::NOT_PERMITTED,
        _ => sent::SEND_FAILED,
    }
}
