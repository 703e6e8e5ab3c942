//! The measurements of a run, and their summaries.

use serde_json::{Value, json};

use super::options::{Carrier, Row, Window};
use crate::report::align;
use crate::stats::{Summary, summarise};

/// Measurements of one run of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub(super) goodput_mbps: f64,
    /// Seconds of CPU per GiB: of the producer, its router, the consumer's router, and the
    /// consumer. A link with one router, or none, has fewer values.
    pub(super) cpu_s_per_gib: [Option<f64>; 4],
    /// Interests that the consumer retransmitted, and its timeouts without any packet.
    pub(super) retransmissions: Option<f64>,
    pub(super) timeouts: Option<f64>,
    /// Data with a congestion mark.
    pub(super) marks: Option<f64>,
    /// Frames and packets dropped by routers at their faces.
    pub(super) dropped: Option<f64>,
    /// Datagrams for which the kernel had no buffer, and segments that its TCP retransmitted.
    pub(super) kernel_lost: f64,
    pub(super) tcp_retransmitted: f64,
}

/// The runs of one row.
#[derive(Debug)]
pub(super) struct Runs {
    pub(super) row: Row,
    pub(super) measured: Vec<Figures>,
    pub(super) failed: u32,
}

/// A column: its key in JSON, its heading, digits after the point, and its value.
struct Column(&'static str, &'static str, usize, fn(&Figures) -> Option<f64>);

const GOODPUT: Column = Column("goodput_mbps", "Mbit/s", 0, |f| Some(f.goodput_mbps));

const COLUMNS: [Column; 11] = [
    GOODPUT,
    Column("cpu_s_per_gib_producer", "CPU s/GiB: producer", 2, |f| f.cpu_s_per_gib[0]),
    Column("cpu_s_per_gib_producers_router", "its router", 2, |f| f.cpu_s_per_gib[1]),
    Column("cpu_s_per_gib_consumers_router", "consumer's router", 2, |f| f.cpu_s_per_gib[2]),
    Column("cpu_s_per_gib_consumer", "consumer", 2, |f| f.cpu_s_per_gib[3]),
    Column("retransmissions", "asked again", 0, |f| f.retransmissions),
    Column("timeouts", "timeouts", 0, |f| f.timeouts),
    Column("marks", "marks", 0, |f| f.marks),
    Column("dropped", "dropped by routers", 0, |f| f.dropped),
    Column("kernel_lost", "no buffer", 0, |f| Some(f.kernel_lost)),
    Column("tcp_retransmitted", "TCP again", 0, |f| Some(f.tcp_retransmitted)),
];

impl Runs {
    pub(super) fn of(row: Row) -> Self {
        Runs { row, measured: Vec::new(), failed: 0 }
    }

    fn summary(&self, column: &Column) -> Option<Summary> {
        summarise(&self.measured.iter().filter_map(column.3).collect::<Vec<_>>())
    }

    fn goodput(&self) -> Option<f64> {
        self.summary(&GOODPUT).map(|summary| summary.median)
    }

    fn cells(&self) -> Vec<String> {
        let mtu = self.row.mtu.map_or("-".to_owned(), |mtu| mtu.to_string());
        let window = if self.row.link.has_names() { self.row.window.to_string() } else { "-".to_owned() };
        let mut cells = vec![self.row.link.name().to_owned(), mtu, window];
        cells.extend(COLUMNS.iter().enumerate().map(|(n, column)| match self.summary(column) {
            None => "-".to_owned(),
            Some(Summary { median, min, max, runs }) if n == 0 && runs > 1 => {
                format!("{median:.0} ({min:.0}-{max:.0})")
            }
            Some(Summary { median, .. }) => format!("{median:.*}", column.2),
        }));
        cells.push(format!("{} of {}", self.failed, self.measured.len() + self.failed as usize));
        cells
    }

    /// Returns the row as JSON.
    pub(super) fn value(&self, octets: u64) -> Value {
        let mut value = json!({
            "link": self.row.link.name(), "mtu": self.row.mtu, "window": self.row.window.to_string(),
            "octets": octets, "runs": self.measured.len(), "failed": self.failed,
        });
        for column in &COLUMNS {
            value[column.0] = self
                .summary(column)
                .map(|s| json!({"median": s.median, "min": s.min, "max": s.max}))
                .unwrap_or_default();
        }
        value
    }
}

/// Returns the table and the comparison with the targets.
pub(super) fn table(all: &[Runs]) -> String {
    let mut heading = ["link", "MTU", "window"].map(str::to_owned).to_vec();
    heading.extend(COLUMNS.iter().map(|column| column.1.to_owned()));
    heading.push("failed".to_owned());
    let mut rows = vec![heading];
    rows.extend(all.iter().map(Runs::cells));
    let mut text = align(&rows);
    for line in ratios(all) {
        text += &format!("\n{line}");
    }
    text
}

fn ratios(all: &[Runs]) -> Vec<String> {
    let mut lines = Vec::new();
    let find = |row: Row| all.iter().find(|runs| runs.row == row).and_then(Runs::goodput);
    for runs in all.iter().filter(|runs| runs.row.window == Window::Default) {
        let Some(own) = runs.goodput() else { continue };
        let to_what: &[Carrier] = match runs.row.link {
            Carrier::Udp | Carrier::Ether => &[Carrier::Tcp],
            Carrier::Tcp => &[Carrier::KernelTcp],
            Carrier::KernelTcp | Carrier::Unix => &[],
        };
        for link in to_what {
            if let Some(other) = find(Row { link: *link, ..runs.row }) {
                lines.push(format!("{}: {:.2} times {}", runs.row, own / other, link.name()));
            }
        }
        let fixed = all.iter().filter(|other| {
            let Row { mtu, link, window } = other.row;
            (mtu, link) == (runs.row.mtu, runs.row.link) && window != Window::Default
        });
        let best = fixed.filter_map(|other| Some((other.goodput()?, other.row.window)));
        if let Some((best, window)) = best.max_by(|a, b| a.0.total_cmp(&b.0)) {
            let row = &runs.row;
            lines.push(format!("{row}: {:.2} of the best fixed window, {window}", own / best));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(link: Carrier, window: Window, goodputs: &[f64]) -> Runs {
        let measured =
            goodputs.iter().map(|goodput| Figures { goodput_mbps: *goodput, ..Figures::default() });
        Runs { measured: measured.collect(), ..Runs::of(Row { mtu: Some(1500), link, window }) }
    }

    #[test]
    fn link_rows_compare_tcp_and_windows() {
        let all = [
            runs(Carrier::Tcp, Window::Default, &[2000.0]),
            runs(Carrier::Udp, Window::Default, &[900.0, 1000.0, 1700.0]),
            runs(Carrier::Udp, Window::Fixed(32), &[800.0]),
            runs(Carrier::Udp, Window::Fixed(64), &[1250.0]),
        ];
        let expected = ["udp, MTU 1500: 0.50 times tcp", "udp, MTU 1500: 0.80 of the best fixed window, 64"];
        assert_eq!(ratios(&all), expected);
        let text = table(&all);
        assert!(text.contains("1000 (900-1700)") && text.ends_with(expected[1]), "{text}");
    }

    #[test]
    fn a_failed_link_row_has_no_figures() {
        let failed = Runs { failed: 2, ..runs(Carrier::Udp, Window::Default, &[]) };
        assert_eq!(failed.cells().last().map(String::as_str), Some("2 of 2"));
        assert!(failed.value(1)["goodput_mbps"].is_null());
        assert!(ratios(&[failed]).is_empty());
    }
}
