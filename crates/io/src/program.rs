//! The name of the program at the other end of a Unix socket.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::Read;

/// Octets of a process's name, without the terminating octet (`TASK_COMM_LEN` of the kernel).
const NAME_OCTETS_MAX: usize = 15;

/// The name by which a process calls itself (`/proc/PID/comm`, proc(5)). The process chooses it, so
/// it is foreign text and proves nothing.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramName {
    octets: [u8; NAME_OCTETS_MAX],
    length: usize,
}

impl ProgramName {
    /// Reads the name of a running process. The result is empty if the system does not show it.
    ///
    /// The kernel has the name in memory of its own, so the read waits for no process. Reading the
    /// arguments (`cmdline`) could wait for ever for a page of the peer.
    pub(crate) fn of(pid: i32) -> Self {
        // 0 stands for a process in another PID namespace.
        if pid <= 0 {
            return ProgramName::default();
        }
        let mut octets = [0; NAME_OCTETS_MAX + 1];
        let read = File::open(format!("/proc/{pid}/comm")).and_then(|mut file| file.read(&mut octets));
        ProgramName::new(octets.get(..read.unwrap_or(0)).unwrap_or_default())
    }

    fn new(line: &[u8]) -> Self {
        let name = line.strip_suffix(b"\n").unwrap_or(line);
        let mut new = ProgramName::default();
        for (to, from) in new.octets.iter_mut().zip(name) {
            *to = *from;
            new.length += 1;
        }
        new
    }

    /// Returns the name; `None` if it is unknown.
    pub fn text(&self) -> Option<Cow<'_, str>> {
        let name = self.octets.get(..self.length).filter(|name| !name.is_empty());
        name.map(String::from_utf8_lossy)
    }
}

impl fmt::Debug for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_has_a_bounded_length() {
        let text = |line: &[u8]| ProgramName::new(line).text().map(Cow::into_owned);
        assert_eq!(text(b"namely\n").as_deref(), Some("namely"));
        assert_eq!(text(b"exactly-fifteen\n").as_deref(), Some("exactly-fifteen"));
        assert_eq!(text(b"sixteen-octets-x").as_deref(), Some("sixteen-octets-"));
        assert_eq!((text(b"\n"), text(b"")), (None, None));
        assert_eq!(ProgramName::of(0), ProgramName::default());
        assert_eq!(ProgramName::of(i32::MAX), ProgramName::default());
    }
}
