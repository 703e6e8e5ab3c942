//! `icn_poll`: waiting for sockets and ordinary descriptors together.

use std::sync::Arc;

use libc::c_int;

use crate::failure::{Errno, Failure};
use crate::socket::{Socket, find};
use crate::system::poll_descriptors;
use crate::types::{ICN_POLLIN, ICN_POLLNVAL, icn_pollfd};

/// Sockets and descriptors of one `icn_poll`.
///
/// # Limit
/// The call is refused with `EINVAL`.
/// - Tests: `c_programs_get_errors_beyond_the_limits`
pub(crate) const POLLED_MAX: usize = 4096;

/// Waits. Returns the number of entries of `polled` with events.
pub(crate) fn poll(polled: &mut [icn_pollfd], timeout_ms: c_int) -> Result<c_int, Failure> {
    // The sockets are held until the end: one that is closed meanwhile keeps its descriptor open.
    let sockets: Vec<Option<Result<Arc<Socket>, Failure>>> =
        polled.iter().map(|entry| (entry.socket >= 0).then(|| find(entry.socket))).collect();
    // Leaves out the entries that wait for nothing. The kernel counts ignored entries, too, and
    // refuses more entries than the process may have descriptors (poll(2), EINVAL).
    let mut system: Vec<libc::pollfd> = Vec::new();
    let mut slots: Vec<Option<usize>> = Vec::with_capacity(polled.len());
    let mut unknown = false;
    for (entry, socket) in polled.iter().zip(&sockets) {
        let (fd, events) = match socket {
            None => (entry.fd, entry.events),
            Some(Ok(socket)) if entry.events & ICN_POLLIN != 0 => {
                socket.announce();
                (socket.raw_descriptor(), libc::POLLIN)
            }
            Some(Ok(_)) => (-1, 0),
            Some(Err(failure)) if failure.errno == libc::EBADF => {
                unknown = true;
                (-1, 0)
            }
            Some(Err(failure)) => return Err(failure.clone()),
        };
        slots.push((fd >= 0).then_some(system.len()));
        if fd >= 0 {
            system.push(libc::pollfd { fd, events, revents: 0 });
        }
    }
    let timeout_ms = if unknown { 0 } else { timeout_ms };
    poll_descriptors(&mut system, timeout_ms).map_err(|Errno(errno)| Failure::from(Errno(errno)))?;
    for ((entry, socket), slot) in polled.iter_mut().zip(&sockets).zip(slots) {
        let ready = slot.map_or(0, |slot| system[slot].revents);
        entry.revents = match socket {
            None => ready,
            Some(Err(_)) => ICN_POLLNVAL,
            // The socket may have been closed meanwhile.
            Some(Ok(_)) if find(entry.socket).is_err() => ICN_POLLNVAL,
            Some(Ok(_)) => ready & libc::POLLIN,
        };
    }
    Ok(polled.iter().filter(|entry| entry.revents != 0).count() as c_int)
}
