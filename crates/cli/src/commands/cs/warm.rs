//! `namely cs warm`: fetches data into the router's content store before it is requested.

use clap::Args;
use namely_files::get::{FetchedTree, TreeEvent};
use namely_files::{GetError, GetOptions, get_to_writer, get_tree};
use namely_socket::{Consumer, Flow};
use namely_transport::object::Object;
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::Failure;
use crate::fetching::{
    Transfer, Watch, consumer_of_all, files_text, get_failure, summary_json, summary_text,
};
use crate::keys::Trust;
use crate::options::name;
use crate::output::octets_text;
use crate::router::connect;

/// Fetch a file, or a directory with its contents, into the router's content store. A directory is
/// written to a temporary folder (TMPDIR), which is removed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  namely cs warm /lab/data/run7.root\n  namely cs warm /lab/data --pin")]
pub struct Warm {
    /// The name.
    #[arg(value_parser = name)]
    name: Name,
    /// Pin it: the disk stores all of it and does not evict it.
    #[arg(long)]
    pin: bool,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    transfer: Transfer,
}

impl Warm {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if self.pin {
            connect(ctx)?.pin_cs(&self.name)?;
        }
        let consumer = consumer_of_all(ctx, &self.trust, &self.transfer)?;
        let watch = Watch::new(ctx, &self.name)?;
        let object = consumer.find(&self.name).map_err(|error| get_failure(GetError::Fetch(error)))?;
        match object.metadata.as_ref().is_some_and(|metadata| metadata.is_directory()) {
            true => self.tree(ctx, &consumer, watch),
            false => self.file(ctx, &consumer, watch, &object),
        }
    }

    fn file(
        &self,
        ctx: &Context<'_>,
        consumer: &Consumer,
        watch: Watch,
        object: &Object,
    ) -> Result<(), Failure> {
        let mut see = |progress: &_| watch.see("", progress);
        let got = get_to_writer(consumer, object, &mut std::io::sink(), &mut see).map_err(get_failure)?;
        drop(watch);
        ctx.out.answer(
            || format!("{}: {}", object.name, summary_text(&got)),
            || {
                let mut value = summary_json(&got);
                value["name"] = json!(object.name.to_string());
                value["pinned"] = json!(self.pin);
                value
            },
        );
        Ok(())
    }

    fn tree(&self, ctx: &Context<'_>, consumer: &Consumer, watch: Watch) -> Result<(), Failure> {
        let folder = tempfile::tempdir().map_err(|error| Failure::failed(format!("no folder: {error}")))?;
        let mut see = |event: TreeEvent<'_>| match event {
            TreeEvent::Progress(progress) => watch.see_tree(&progress),
            _ => Flow::Continue,
        };
        let got = get_tree(consumer, &self.name, folder.path(), GetOptions::default(), &mut see);
        drop(watch);
        let got = got.map_err(get_failure)?;
        ctx.out.answer(
            || {
                let octets = octets_text(got.octets);
                let directories = if got.directories == 1 { "directory" } else { "directories" };
                format!(
                    "{}: {} ({octets}) in {} {directories}",
                    self.name,
                    files_text(got.files),
                    got.directories
                )
            },
            || {
                json!({
                    "name": self.name.to_string(), "files": got.files, "octets": got.octets,
                    "directories": got.directories, "failed": got.failures, "pinned": self.pin,
                })
            },
        );
        complete(got)
    }
}

/// Returns an error if a part of a tree was not fetched.
fn complete(got: FetchedTree) -> Result<(), Failure> {
    let Some((name, error)) = got.failed.into_iter().next() else { return Ok(()) };
    let first = get_failure(error);
    Err(Failure::new(
        first.exit,
        format!("{} files were not fetched; the first, {name}: {first}", got.failures),
    )
    .hint("run the same command again to fetch the missing files"))
}
