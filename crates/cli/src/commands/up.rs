//! `namely up`: the router, under the same options as `namelyd`.

use std::path::Path;

use clap::Args;
use namely_daemon::DaemonArgs;
use namely_wire::FaceUri;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure};

/// Start a router.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely up\n  namely up --listen-also udp://0.0.0.0:6363\n  namely up --no-config --listen unix:///tmp/a.sock --listen udp://127.0.0.1:6364\n  namely up --config namely.toml --check\n\nIt outlives its terminal: SIGHUP reads the configuration again, and `namely down` stops it. `systemctl --user enable --now namely` starts it at each login."
)]
pub struct Up {
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl Up {
    /// Runs the router until it is stopped.
    pub fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let mut daemon = self.daemon.clone();
        if let (None, level @ 1..) = (&daemon.log, ctx.global.verbose) {
            daemon.log = Some(["info", "debug", "trace"][usize::from(level.min(3)) - 1].into());
        }
        self.listen_where_clients_look(ctx, &mut daemon);
        if daemon.check {
            let checked = namely_daemon::check(&daemon).map_err(failure)?;
            let file = checked.file.map(|path| path.display().to_string());
            ctx.out.answer(
                || format!("configuration ok: {}", file.as_deref().unwrap_or("the default")),
                || json!({"ok": true, "file": file, "remarks": checked.remarks}),
            );
            checked.remarks.iter().for_each(|remark| ctx.out.remark(format!("note: {remark}")));
            return Ok(());
        }
        namely_daemon::run(&daemon).map_err(failure)
    }
}

impl Up {
    /// Makes the router listen on the Unix socket in `--router` or NAMELY_ROUTER, because all other
    /// commands connect to this socket. A configuration file or `--listen` takes precedence.
    fn listen_where_clients_look(&self, ctx: &Context<'_>, daemon: &mut DaemonArgs) {
        let named = ctx.global.router.as_deref().and_then(|uri| uri.parse::<FaceUri>().ok());
        let Some(FaceUri::Unix(path)) = named else { return };
        if daemon.config_file().is_some() || !daemon.listen.is_empty() {
            return;
        }
        let memif = namely_transport::memif_beside(Path::new(&path));
        let memif = FaceUri::Memif { path: memif.to_string_lossy().into_owned(), id: 0 };
        daemon.listen = vec![FaceUri::Unix(path), memif];
    }
}

/// Converts the router's failure, with the exit status of `namelyd`.
pub(super) fn failure(failure: namely_daemon::Failure) -> Failure {
    let exit = match failure.exit {
        namely_daemon::Exit::Failed => Exit::Failed,
        namely_daemon::Exit::CannotListen => Exit::CannotListen,
        namely_daemon::Exit::Configuration => Exit::Configuration,
    };
    Failure { hint: failure.hint, ..Failure::new(exit, failure.message) }
}
