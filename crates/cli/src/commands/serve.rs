//! `namely serve`: publishes a directory under a name.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use clap::{Args, ValueEnum};
use namely_files::{FileServer, ServeOptions};
use namely_security::ManifestHash;
use namely_transport::publish::{SEGMENT_OCTETS_DEFAULT, Signing};
use namely_transport::serve::register;
use namely_wire::Name;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Failure, io_failure};
use crate::keys::{self, PublisherKey};
use crate::options::name;
use crate::router::{RouterWait, command_failure, remark_on_reach};
use crate::signing::serve_signed;

/// Publish a directory under a name.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  namely serve ./data --prefix /lab/data\n\nIt ends with its terminal. `systemctl --user enable --now namely-serve@data` serves at each login, as DIRECTORY= and PREFIX= in ~/.config/namely/serve/data.conf set."
)]
pub struct Serve {
    /// The directory.
    dir: PathBuf,
    /// The directory's name in the network.
    #[arg(long, short, value_name = "NAME", value_parser = name)]
    prefix: Name,
    /// Octets of content in each segment.
    #[arg(long, value_name = "OCTETS", default_value_t = SEGMENT_OCTETS_DEFAULT)]
    segment_size: usize,
    /// The signatures of segments: one for many segments through a manifest, or one for each
    /// packet.
    #[arg(long, value_enum, default_value = "manifest")]
    sign: SignBy,
    /// Let symbolic links lead out of the directory.
    #[arg(long)]
    follow_links: bool,
    /// Announce the name to routers that learn their routes (docs/strategies.md).
    #[arg(long)]
    announce: bool,
    #[command(flatten)]
    waiting: RouterWait,
}

/// The signatures of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SignBy {
    /// One signature for 240 segments, which carry SHA-256 digests that every NDN client can check.
    Manifest,
    /// The same with BLAKE3 digests, for processors without SHA instructions; only namely's clients
    /// can check segments.
    ManifestBlake3,
    /// A signature on each segment.
    Packet,
}

impl From<SignBy> for Signing {
    fn from(by: SignBy) -> Signing {
        match by {
            SignBy::Manifest => Signing::Manifest(ManifestHash::Sha256),
            SignBy::ManifestBlake3 => Signing::Manifest(ManifestHash::Blake3),
            SignBy::Packet => Signing::PerPacket,
        }
    }
}

impl Serve {
    /// Serves until the command is stopped. If the connection to the router is lost, the command
    /// waits for the router.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let stop = crate::stop::flag()?;
        // The directory is checked first, so that a mistyped one creates no key.
        std::fs::read_dir(&self.dir).map_err(|e| {
            let hint = "name a directory that can be read; `namely put FILE NAME` publishes one file";
            io_failure("serve", &self.dir, e).hint(hint)
        })?;
        // Without a router, the command must not create a key.
        let mut waits_on = || !stop.load(Ordering::Relaxed);
        let Some(mut connection) = self.waiting.open(ctx, &mut waits_on)? else { return Ok(()) };
        let key = PublisherKey::find_or_make(&self.prefix)?;
        let signer = key.signer.clone();
        let options = ServeOptions {
            segment_octets: self.segment_size,
            signing: self.sign.into(),
            links_lead_out: self.follow_links,
            versions: keys::versions_folder(),
            ..ServeOptions::new(self.prefix.clone())
        };
        let mut server = FileServer::new(&self.dir, options, signer.clone())
            .map_err(|e| key.take_back(Failure::failed(e.to_string())))?
            .with_certificates(keys::certificates_for(&self.prefix)?);
        if self.announce {
            server = server.with_announcements();
        }
        // The default signer is read again, because the key may be new.
        connection.set_signer(namely_client::default_signer());
        let reach =
            register(&mut connection, &mut server).map_err(|error| key.take_back(command_failure(error)))?;
        key.announce(ctx);
        remark_on_reach(ctx, connection.uri(), &self.prefix, reach);
        ctx.out.remark(format!(
            "serving {} as {} at {}; Ctrl-C stops",
            self.dir.display(),
            self.prefix,
            connection.uri()
        ));
        let go_on = &mut || !stop.load(Ordering::Relaxed);
        serve_signed(ctx, &mut connection, &mut server, &signer, &self.prefix, go_on)?;
        let c = server.counters();
        ctx.out.answer(
            || format!("{} Interests, {} segments ({} octets) sent", c.interests, c.segments, c.octets),
            || {
                json!({
                    "prefix": self.prefix.to_string(), "interests": c.interests, "segments": c.segments,
                    "octets": c.octets, "manifests": c.manifests, "metadata": c.metadata,
                    "not_found": c.not_found, "gone": c.gone, "refused_paths": c.refused_paths,
                    "refused_ranges": c.refused_ranges,
                    "read_errors": c.read_errors, "source_missing": c.source_missing,
                })
            },
        );
        Ok(())
    }
}
