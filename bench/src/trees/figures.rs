//! Measurements of copies.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use super::contender::Contender;
use crate::error::Error;
use crate::stats::{Summary, summarise};

/// The timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A copy into an empty directory.
    Copy,
    /// A copy when everything is there already.
    Again,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Copy => "copy",
            Kind::Again => "again",
        }
    }
}

/// Measurements of one copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    pub(super) wall_s: f64,
    pub(super) client_cpu_s: f64,
    pub(super) server_cpu_s: f64,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    /// The file system.
    pub(super) system: String,
    pub(super) kind: Kind,
    pub(super) contender: &'static str,
}

#[derive(Debug, Default)]
pub(super) struct Rows(BTreeMap<Row, Runs>);

#[derive(Debug, Default)]
struct Runs {
    measured: Vec<Figures>,
    /// System calls of the client and of the servers.
    calls: Option<[u64; 2]>,
}

impl Runs {
    fn summary(&self, value: fn(&Figures) -> f64) -> Option<Summary> {
        summarise(&self.measured.iter().map(value).collect::<Vec<_>>())
    }

    fn wall(&self) -> Option<Summary> {
        self.summary(|f| f.wall_s)
    }

    fn cpu(&self) -> [Option<Summary>; 2] {
        [self.summary(|f| f.client_cpu_s), self.summary(|f| f.server_cpu_s)]
    }
}

impl Rows {
    pub(super) fn add(&mut self, row: Row, figures: Figures) {
        self.0.entry(row).or_default().measured.push(figures);
    }

    pub(super) fn count(&mut self, row: Row, calls: [u64; 2]) {
        self.0.entry(row).or_default().calls = Some(calls);
    }

    pub(super) fn table(&self, files: u32) -> Vec<Vec<String>> {
        let heading = [
            "file system",
            "what",
            "who",
            "s",
            "CPU s: client",
            "servers",
            "calls a file: client",
            "servers",
        ];
        let mut rows = vec![heading.map(str::to_owned).to_vec()];
        for (row, runs) in &self.0 {
            let wall = runs.wall().map(|s| match s.runs {
                1 => format!("{:.2}", s.median),
                _ => format!("{:.2} ({:.2}-{:.2})", s.median, s.min, s.max),
            });
            let mut cells =
                [row.system.clone(), row.kind.name().to_owned(), row.contender.to_owned()].to_vec();
            cells.push(wall.unwrap_or_else(|| "-".to_owned()));
            cells.extend(runs.cpu().map(|s| s.map_or("-".to_owned(), |s| format!("{:.2}", s.median))));
            let calls = runs.calls.map(|calls| calls.map(|n| n as f64 / f64::from(files)));
            cells.extend(
                calls.map_or(["-", "-"].map(str::to_owned), |calls| calls.map(|n| format!("{n:.1}"))),
            );
            rows.push(cells);
        }
        rows
    }

    /// Returns the ratio of namely's time to rsync's.
    pub(super) fn ratios(&self) -> Vec<String> {
        let of_namely = self.0.iter().filter(|(row, _)| row.contender == Contender::Namely.name());
        let line = |(row, runs): (&Row, &Runs)| {
            let other = self.0.get(&Row { contender: Contender::Rsync.name(), ..row.clone() })?;
            let ratio = runs.wall()?.median / other.wall()?.median;
            Some(format!("{}, {}: {ratio:.2} times the time of rsync", row.system, row.kind.name()))
        };
        of_namely.filter_map(line).collect()
    }

    /// Returns the rows as JSON.
    pub(super) fn values(&self, files: u32, octets: u32) -> Vec<Value> {
        let summary = |s: Option<Summary>| s.map(|s| json!({"median": s.median, "min": s.min, "max": s.max}));
        let value = |(row, runs): (&Row, &Runs)| {
            let [client, servers] = runs.cpu().map(summary);
            json!({
                "file_system": row.system, "what": row.kind.name(), "who": row.contender, "files": files,
                "octets": octets, "runs": runs.measured.len(), "wall_s": summary(runs.wall()),
                "client_cpu_s": client, "server_cpu_s": servers,
                "client_calls": runs.calls.map(|c| c[0]), "server_calls": runs.calls.map(|c| c[1]),
            })
        };
        self.0.iter().map(value).collect()
    }
}

/// Returns the kind of a directory's file system; a number if it has no name here (statfs(2)).
pub(super) fn file_system(dir: &Path) -> Result<String, Error> {
    let found = rustix::fs::statfs(dir)
        .map_err(|e| Error::environment(format!("cannot look at the file system of {}", dir.display()), e))?;
    Ok(match found.f_type as u64 {
        0x0102_1994 => "tmpfs".to_owned(),
        0xEF53 => "ext4".to_owned(),
        0x9123_683E => "btrfs".to_owned(),
        0x5846_5342 => "xfs".to_owned(),
        0x794C_7630 => "overlay".to_owned(),
        other => format!("{other:#x}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(walls: &[(&'static str, f64)]) -> Rows {
        let mut rows = Rows::default();
        for (contender, wall_s) in walls {
            let row = Row { system: "tmpfs".into(), kind: Kind::Copy, contender };
            rows.add(row, Figures { wall_s: *wall_s, client_cpu_s: 0.5, server_cpu_s: 0.25 });
        }
        rows
    }

    #[test]
    fn the_ratio_compares_two_medians() {
        let both = rows(&[("namely", 1.0), ("namely", 2.0), ("namely", 9.0), ("rsync", 4.0)]);
        assert_eq!(both.ratios(), ["tmpfs, copy: 0.50 times the time of rsync"]);
        assert!(rows(&[("namely", 1.0)]).ratios().is_empty());
    }

    #[test]
    fn table_calls_are_per_file() {
        let mut one = rows(&[("namely", 1.0)]);
        one.count(Row { system: "tmpfs".into(), kind: Kind::Copy, contender: "namely" }, [1000, 250]);
        let table = one.table(200);
        assert_eq!(table[1][3..], ["1.00", "0.50", "0.25", "5.0", "1.2"].map(str::to_owned));
        assert_eq!(one.values(200, 10)[0]["server_calls"], 250);
    }
}
