//! `namely ls` and `namely stat`: the contents of a directory by name, and the properties of a
//! name.

mod roots;

use clap::Args;
use namely_files::GetError;
use namely_security::validity::UtcTime;
use namely_socket::{Consumer, ObjectInfo};
use namely_wire::rdr::{ListingEntry, listing, listing_name};
use namely_wire::{Component, DecodeError, Name};
use serde_json::{Value, json};

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::fetching::{Transfer, consumer_of_all, get_failure};
use crate::keys::Trust;
use crate::options::name;
use crate::output::{Cell, count_text, octets_text};

/// Entries of a directory whose sizes are fetched for `--json` without `--long`, each by a request.
///
/// # Limit
/// The sizes of a larger directory are null.
/// - Tests: `sizes_of_large_directories_need_an_option`
const SIZES_MAX: usize = 1000;

/// List a directory by name. `/` lists the prefixes that the router knows, with the programs and
/// neighbors behind them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  namely ls /
  namely ls /lab/data
  namely ls /lab/data --long
  namely ls -1 /lab/data | xargs namely get -o copy/")]
pub struct Ls {
    /// The directory's name.
    #[arg(value_parser = name)]
    name: Name,
    /// Also fetch the size and the time of each file. A file that its producer cannot read is
    /// marked as `unreadable`. With --json this is done for up to 1,000 files in any case.
    #[arg(long, short)]
    long: bool,
    /// Print only the whole names, one a line, as `get` takes them.
    #[arg(long, short = '1', conflicts_with = "long")]
    names: bool,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl Ls {
    /// Fetches the listing, verified, and prints it.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if self.name.is_empty() {
            return roots::list(ctx, self.names);
        }
        let consumer = consumer_of_all(ctx, &self.trust, &self.transfer)?;
        let info = stat(&consumer, &self.name)?;
        if !info.is_directory {
            return Err(Failure::new(Exit::NotFound, format!("{} is not a directory", self.name))
                .hint("`namely stat` shows its kind"));
        }
        let octets = consumer
            .fetch(&listing_name(self.name.as_name()))
            .map_err(|error| get_failure(GetError::Fetch(error)))?;
        let entries: Vec<_> = listing(&octets)
            .collect::<Result<_, DecodeError>>()
            .map_err(|e| Failure::failed(format!("the listing of {}: {e}", self.name)))?;
        if self.names {
            for entry in &entries {
                let name = self.name.join(Component::generic(entry.name)).to_string();
                ctx.out.answer(|| name.clone(), || json!(name));
            }
            return Ok(());
        }
        let has_sizes = has_sizes(self.long, ctx.out.is_json(), entries.len());
        let row = |entry: &ListingEntry<'_>| Row::new(&consumer, &self.name, entry, has_sizes);
        let rows = entries.iter().map(row).collect::<Result<Vec<_>, _>>()?;
        if ctx.out.is_json() {
            rows.iter().for_each(|row| ctx.out.json(&row.json()));
            return Ok(());
        }
        // The name is last: names may have 255 octets, and the other columns must be seen.
        let columns = ["kind", "octets", "changed", "name"];
        match self.long {
            true => ctx.out.table(&columns, &rows.iter().map(Row::cells).collect::<Vec<_>>()),
            false => {
                let cells: Vec<Vec<Cell>> =
                    rows.iter().map(|row| vec![row.kind.into(), row.named()]).collect();
                ctx.out.table(&["kind", "name"], &cells);
            }
        }
        Ok(())
    }
}

fn has_sizes(is_long: bool, is_json: bool, entries: usize) -> bool {
    is_long || (is_json && entries <= SIZES_MAX)
}

/// An entry of a directory.
struct Row {
    /// The name of the entry, as `namely get` accepts it.
    name: Name,
    /// Its last component, as a URI.
    uri: String,
    /// Its file name.
    original: String,
    kind: &'static str,
    octets: Option<u64>,
    changed: Option<String>,
}

