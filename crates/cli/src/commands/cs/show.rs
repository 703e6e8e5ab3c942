//! `namely cs info`: the contents of the content store, and its hits.

use clap::Args;
use namely_messages::{CsDiskStatus, CsInfo, cs_flags};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::Failure;
use crate::output::octets_text;
use crate::router::connect;

/// Show the content store.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely cs info\n  namely cs info --json")]
pub struct Info {}

impl Info {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut router = connect(ctx)?;
        let info = router.cs_info()?;
        // NFD has no such dataset.
        let disk = router.cs_disk().ok().flatten();
        ctx.out.answer(
            || {
                let disk = disk.iter().flat_map(|disk| [vec![String::new()], disk_text(disk)]).flatten();
                memory_text(&info).into_iter().chain(disk).collect::<Vec<_>>()
            },
            || {
                let mut value = memory_json(&info);
                value["disk"] = disk.as_ref().map_or(Value::Null, disk_json);
                value
            },
        );
        Ok(())
    }
}

fn is_on(info: &CsInfo, bit: u64) -> bool {
    info.flags & bit != 0
}

fn memory_text(info: &CsInfo) -> [String; 6] {
    let on = |bit| if is_on(info, bit) { "on" } else { "off" };
    [
        format!("entries   {} of {}", info.entries, info.capacity),
        format!("hits      {}{}", info.hits, share_text(info.hits, info.hits + info.misses, "of Interests")),
        format!("misses    {}", info.misses),
        format!("admit     {}", on(cs_flags::ENABLE_ADMIT)),
        format!("serve     {}", on(cs_flags::ENABLE_SERVE)),
        // NFD does not report the policy.
        format!("policy    {}", info.policy.as_deref().unwrap_or("-")),
    ]
}

fn memory_json(info: &CsInfo) -> Value {
    json!({
        "entries": info.entries, "capacity": info.capacity, "hits": info.hits, "misses": info.misses,
        "hit_ratio": ratio(info.hits, info.hits + info.misses), "policy": info.policy,
        "admit": is_on(info, cs_flags::ENABLE_ADMIT), "serve": is_on(info, cs_flags::ENABLE_SERVE),
    })
}

fn disk_text(disk: &CsDiskStatus) -> Vec<String> {
    let n = |label| disk.count(label);
    let pinned: Vec<String> = disk.pinned.iter().map(ToString::to_string).collect();
    // The router reports the disk's path and its pinned prefixes only to its managers.
    let is_manager = !disk.folder.is_empty();
    let folder = if is_manager { &disk.folder[..] } else { "(for managers of the router only)" };
    let mut lines = vec![
        format!("disk      {folder} ({})", disk.engine),
        format!(
            "stored    {} packets, {} of {}; index and filter {}",
            disk.records,
            octets_text(disk.octets),
            octets_text(disk.octets_max),
            octets_text(disk.memory_octets)
        ),
        format!("hits      {}{}", n("hits"), share_text(n("hits"), lookups(disk), "of misses in memory")),
        format!(
            "bypassed  {} not on disk, {} busy; {} writes skipped",
            n("bypassed_filter"),
            n("bypassed_reads"),
            n("bypassed_writes")
        ),
        format!("reads     {}, {} damaged, {} failed", n("disk_reads"), n("damaged"), n("read_errors")),
        format!(
            "written   {} packets, {} failed; {} evicted, {} reinserted as read or pinned",
            n("written"),
            n("write_errors"),
            n("evicted"),
            n("reinserted")
        ),
        format!("pending   {}, bypassed from {} on", disk.pending, disk.threshold),
        format!("admission {}", disk.admission),
        format!("order     {} (requests to the disk)", disk.queue),
    ];
    if is_manager {
        lines.push(format!("pinned    {}", if pinned.is_empty() { "-".into() } else { pinned.join(" ") }));
    }
    lines.extend(PATHS.iter().filter_map(|(path, labels)| time_text(disk, path, *labels)));
    if let Some(trouble) = &disk.trouble {
        lines.push(format!("trouble   {trouble}"));
    }
    lines
}

/// Paths through the store, and the labels of their times.
const PATHS: [(&str, [&str; 4]); 5] = [
    ("memory", ["time_memory", "time_memory_ns", "time_memory_ns_p50", "time_memory_ns_p99"]),
    ("disk request", ["time_issue", "time_issue_ns", "time_issue_ns_p50", "time_issue_ns_p99"]),
    ("disk", ["time_disk", "time_disk_ns", "time_disk_ns_p50", "time_disk_ns_p99"]),
    ("not on disk", ["time_absent", "time_absent_ns", "time_absent_ns_p50", "time_absent_ns_p99"]),
    ("disk busy", ["time_busy", "time_busy_ns", "time_busy_ns_p50", "time_busy_ns_p99"]),
];

/// Formats the times of one path, if any packet on that path was timed.
fn time_text(disk: &CsDiskStatus, path: &str, labels: [&str; 4]) -> Option<String> {
    let [count, sum, half, most] = labels.map(|label| disk.count(label));
    (count > 0).then(|| {
        format!(
            "time      {path}: mean {}, p50 up to {}, p99 up to {} ({count} timed)",
            two_digits(sum / count),
            two_digits(half),
            two_digits(most)
        )
    })
}

/// Formats a time with two digits, rounded up: quantiles are upper ends of buckets of a histogram.
fn two_digits(ns: u64) -> String {
    let mut unit_ns = 1;
    while ns.div_ceil(unit_ns) >= 100 {
        unit_ns *= 10;
    }
    let ns = ns.div_ceil(unit_ns).saturating_mul(unit_ns);
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{} ms", ns as f64 / 1e6),
        _ => format!("{} s", ns as f64 / 1e9),
    }
}

fn disk_json(disk: &CsDiskStatus) -> Value {
    let counters: serde_json::Map<_, _> =
        disk.counters.iter().map(|counter| (counter.label.clone(), counter.value.into())).collect();
    let pinned: Vec<String> = disk.pinned.iter().map(ToString::to_string).collect();
    json!({
        "folder": disk.folder, "engine": disk.engine, "trouble": disk.trouble, "records": disk.records,
        "octets": disk.octets, "octets_max": disk.octets_max, "memory_octets": disk.memory_octets,
        "hit_ratio": ratio(disk.count("hits"), lookups(disk)), "pending": disk.pending,
        "threshold": disk.threshold, "admission": disk.admission, "queue": disk.queue, "pinned": pinned,
        "counters": counters,
    })
}

/// Returns the number of Interests that reached the disk.
fn lookups(disk: &CsDiskStatus) -> u64 {
    let outcomes =
        ["hits", "misses", "bypassed_filter", "false_positives", "bypassed_reads", "refused_reads", "stale"];
    outcomes.iter().map(|label| disk.count(label)).sum()
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

fn share_text(part: u64, whole: u64, what: &str) -> String {
    ratio(part, whole).map_or_else(String::new, |ratio| format!(" ({:.1} % {what})", ratio * 100.0))
}

#[cfg(test)]
mod tests {
    use super::two_digits;

    #[test]
    fn quantiles_have_two_digits() {
        for (ns, text) in [
            (0, "0 ns"),
            (99, "99 ns"),
            (101, "110 ns"),
            (1_000, "1 us"),
            (786_432, "790 us"),
            (12_582_912, "13 ms"),
            (1_500_000, "1.5 ms"),
            (999_999_999, "1 s"),
            (2_345_000_000, "2.4 s"),
        ] {
            assert_eq!(two_digits(ns), text, "{ns}");
        }
    }
}
