//! Captures the packets of a device into a pcap file, which `namely dissect` and other tools read.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use namely_datagrams::ethernet::{monitor, ring};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Timespec;
use rustix::net::{RecvFlags, recv};

/// Octets of the capture of one device of a testbed.
///
/// # Limit
/// Further frames are left out of the file.
/// - Value: 256 MiB
/// - Counter: `left_out`
/// - Tests: `a_capture_ends_at_its_limit`
pub const CAPTURE_OCTETS_MAX: u64 = 256 << 20;

/// Longest frame.
const FRAME_OCTETS_MAX: usize = 65_536 + 64;

/// Interval at which the thread checks for the end of the capture.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A running capture. Dropping it stops the capture and completes the file.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    left_out: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Capture {
    /// Captures the packets of `device`, in the caller's namespace, into `path`.
    ///
    /// # Errors
    /// Environment: the device does not exist, the caller may not capture, or the file cannot be
    /// created.
    pub fn start(device: &str, path: &Path) -> io::Result<Self> {
        Self::start_with(device, path, CAPTURE_OCTETS_MAX)
    }

    fn start_with(device: &str, path: &Path, octets_max: u64) -> io::Result<Self> {
        let index = monitor::device(device)?.ok_or(io::ErrorKind::NotFound)?.index;
        let socket = ring::watching_socket(index)?;
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(&file_header())?;
        let (stop, left_out) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (stopped, left) = (stop.clone(), left_out.clone());
        let thread = thread::spawn(move || write_frames(&socket, file, octets_max, &stopped, &left));
        Ok(Capture { stop, left_out, thread: Some(thread) })
    }

    /// Returns the number of frames that did not fit into the file.
    pub fn left_out(&self) -> u64 {
        self.left_out.load(Ordering::Relaxed)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn write_frames(
    socket: &OwnedFd,
    mut file: BufWriter<File>,
    octets_max: u64,
    stop: &AtomicBool,
    left_out: &AtomicU64,
) {
    let mut buffer = vec![0; FRAME_OCTETS_MAX];
    let mut room = octets_max;
    loop {
        // Frames that have arrived by the time of the stop still go into the file.
        let is_last = stop.load(Ordering::Relaxed);
        let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&LOOK));
        while let Ok((octets, _)) = recv(socket, &mut buffer, RecvFlags::DONTWAIT) {
            let (header, frame) = (frame_header(octets), &buffer[..octets]);
            let needed = (header.len() + octets) as u64;
            if needed > room || file.write_all(&header).and_then(|()| file.write_all(frame)).is_err() {
                left_out.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            room -= needed;
        }
        // Flush after each batch, so that a reader of the growing file sees whole frames.
        if file.flush().is_err() || is_last {
            return;
        }
    }
}

/// Returns the header of a pcap file of Ethernet frames, version 2.4, timestamps in microseconds.
fn file_header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
    header[4..6].copy_from_slice(&2_u16.to_le_bytes());
    header[6..8].copy_from_slice(&4_u16.to_le_bytes());
    header[16..20].copy_from_slice(&(FRAME_OCTETS_MAX as u32).to_le_bytes());
    header[20..].copy_from_slice(&1_u32.to_le_bytes());
    header
}

fn frame_header(octets: usize) -> [u8; 16] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let words = [now.as_secs() as u32, now.subsec_micros(), octets as u32, octets as u32];
    let mut header = [0; 16];
    for (place, word) in header.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    header
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use namely_testkit::{Need, skip};

    use super::*;
    use crate::Net;

    /// Sends datagrams through a namespace's loopback, and returns the file's frames.
    fn capture(octets_max: u64, datagrams: usize) -> Option<(usize, u64)> {
        let net = match Net::new(&["c"]) {
            Ok(net) => net,
            Err(why) => {
                skip(Need::Namespaces, why);
                return None;
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lo.pcap");
        let left_out = net.enter("c", || {
            let capture = Capture::start_with("lo", &path, octets_max).unwrap();
            let to = UdpSocket::bind("127.0.0.1:0").unwrap();
            let from = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..datagrams {
                from.send_to(&[7; 100], to.local_addr().unwrap()).unwrap();
                to.recv(&mut [0; 200]).unwrap();
            }
            let left_out = capture.left_out.clone();
            drop(capture);
            left_out.load(Ordering::Relaxed)
        });
        let file = std::fs::read(&path).unwrap();
        let (mut rest, mut frames) = (&file[24..], 0);
        while !rest.is_empty() {
            let octets = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
            assert!(rest[16..16 + octets].ends_with(&[7; 100]));
            (rest, frames) = (&rest[16 + octets..], frames + 1);
        }
        Some((frames, left_out))
    }

    #[test]
    fn a_capture_ends_at_its_limit() {
        // Each datagram is captured when it is sent and when it arrives: 16 + 142 octets.
        let Some((frames, left_out)) = capture(4 * 158, 2) else { return };
        assert_eq!((frames, left_out), (4, 0));
        assert_eq!(capture(4 * 158 - 1, 2), Some((3, 1)));
    }
}
