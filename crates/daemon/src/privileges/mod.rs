//! Gives up the rights of the process. This must happen before the first thread starts, because the
//! system restricts threads, not processes. Later threads inherit the restrictions.
//!
//! Only the programs (`namelyd`, `namely up`) do this; a router in another program leaves that
//! program's rights unchanged. Missing features of the kernel are skipped and logged; disabled
//! restrictions are logged as warnings.

mod calls;
mod files;
mod user;

use std::path::Path;

use crate::accepted_commands::AcceptedCommandsFile;
use crate::config::Config;
use crate::disk;
use crate::exit::Failure;
use crate::socket_folders;

/// The user that a router with `config` runs as, if this process's user starts it.
///
/// # Errors
/// [`Failure`]: there is no such user.
pub(crate) fn uid(config: &Config) -> Result<u32, Failure> {
    let chosen = user::choose(config.process.user.as_deref())?;
    Ok(chosen.map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid))
}

/// Gives up all rights that a router with `config`, read from `config_file`, does not need. Returns
/// the one file that it still writes.
///
/// # Errors
/// [`Failure`]: there is no such user, or the system refuses a required step.
pub(crate) fn give_up(
    config: &Config,
    config_file: Option<&Path>,
) -> Result<Option<AcceptedCommandsFile>, Failure> {
    let chosen = user::choose(config.process.user.as_deref())?;
    socket_folders::prepare_all(config, chosen.as_ref().map(|user| user.uid))?;
    disk::make_folder(&config.cs.disk, chosen.as_ref().map(|user| user.uid))?;
    let taken = AcceptedCommandsFile::open(config);
    if let Some(user) = &chosen {
        user.become_it(user::capabilities(config)).map_err(|errno| {
            Failure::failed(format!("cannot run as user {}: {errno}", user.name))
                .hint("`user = \"root\"` under [process] stays root")
        })?;
        tracing::info!(user = %user.name, uid = user.uid, "the router runs as another user");
    }
    // Must follow the change of user, which resets it.
    if config.process.core_dumps || namely_host::core_dumps_enabled() {
        tracing::warn!("core dumps are on: a crash writes the router's memory, with its secrets, to a file");
    } else if !namely_host::keep_from_dumps() {
        tracing::warn!("the system does not turn core dumps off");
    }
    // Prevents programs from regaining rights. Both filters below require it.
    if let Err(errno) = rustix::thread::set_no_new_privs(true) {
        return Err(Failure::failed(format!("the system does not drop privileges: {errno}")));
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