impl Row {
    fn new(
        consumer: &Consumer,
        directory: &Name,
        entry: &ListingEntry<'_>,
        has_size: bool,
    ) -> Result<Self, Failure> {
        let component = Component::generic(entry.name);
        let mut row = Row {
            name: directory.join(component),
            uri: component.to_string(),
            original: String::from_utf8_lossy(entry.name).into_owned(),
            kind: if entry.is_directory { "directory" } else { "file" },
            octets: None,
            changed: None,
        };
        if !has_size || entry.is_directory {
            return Ok(row);
        }
        match stat(consumer, &row.name) {
            Ok(info) => {
                row.octets = info.octets;
                row.changed = info.mtime_ns.map(|ns| UtcTime(ns / 1_000_000_000).to_string());
            }
            // The producer may not read one file, or it was removed. The others are listed.
            Err(failure) if failure.exit == Exit::NotFound => row.kind = "unreadable",
            Err(failure) => return Err(failure),
        }
        Ok(row)
    }

    fn named(&self) -> Cell {
        Cell::Named { uri: self.uri.clone(), original: self.original.clone() }
    }

    fn cells(&self) -> Vec<Cell> {
        vec![self.kind.into(), self.octets.into(), self.changed.clone().into(), self.named()]
    }

    fn json(&self) -> Value {
        json!({
            "name": self.original, "uri": self.name.to_string(), "kind": self.kind, "octets": self.octets,
            "changed": self.changed,
        })
    }
}

/// Show the properties of a name.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely stat /lab/data/run7.root --json")]
pub struct Stat {
    /// The name.
    #[arg(value_parser = name)]
    name: Name,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl Stat {
    /// Fetches the description, verified, and prints it.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let consumer = consumer_of_all(ctx, &self.trust, &self.transfer)?;
        let info = stat(&consumer, &self.name)?;
        let kind = if info.is_directory { "directory" } else { "file" };
        let signer = info.signer.as_ref().map(ToString::to_string);
        let time = info.mtime_ns.map(|ns| UtcTime(ns / 1_000_000_000).to_string());
        let number = |n: Option<u64>| n.map_or("-".into(), |n| n.to_string());
        ctx.out.answer(
            || {
                let size = info.octets.map_or("-".into(), size_text);
                [
                    format!("name      {}", info.name),
                    format!("kind      {kind}"),
                    format!("size      {size}"),
                    format!("segments  {}", number(info.segments)),
                    format!("changed   {}", time.as_deref().unwrap_or("-")),
                    format!("signed by {}", signer.as_deref().unwrap_or("-")),
                ]
            },
            || {
                json!({
                    "name": info.name.to_string(), "kind": kind, "octets": info.octets,
                    "segments": info.segments, "mtime_ns": info.mtime_ns, "signer": signer,
                })
            },
        );
        Ok(())
    }
}

/// Formats a size: the octets, and a unit if there are more than a unit's.
fn size_text(octets: u64) -> String {
    let exact = count_text(octets, "octet");
    if octets < 1024 { exact } else { format!("{exact} ({})", octets_text(octets)) }
}

fn stat(consumer: &Consumer, name: &Name) -> Result<ObjectInfo, Failure> {
    consumer.stat(name).map_err(|error| get_failure(GetError::Fetch(error)))
}

#[cfg(test)]
mod tests {
    use super::{SIZES_MAX, has_sizes, size_text};

    #[test]
    fn sizes_of_large_directories_need_an_option() {
        assert!(has_sizes(false, true, SIZES_MAX) && !has_sizes(false, true, SIZES_MAX + 1));
        assert!(has_sizes(true, false, SIZES_MAX + 1) && !has_sizes(false, false, 1));
    }

    #[test]
    fn sizes_are_not_repeated() {
        assert_eq!([0, 1, 1023].map(size_text), ["0 octets", "1 octet", "1023 octets"]);
        assert_eq!(size_text(1536), "1536 octets (1.5 KiB)");
    }
}
