//! `namely put`: standard input under a name.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Args;
use namely_files::put::MEMORY_OCTETS_MAX;
use namely_files::{Input, Put as Publication, PutOptions};
use namely_transport::connection::Options;
use namely_transport::publish::SEGMENT_OCTETS_DEFAULT;
use namely_transport::serve::register;
use namely_wire::Name;
use serde_json::json;

use super::Context;
use super::serve::SignBy;
use crate::failure::Failure;
use crate::keys;
use crate::output::octets_text;
use crate::router::{command_failure, open};
use crate::signing::serve_signed;

/// Publish standard input under a name.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  tar c results | namely put /lab/results.tar")]
pub struct Put {
    /// The name, without version: that is the time of publication, in ms.
    name: Name,
    /// Octets of content in each segment.
    #[arg(long, value_name = "OCTETS", default_value_t = SEGMENT_OCTETS_DEFAULT)]
    segment_size: usize,
    /// What vouches for segments: one signature for many through a manifest, or one for each
    /// packet.
    #[arg(long, value_enum, default_value = "manifest")]
    sign: SignBy,
    /// Stop after this many seconds.
    #[arg(long = "for", value_name = "SECONDS")]
    seconds: Option<u64>,
}

impl Put {
    /// Reads standard input to its end, then serves it until stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        let input = Input::read(&mut std::io::stdin().lock(), MEMORY_OCTETS_MAX, &std::env::temp_dir())
            .map_err(|e| Failure::failed(format!("cannot take in standard input: {e}")))?;
        let octets = input.octets();
        let signer = keys::data_signer_or_new(ctx, &self.name)?;
        let options = PutOptions {
            segment_octets: self.segment_size,
            signing: self.sign.into(),
            ..PutOptions::new(self.name.clone(), namely_host::clock::unix_ns() / 1_000_000)
        };
        let mut publication = Publication::new(input, options, signer.clone())
            .map_err(|e| Failure::failed(e.to_string()))?
            .with_certificates(keys::certificates_for(&self.name)?);
        let options = Options { signer: namely_client::default_signer(), ..Options::for_server() };
        let mut connection = open(ctx, options)?;
        register(&mut connection, &mut publication).map_err(command_failure)?;
        let object = publication.object().to_string();
        ctx.out.answer(
            || format!("{object}: {}; Ctrl-C stops", octets_text(octets)),
            || json!({"name": object, "octets": octets}),
        );
        let end = self.seconds.map(|s| Instant::now() + Duration::from_secs(s));
        let mut go_on = || !stop.load(Ordering::Relaxed) && end.is_none_or(|end| Instant::now() < end);
        serve_signed(ctx, &mut connection, &mut publication, (&signer, &self.name), &mut go_on)
    }
}
