//! `namely ls` and `namely stat`: the contents of a directory by name, and the properties of a
//! name.

use clap::Args;
use namely_files::GetError;
use namely_security::validity::UtcTime;
use namely_socket::{Consumer, ObjectInfo};
use namely_wire::Name;
use namely_wire::rdr::{listing, listing_name};
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};
use crate::fetching::{Transfer, consumer_of_all, get_failure};
use crate::keys::Trust;
use crate::options::name;
use crate::output::{Cell, octets_text};

/// List a directory by name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely ls /lab/data\n  namely ls /lab/data --long")]
pub struct Ls {
    /// The directory's name.
    #[arg(value_parser = name)]
    name: Name,
    /// Also fetch the size and the time of each file.
    #[arg(long, short)]
    long: bool,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl Ls {
    /// Fetches the listing, verified, and prints it.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let consumer = consumer_of_all(ctx, &self.trust, &self.transfer)?;
        let info = stat(&consumer, &self.name)?;
        if !info.is_directory {
            return Err(Failure::new(Exit::NotFound, format!("{} is not a directory", self.name))
                .hint("`namely stat` shows its kind"));
        }
        let octets = consumer
            .fetch(&listing_name(self.name.as_name()))
            .map_err(|error| get_failure(GetError::Fetch(error)))?;
        let mut rows = Vec::new();
        for entry in listing(&octets) {
            let entry = entry.map_err(|e| Failure::failed(format!("the listing of {}: {e}", self.name)))?;
            let component = namely_wire::Component::generic(entry.name);
            let name = self.name.join(component);
            let original = String::from_utf8_lossy(entry.name).into_owned();
            let kind = if entry.is_directory { "directory" } else { "file" };
            let of_file = self.long && !entry.is_directory;
            let info = if of_file { Some(stat(&consumer, &name)?) } else { None };
            let octets = info.as_ref().and_then(|info| info.octets);
            let time = info.and_then(|info| info.mtime_ns).map(|ns| UtcTime(ns / 1_000_000_000).to_string());
            rows.push(vec![
                Cell::Named { uri: component.to_string(), original },
                kind.into(),
                octets.into(),
                time.map_or(Cell::None, |time| time.into()),
            ]);
        }
        let columns = ["name", "kind", "octets", "changed"];
        match self.long {
            true => ctx.out.table(&columns, &rows),
            false => {
                rows.iter_mut().for_each(|row| row.truncate(2));
                ctx.out.table(&columns[..2], &rows);
            }
        }
        Ok(())
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
                let size = info.octets.map_or("-".into(), |n| format!("{n} octets ({})", octets_text(n)));
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

fn stat(consumer: &Consumer, name: &Name) -> Result<ObjectInfo, Failure> {
    consumer.stat(name).map_err(|error| get_failure(GetError::Fetch(error)))
}
