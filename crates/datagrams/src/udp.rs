//! Datagrams out of one socket: runs of equal length as one message (`UDP_SEGMENT`), and many
//! messages by one call.
//!
//! It never waits, and retains nothing of the sent data.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};

use namely_link::Frame;
use rustix::io::Errno;
use rustix::net::{AddressFamily, sockopt};

use crate::mmsg::{self, MESSAGES_OUT_MAX, Outgoing};

/// Datagrams of one length that the kernel receives as one message.
///
/// Every kernel with `UDP_SEGMENT` accepts this number.
///
/// # Limit
/// The next message begins.
/// - Tests: `a_run_has_at_most_64_datagrams`
const RUN_DATAGRAMS_MAX: usize = 64;

/// Octets of the datagrams that the kernel receives as one message.
///
/// They fit the longest IP packet, with any headers.
///
/// # Limit
/// The next message begins.
/// - Tests: `a_run_has_at_most_64_datagrams`
const RUN_OCTETS_MAX: usize = 65_000;

/// Calls of [`UdpSender::send`] between two checks of the path's MTU, which may grow without
/// notice.
const CALLS_PER_LOOK: u32 = 1024;

/// Slices of one datagram.
const SLICES_MAX: usize = 4;

/// Data that can be sent as one datagram.
pub trait Datagram {
    /// Octets in all.
    fn octets(&self) -> usize;

    /// Its octets, in order; slices may be empty.
    fn slices(&self) -> [&[u8]; SLICES_MAX];

    /// Returns true if it must be sent in a separate message, so that it is not lost with others.
    fn is_alone(&self) -> bool {
        false
    }
}

impl<P: AsRef<[u8]>> Datagram for Frame<P> {
    fn octets(&self) -> usize {
        Frame::octets(self)
    }

    fn slices(&self) -> [&[u8]; SLICES_MAX] {
        Frame::slices(self)
    }

    /// A probe must not share a run: systems forward runs uncut, so one datagram that is too long
    /// for the path may lose the whole run.
    fn is_alone(&self) -> bool {
        self.is_probe()
    }
}

impl Datagram for [u8] {
    fn octets(&self) -> usize {
        self.len()
    }

    fn slices(&self) -> [&[u8]; SLICES_MAX] {
        [self, &[], &[], &[]]
    }
}

/// The capabilities of a connected socket for datagrams, and the MTU of its path.
#[derive(Clone, Copy, Debug)]
pub struct UdpSender {
    /// Longest datagram of a run; 0: no runs.
    run_octets_max: usize,
    /// The last value that [`UdpSender::path_change`] returned.
    path_octets: Option<usize>,
    /// Whether the path may have changed.
    is_stale: bool,
    calls: u32,
}

impl Default for UdpSender {
    fn default() -> Self {
        UdpSender { run_octets_max: usize::from(u16::MAX), path_octets: None, is_stale: true, calls: 0 }
    }
}

