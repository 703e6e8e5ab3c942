//! Parsers of the kernel's files about processes (proc(5)).

/// CPU time of all threads of a process, dead ones included, in clock ticks: fields 14 (utime) and
/// 15 (stime) of `/proc/PID/stat`.
pub fn cpu_ticks(stat: &str) -> Option<u64> {
    ticks(stat, 14)
}

/// CPU time of the children that have ended and were waited for: fields 16 (cutime) and 17
/// (cstime).
pub fn reaped_ticks(stat: &str) -> Option<u64> {
    ticks(stat, 16)
}

/// User and system time in the fields `first`, counted from 1, and the next.
fn ticks(stat: &str, first: usize) -> Option<u64> {
    // The second field is the program's name in parentheses, which may contain spaces and
    // parentheses.
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace().skip(first - 3);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    user.checked_add(system)
}

/// The parent of a process: field 4 of `/proc/PID/stat`.
pub fn parent(stat: &str) -> Option<u32> {
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// CPU time of one thread in nanoseconds: the first field of `/proc/PID/task/TID/schedstat`.
pub fn thread_cpu_ns(schedstat: &str) -> Option<u64> {
    schedstat.split_ascii_whitespace().next()?.parse().ok()
}

/// Number of sleeps of one thread, each of which ended with a wake-up: the line
/// `voluntary_ctxt_switches` of `/proc/PID/task/TID/status`.
pub fn sleeps(status: &str) -> Option<u64> {
    value(status, "voluntary_ctxt_switches:")
}

/// Memory of a process in KiB, in `/proc/PID/smaps_rollup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Resident pages, those shared with other processes included.
    pub resident_kib: u64,
    /// Resident pages, with the process's part of shared ones.
    pub proportional_kib: u64,
    /// Resident pages that no other process has.
    pub private_kib: u64,
}

impl Memory {
    /// Parses the file; none if the process has ended.
    pub fn parse(rollup: &str) -> Option<Self> {
        Some(Memory {
            resident_kib: value(rollup, "Rss:")?,
            proportional_kib: value(rollup, "Pss:")?,
            private_kib: value(rollup, "Private_Clean:")? + value(rollup, "Private_Dirty:")?,
        })
    }
}

/// The number in the line that begins with `key`.
fn value(text: &str, key: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Resident memory in KiB: `VmRSS` of `/proc/PID/status`; a process that has ended has none.
pub fn resident_kib(status: &str) -> Option<u64> {
    value(status, "VmRSS:")
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "4242 (a (b) c) S 1 4242 4242 0 -1 4194560 900 0 0 0 37 5 8 1 20 0 3 0 1000 1 1 1";

    #[test]
    fn cpu_time_parses_despite_parentheses() {
        assert_eq!(cpu_ticks(STAT), Some(42));
        assert_eq!(reaped_ticks(STAT), Some(9));
        assert_eq!(parent(STAT), Some(1));
    }

    #[test]
    fn a_cut_line_has_no_cpu_time() {
        assert_eq!(cpu_ticks("4242 (x) S 1 2 3"), None);
        assert_eq!(cpu_ticks(""), None);
    }

    #[test]
    fn schedstat_begins_with_the_run_time() {
        assert_eq!(thread_cpu_ns("382708315 116053 6\n"), Some(382_708_315));
        assert_eq!(thread_cpu_ns(""), None);
    }

    #[test]
    fn resident_memory_is_absent_in_zombies() {
        assert_eq!(resident_kib("Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  812 kB\n"), Some(812));
        assert_eq!(resident_kib("Name:\tx\nState:\tZ (zombie)\n"), None);
    }

    #[test]
    fn private_memory_is_clean_and_dirty() {
        let text = "5600-7fff ---p 0 00:00 0 [rollup]\nRss:  900 kB\nPss:  300 kB\nPss_Anon:  7 kB\n\
                    Shared_Clean:  700 kB\nPrivate_Clean:  40 kB\nPrivate_Dirty:  160 kB\n";
        let memory = Memory { resident_kib: 900, proportional_kib: 300, private_kib: 200 };
        assert_eq!(Memory::parse(text), Some(memory));
        assert_eq!(Memory::parse(""), None);
    }

    #[test]
    fn procfs_of_this_process_parses() {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/self/{file}")).expect("procfs");
        assert!(cpu_ticks(&read("stat")).is_some());
        assert!(thread_cpu_ns(&read("schedstat")).is_some());
        assert!(sleeps(&read("status")).is_some());
        assert!(Memory::parse(&read("smaps_rollup")).is_some_and(|memory| memory.private_kib > 100));
        assert!(resident_kib(&read("status")).is_some_and(|kib| kib > 100));
    }
}
