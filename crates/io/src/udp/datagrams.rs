//! Datagrams out of one socket.

use std::os::fd::OwnedFd;

use namely_datagrams::mmsg;
use namely_datagrams::udp::UdpSender;
use rustix::io::Errno;

use crate::queue::FrameQueue;
use crate::sender::{Flushed, Sent};

/// System calls of one transport in one turn; a failed datagram takes one.
const WRITES_PER_TURN_MAX: usize = 64;

/// Messages that one call reads, each of which may be a run of 64 datagrams, or of 128 from Linux
/// 6.9 on: what was read is processed in the same turn.
const MESSAGES_PER_CALL: usize = 8;

/// The part of a worker's buffer that one call reads into.
pub(super) fn room(scratch: &mut [u8]) -> &mut [u8] {
    let octets = mmsg::receive_octets(MESSAGES_PER_CALL).min(scratch.len());
    &mut scratch[..octets]
}

/// Sends what waits, as far as the socket takes it. A datagram that the system refuses is dropped
/// and counted.
pub(crate) fn flush<P: AsRef<[u8]>>(
    socket: &OwnedFd,
    queue: &mut FrameQueue<P>,
    sender: &mut UdpSender,
    sent: &mut Sent,
) -> Result<Flushed, Errno> {
    let mut was_refused = false;
    for _ in 0..WRITES_PER_TURN_MAX {
        if queue.is_empty() {
            return Ok(Flushed::All);
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
            Err(Errno::AGAIN) => return Ok(Flushed::Blocked),
            Err(Errno::NOBUFS | Errno::NOMEM) => return Ok(Flushed::Refused),
            // The peer's answer to an earlier datagram; this one was not tried yet.
            Err(Errno::CONNREFUSED) if !was_refused => {
                was_refused = true;
                sent.drops.count("refused");
            }
            Err(errno) => {
                queue.pop();
                sent.drops.count(label(errno));
            }
        }
    }
    Ok(if queue.is_empty() { Flushed::All } else { Flushed::Some })
}

/// The counter of a datagram that the system did not send.
fn label(errno: Errno) -> &'static str {
    match errno {
        Errno::MSGSIZE => "datagram_too_large",
        Errno::CONNREFUSED => "refused",
        Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::NETDOWN | Errno::NODEV => "unreachable",
        Errno::PERM | Errno::ACCESS => "not_permitted",
        _ => "send_failed",
    }
}
