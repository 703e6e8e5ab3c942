//! The metrics of the process, under the names that the guidelines for Prometheus' client libraries
//! define ("Writing client libraries", section Process metrics), so that common dashboards and
//! alerts apply. A metric that the system does not report is absent.

use std::fmt::Write;
use std::fs;
use std::sync::OnceLock;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

/// Each metric: its name without the suffix of a counter, its type, its help, and its value.
type Reading = (&'static str, &'static str, &'static str, Option<f64>);

/// The metrics as OpenMetrics text, without an end mark.
pub(super) fn text() -> String {
    let [virtual_octets, resident_octets] = memory_octets();
    let readings: [Reading; 6] = [
        ("process_cpu_seconds", "counter", "Total user and system CPU time spent in seconds", Some(cpu_s())),
        ("process_open_fds", "gauge", "Number of open file descriptors", open_descriptors()),
        ("process_max_fds", "gauge", "Maximum number of open file descriptors", max_descriptors()),
        ("process_virtual_memory_bytes", "gauge", "Virtual memory size in bytes", virtual_octets),
        ("process_resident_memory_bytes", "gauge", "Resident memory size in bytes", resident_octets),
        (
            "process_start_time_seconds",
            "gauge",
            "Start time of the process since unix epoch in seconds",
            start_s(),
        ),
    ];
    let mut text = String::new();
    for (name, kind, help, value) in readings {
        let Some(value) = value else { continue };
        let suffix = if kind == "counter" { "_total" } else { "" };
        // Writing to a String does not fail.
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{name}{suffix} {value}\n");
    }
    text
}

fn cpu_s() -> f64 {
    let spent = clock_gettime(ClockId::ProcessCPUTime);
    spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9
}

fn open_descriptors() -> Option<f64> {
    // One of them belongs to this reading.
    fs::read_dir("/proc/self/fd").ok().map(|entries| entries.count().saturating_sub(1) as f64)
}

fn max_descriptors() -> Option<f64> {
    getrlimit(Resource::Nofile).current.map(|limit| limit as f64)
}

/// The virtual and the resident size of memory, octets.
fn memory_octets() -> [Option<f64>; 2] {
    let sizes = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    sizes_octets(&sizes, rustix::param::page_size())
}

/// The sizes in pages are the first two numbers of statm (proc_pid_statm(5)).
fn sizes_octets(statm: &str, page_octets: usize) -> [Option<f64>; 2] {
    let mut pages = statm.split_whitespace().map(|pages| pages.parse::<u64>().ok());
    [0, 1].map(|_| pages.next().flatten().map(|pages| pages as f64 * page_octets as f64))
}

/// The start is read once: the kernel computes the time of the boot from the clock, so that it
/// changes when the clock is set, and a changed start would count as a restart.
fn start_s() -> Option<f64> {
    static START: OnceLock<Option<f64>> = OnceLock::new();
    *START.get_or_init(read_start_s)
}

fn read_start_s() -> Option<f64> {
    let booted_s = boot_s(&fs::read_to_string("/proc/stat").ok()?)?;
    let ticks = start_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(booted_s as f64 + ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// The time of the boot, Unix time (proc_stat(5), `btime`).
fn boot_s(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok())
}

/// The start of a process, ticks after the boot: field 22 (proc_pid_stat(5)). Field 2 is the name
/// of the program in parentheses, which may contain spaces and parentheses.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(22 - 3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_start_ignores_the_program_name() {
        let fields: Vec<String> = (4..=52).map(|n| n.to_string()).collect();
        let stat = format!("77 (a) R (b) S {}\n", fields.join(" "));
        assert_eq!(start_ticks(&stat), Some(22));
        assert_eq!(start_ticks("77 (a"), None);
        assert_eq!(start_ticks("77 (a) S 4"), None);
        assert_eq!(boot_s("cpu 1 2\nbtime 1700000000\nprocesses 5\n"), Some(1_700_000_000));
        assert_eq!(boot_s("cpu 1 2\n"), None);
    }

    #[test]
    fn memory_sizes_are_in_octets() {
        assert_eq!(sizes_octets("3 2 1 0 0 0 0\n", 4096), [Some(12_288.0), Some(8_192.0)]);
        assert_eq!(sizes_octets("", 4096), [None, None]);
    }

    #[test]
    fn all_process_metrics_are_readable() {
        let text = text();
        for name in [
            "process_cpu_seconds_total",
            "process_open_fds",
            "process_max_fds",
            "process_virtual_memory_bytes",
            "process_resident_memory_bytes",
            "process_start_time_seconds",
        ] {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} ")));
            let value: Option<f64> = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
            assert!(value.is_some_and(|value| value > 0.0), "{name}: {text}");
        }
    }
}
