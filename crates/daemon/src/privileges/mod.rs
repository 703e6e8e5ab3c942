//! What the router may do, and as whom. It is given up before the first thread is started, as the
//! system takes it from threads and not from processes: all that come have no more.
//!
//! Only the programs (`namelyd`, `namely up`) do so; a router in another program leaves that
//! program's rights alone. What the kernel lacks is done without, and said; what the configuration
//! turns off is said aloud.

mod calls;
mod files;
mod user;

use std::path::Path;

use crate::config::Config;
use crate::disk;
use crate::exit::{Exit, Failure};
use crate::router;
use crate::taken::TakenFile;

/// Gives up all that a router under `config`, which came from `config_file`, does not need. Returns
/// the file that it writes all the same.
///
/// # Errors
/// [`Failure`]: there is no such user, or the system refuses what it must not.
pub(crate) fn give_up(config: &Config, config_file: Option<&Path>) -> Result<Option<TakenFile>, Failure> {
    let chosen = user::choose(config.process.user.as_deref())?;
    router::make_default_directories(config, chosen.as_ref().map(|user| user.uid))?;
    disk::make_folder(&config.cs.disk, chosen.as_ref().map(|user| user.uid))?;
    let taken = TakenFile::open(config);
    if let Some(user) = &chosen {
        user.become_it(user::capabilities(config)).map_err(|errno| {
            Failure::new(Exit::Failed, format!("cannot run as user {}: {errno}", user.name))
                .hint("`user = \"root\"` under [process] stays root")
        })?;
        tracing::info!("runs as user {} (uid {})", user.name, user.uid);
    }
    // After the change of user, which resets it.
    if config.process.core_dumps || namely_host::core_dumps_are_wanted() {
        tracing::warn!("core dumps are on: a crash writes the router's memory, with its secrets, to a file");
    } else if !namely_host::keep_from_dumps() {
        tracing::warn!("the system does not turn core dumps off");
    }
    // So that no program could bring back what is given up. Both below need it.
    if let Err(errno) = rustix::thread::set_no_new_privs(true) {
        return Err(Failure::new(Exit::Failed, format!("the system does not take privileges away: {errno}")));
    }
    if config.process.confine_files {
        files::confine(config, config_file);
    } else {
        tracing::warn!("process.confine_files is off: the router may open any file of its user");
    }
    if config.process.confine_calls {
        calls::confine(config);
    } else {
        tracing::warn!("process.confine_calls is off: the router may make any system call");
    }
    Ok(taken)
}