impl UdpSender {
    /// Sends datagrams from the front of `datagrams`, as far as a connected socket takes them by
    /// one system call. Returns the number of accepted datagrams.
    ///
    /// # Errors
    /// The reason for which the first datagram was not sent.
    pub fn send<'a, D: Datagram + ?Sized + 'a>(
        &mut self,
        socket: impl AsFd,
        datagrams: impl Iterator<Item = &'a D> + Clone,
    ) -> Result<usize, Errno> {
        let socket = socket.as_fd();
        self.calls = self.calls.wrapping_add(1);
        self.is_stale |= self.calls.is_multiple_of(CALLS_PER_LOOK);
        let mut was_reported = false;
        // A refusal makes runs shorter, so the loop ends.
        loop {
            let mut runs = [Run::default(); MESSAGES_OUT_MAX];
            let waiting = datagrams.clone().take(RUN_DATAGRAMS_MAX).map(|d| (d.octets(), d.is_alone()));
            let count = cut(waiting, self.run_octets_max, &mut runs);
            match send_runs(socket, datagrams.clone(), &runs[..count]) {
                Ok(taken) => return Ok(runs[..taken.min(count)].iter().map(|run| run.frames).sum()),
                // It may be a router's report about an earlier datagram. The present one was not
                // tried then.
                Err(Errno::MSGSIZE) if !was_reported => {
                    was_reported = true;
                    self.is_stale = true;
                }
                Err(errno) if runs[0].frames > 1 && self.refuse(socket, runs[0].datagram_octets, errno) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Returns the longest datagram that reaches the peer in one piece, octets, if it changed since
    /// the last report. The system is queried only if there is a reason.
    pub fn path_change(&mut self, socket: impl AsFd) -> Option<usize> {
        if !std::mem::take(&mut self.is_stale) {
            return None;
        }
        let now = path_octets(socket)?;
        let before = self.path_octets.replace(now);
        if before.is_some_and(|before| before < now) && self.run_octets_max > 0 {
            self.run_octets_max = usize::from(u16::MAX);
        }
        (before != Some(now)).then_some(now)
    }

    /// The system refused a run of datagrams of `octets`, so no more such runs are made. Returns
    /// true if the run was the reason, and the same datagrams may be sent one by one.
    fn refuse(&mut self, socket: BorrowedFd<'_>, octets: usize, errno: Errno) -> bool {
        self.run_octets_max = match errno {
            // The kernel cuts runs but not datagrams: each must fit into the path's MTU.
            Errno::MSGSIZE | Errno::INVAL => path_octets(socket).filter(|path| *path < octets).unwrap_or(0),
            // The device cannot.
            Errno::IO | Errno::OPNOTSUPP => 0,
            _ => return false,
        };
        tracing::debug!(octets, error = %errno, "datagrams of this length leave one by one");
        true
    }
}

/// Enables path MTU discovery of a connected socket (RFC 1191, RFC 8201). A datagram that fits the
/// known MTU must not be fragmented on the way; longer ones are fragmented here. That is the usual
/// setting of systems. If a router cannot pass a datagram, the socket's next call fails with
/// [`Errno::MSGSIZE`], and the path's MTU has changed.
pub fn discover_path(socket: impl AsFd) {
    let socket = socket.as_fd();
    // If this is refused, the system's setting applies.
    let _ = sockopt::set_ip_mtu_discover(socket, sockopt::Ipv4PathMtuDiscovery::WANT)
        .or_else(|_| sockopt::set_ipv6_mtu_discover(socket, sockopt::Ipv6PathMtuDiscovery::WANT));
}

/// Returns the longest datagram that reaches the peer of a socket in one piece, octets; `None` if
/// the system does not report it.
pub fn path_octets(socket: impl AsFd) -> Option<usize> {
    let socket = socket.as_fd();
    let is_v4 = sockopt::socket_domain(socket).ok()? == AddressFamily::INET;
    let mtu = if is_v4 { sockopt::ip_mtu(socket) } else { sockopt::ipv6_mtu(socket) };
    let headers_octets = if is_v4 { 20 + 8 } else { 40 + 8 };
    (mtu.ok()? as usize).checked_sub(headers_octets)
}

/// Datagrams that leave as one message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Run {
    frames: usize,
    /// Octets of each datagram except the last, which may be shorter.
    datagram_octets: usize,
    octets: usize,
    /// The last one is shorter, or alone: none can follow it.
    is_ended: bool,
}

impl Run {
    /// Adds a datagram, if one of this length may follow.
    fn extend(&mut self, octets: usize, is_alone: bool, run_octets_max: usize) -> bool {
        let may_follow = !self.is_ended
            && !is_alone
            && octets <= self.datagram_octets
            && octets > 0
            && self.datagram_octets <= run_octets_max
            && self.frames < RUN_DATAGRAMS_MAX
            && self.octets + octets <= RUN_OCTETS_MAX;
        if may_follow {
            self.frames += 1;
            self.octets += octets;
            self.is_ended = octets < self.datagram_octets;
        }
        may_follow
    }
}

/// Cuts datagrams of the given lengths, some of which are alone, into runs. Returns their number.
fn cut(
    datagrams: impl Iterator<Item = (usize, bool)>,
    run_octets_max: usize,
    runs: &mut [Run; MESSAGES_OUT_MAX],
) -> usize {
    let mut count = 0;
    for (octets, is_alone) in datagrams {
        if count > 0 && runs[count - 1].extend(octets, is_alone, run_octets_max) {
            continue;
        }
        if count == runs.len() {
            break;
        }
        runs[count] = Run { frames: 1, datagram_octets: octets, octets, is_ended: is_alone };
        count += 1;
    }
    count
}

/// Sends runs from the front by one system call. Returns the number of those that the socket
/// accepted.
fn send_runs<'a, D: Datagram + ?Sized + 'a>(
    socket: BorrowedFd<'_>,
    mut datagrams: impl Iterator<Item = &'a D>,
    runs: &[Run],
) -> Result<usize, Errno> {
    let mut slices = [IoSlice::new(&[]); RUN_DATAGRAMS_MAX * SLICES_MAX];
    let mut ends = [0; MESSAGES_OUT_MAX];
    let mut filled = 0;
    for (run, end) in runs.iter().zip(&mut ends) {
        let run = datagrams.by_ref().take(run.frames).flat_map(D::slices);
        for slice in run.filter(|slice| !slice.is_empty()) {
            slices[filled] = IoSlice::new(slice);
            filled += 1;
        }
        *end = filled;
    }
    let mut start = 0;
    let messages = runs.iter().zip(ends).map(|(run, end)| {
        let slices = &slices[std::mem::replace(&mut start, end)..end];
        let segment_octets = (run.frames > 1).then_some(run.datagram_octets as u16);
        Outgoing { slices, segment_octets }
    });
    mmsg::send(socket, messages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn runs_of(octets: &[usize], octets_max: usize) -> Vec<Vec<usize>> {
        // In this test, datagrams of 777 octets are alone.
        let mut runs = [Run::default(); MESSAGES_OUT_MAX];
        let count = cut(octets.iter().map(|o| (*o, *o == 777)), octets_max, &mut runs);
        let mut rest = octets.iter().copied();
        runs[..count].iter().map(|run| rest.by_ref().take(run.frames).collect()).collect()
    }

    #[test]
    fn a_run_ends_with_a_shorter_datagram() {
        assert_eq!(runs_of(&[9, 9, 9], 100), [vec![9, 9, 9]]);
        assert_eq!(runs_of(&[9, 9, 4, 4, 9], 100), [vec![9, 9, 4], vec![4], vec![9]]);
        assert_eq!(runs_of(&[4, 9, 9], 100), [vec![4], vec![9, 9]]);
        assert_eq!(runs_of(&[101, 101, 100, 100], 100), [vec![101], vec![101], vec![100, 100]]);
        assert_eq!(runs_of(&[5, 5], 0), [vec![5], vec![5]]);
    }

    #[test]
    fn a_single_datagram_is_no_run() {
        assert_eq!(runs_of(&[900, 900, 777, 500, 500], 8800), [vec![900, 900], vec![777], vec![500, 500]]);
        assert_eq!(runs_of(&[777, 777], 8800), [[777], [777]]);
    }

    #[test]
    fn a_run_has_at_most_64_datagrams() {
        let lengths = |runs: Vec<Vec<usize>>| runs.iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(lengths(runs_of(&[100; 64], 8800)), [64]);
        assert_eq!(lengths(runs_of(&[100; 65], 8800)), [64, 1]);
        assert_eq!(lengths(runs_of(&[8125; 8], 8800)), [8]);
        assert_eq!(lengths(runs_of(&[8126; 8], 8800)), [7, 1]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn runs_match_the_kernels_segmentation(
            octets in prop::collection::vec(prop_oneof![Just(8000usize), Just(100), 0usize..9000], 0..64),
            octets_max in prop_oneof![Just(0usize), Just(1452), Just(65535)],
        ) {
            let runs = runs_of(&octets, octets_max);
            prop_assert_eq!(&runs.concat(), &octets);
            for run in runs.iter().filter(|run| run.len() > 1) {
                let (last, others) = run.split_last().unwrap();
                prop_assert!(others.iter().all(|o| *o == run[0]) && (1..=run[0]).contains(last));
                prop_assert!(run[0] <= octets_max && run.iter().sum::<usize>() <= RUN_OCTETS_MAX);
            }
        }
    }
}
