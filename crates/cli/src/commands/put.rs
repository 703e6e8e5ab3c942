//! `namely put`: publishes a file or standard input under a name.

use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use namely_files::put::MEMORY_OCTETS_MAX;
use namely_files::{Input, Put as Publication, PutOptions};
use namely_transport::publish::SEGMENT_OCTETS_DEFAULT;
use namely_transport::serve::register;
use namely_wire::Name;
use serde_json::json;

use super::serve::SignBy;
use crate::context::Context;
use crate::failure::{Failure, io_failure};
use crate::keys::{self, PublisherKey};
use crate::output::octets_text;
use crate::router::{RouterWait, command_failure, remark_on_reach};
use crate::signing::serve_signed;

/// Publish a file or standard input under a name.
#[derive(Debug, Args)]
#[command(
    override_usage = "namely put [OPTIONS] [FILE] <NAME>",
    after_help = "Examples:\n  namely put results.csv /lab/results.csv\n  tar c results | namely put /lab/results.tar"
)]
pub struct Put {
    /// The file (by default standard input), and the name without version. The version is the time
    /// of publication, in ms.
    #[arg(value_name = "FILE> <NAME", num_args = 1..=2, required = true)]
    what: Vec<String>,
    /// Octets of content in each segment.
    #[arg(long, value_name = "OCTETS", default_value_t = SEGMENT_OCTETS_DEFAULT)]
    segment_size: usize,
    /// The signatures of segments: one for many segments through a manifest, or one for each
    /// packet.
    #[arg(long, value_enum, default_value = "manifest")]
    sign: SignBy,
    /// Stop after this many seconds.
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
    #[command(flatten)]
    waiting: RouterWait,
}

impl Put {
    /// Reads the file or standard input to its end, then serves the content until the command is
    /// stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let (file, name) = self.file_and_name()?;
        // Without a router, the command must not read the input or create a key.
        let Some(mut connection) = self.waiting.open(ctx, &mut || true)? else { return Ok(()) };
        let input = read(ctx, file)?;
        // The signals are handled only from here on, so that Ctrl-C ends a wait for the input.
        let stop = crate::stop::flag()?;
        let octets = input.octets();
        let key = PublisherKey::find_or_make(&name)?;
        let signer = key.signer.clone();
        let options = PutOptions {
            segment_octets: self.segment_size,
            signing: self.sign.into(),
            ..PutOptions::new(name.clone(), namely_host::clock::unix_ns() / 1_000_000)
        };
        let mut publication = Publication::new(input, options, signer.clone())
            .map_err(|e| key.take_back(Failure::failed(e.to_string())))?
            .with_certificates(keys::certificates_for(&name)?);
        connection.set_signer(namely_client::default_signer());
        let reach = register(&mut connection, &mut publication)
            .map_err(|error| key.take_back(command_failure(error)))?;
        key.announce(ctx);
        remark_on_reach(ctx, connection.uri(), &name, reach);
        let object = publication.object().to_string();
        ctx.out.answer(
            || format!("{object}: {}; Ctrl-C stops", octets_text(octets)),
            || json!({"name": object, "octets": octets}),
        );
        let end = self.seconds.map(|s| Instant::now() + Duration::from_secs(s));
        let mut go_on = || !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end);
        serve_signed(ctx, &mut connection, &mut publication, &signer, &name, &mut go_on)
    }

    /// Determines file and name from the arguments. With two arguments, the first is always a file,
    /// even if it has the form of a name.
    fn file_and_name(&self) -> Result<(Option<&Path>, Name), Failure> {
        let usage = |message: String| {
            Failure::failed(message).hint("write `namely put FILE /NAME`, or `namely put /NAME < FILE`")
        };
        let (file, name) = match &self.what[..] {
            [name] => (None, name),
            [file, name, ..] => (Some(Path::new(file)), name),
            [] => return Err(usage("there is no name".into())),
        };
        if !name.starts_with('/') {
            return Err(usage(format!("{name} is not a name: a name begins with a slash")));
        }
        let name: Name = name.parse().map_err(|error| usage(format!("{name}: {error}")))?;
        Ok((file, name))
    }
}

/// Reads the data to be published.
fn read(ctx: &Context<'_>, file: Option<&Path>) -> Result<Input, Failure> {
    let take = |source: &mut dyn Read, what: &str| {
        Input::read(&mut { source }, MEMORY_OCTETS_MAX, &std::env::temp_dir())
            .map_err(|e| Failure::failed(format!("cannot read {what}: {e}")))
    };
    if let Some(path) = file {
        let mut opened = File::open(path).map_err(|e| io_failure("open", path, e))?;
        return take(&mut opened, &path.display().to_string());
    }
    let mut stdin = std::io::stdin().lock();
    if stdin.is_terminal() {
        ctx.out.remark("type the content; Ctrl-D publishes it, Ctrl-C cancels");
    }
    take(&mut stdin, "standard input")
}
