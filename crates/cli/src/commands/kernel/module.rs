//! `namely kernel load` and `unload`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use namely_nnet::module;
use rustix::io::Errno;
use serde_json::json;

use crate::context::Context;
use crate::failure::{Exit, Failure, io_failure};

/// Maximum time to wait until the module can be unloaded. The kernel removes closed sockets and
/// deleted network namespaces with a delay.
const UNLOAD_WAIT: Duration = Duration::from_secs(3);

/// Load the module.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  namely kernel load\n  namely kernel load cs_packets_max=65536 pit_entries_max=65536\n  namely kernel load --module target/kernel/6.1.0-56-cloud-amd64/nnet.ko"
)]
pub struct Load {
    /// The module's file. By default that of the running kernel below /lib/modules, else the output
    /// of kernel/build below this folder, else the module that modprobe finds.
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// The module's parameters (docs/kernel.md), as cs_packets_max=65536.
    #[arg(value_name = "NAME=VALUE", value_parser = parameter)]
    parameters: Vec<String>,
}

fn parameter(text: &str) -> Result<String, String> {
    let is_name = |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    let is_value = |value: &str| !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric());
    match text.split_once('=') {
        Some((name, value)) if is_name(name) && is_value(value) => Ok(text.to_owned()),
        _ => Err("write NAME=VALUE, as cs_packets_max=65536".into()),
    }
}

impl Load {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        if module::is_loaded() {
            if !self.parameters.is_empty() {
                return Err(Failure::new(
                    Exit::Refused,
                    "the module is loaded already, perhaps with other parameters",
                )
                .hint("unload it first with `namely kernel unload`"));
            }
            report(ctx, None, true);
            return Ok(());
        }
        let parameters = self.parameters.join(" ");
        let file = self.module.clone().or_else(|| module::places().into_iter().find(|file| file.exists()));
        match &file {
            Some(file) => load(file, &parameters)?,
            None => modprobe(&self.parameters)?,
        }
        report(ctx, file.as_deref(), false);
        Ok(())
    }
}

fn report(ctx: &Context<'_>, file: Option<&Path>, existed: bool) {
    let family = module::family();
    let from = file.map(|file| file.display().to_string());
    ctx.out.answer(
        || match &from {
            Some(file) => format!("the kernel's forwarder is loaded from {file}"),
            None if existed => "the kernel's forwarder was loaded already".into(),
            None => "the kernel's forwarder is loaded".into(),
        },
        || json!({"loaded": true, "existed": existed, "file": from, "family": family}),
    );
}

fn load(file: &Path, parameters: &str) -> Result<(), Failure> {
    module::load(file, parameters).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::PERM) => not_permitted(),
        Some(Errno::NOEXEC) => Failure::failed(format!(
            "{} is not a module for the running kernel, Linux {}",
            file.display(),
            module::release()
        ))
        .hint("build it for that with kernel/build (docs/kernel.md)"),
        Some(Errno::INVAL) => Failure::failed("the module refuses these parameters")
            .hint("docs/kernel.md lists them; `dmesg` may have the reason"),
        _ => io_failure("load", file, error),
    })
}

fn modprobe(parameters: &[String]) -> Result<(), Failure> {
    let done = Command::new("modprobe").arg("nnet").args(parameters).output();
    if done.is_ok_and(|output| output.status.success()) {
        return Ok(());
    }
    Err(Failure::failed(format!("there is no module for the running kernel, Linux {}", module::release()))
        .hint("build it with kernel/build (docs/kernel.md), and name it with --module if you are elsewhere"))
}

fn not_permitted() -> Failure {
    Failure::new(Exit::Refused, "loading and unloading a module needs CAP_SYS_MODULE")
        .hint("run it as root, and not in a container")
}

/// Unload the module.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  namely kernel unload")]
pub struct Unload {}

impl Unload {
    pub(super) fn run(&self, ctx: &Context<'_>) -> Result<(), Failure> {
        let end = Instant::now() + UNLOAD_WAIT;
        loop {
            match module::unload() {
                Ok(()) => break,
                Err(Errno::AGAIN | Errno::BUSY) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(Errno::AGAIN | Errno::BUSY) => {
                    return Err(Failure::new(Exit::Refused, "the kernel's forwarder is in use").hint(
                        "end the programs with sockets: see `namely kernel face list` in each namespace",
                    ));
                }
                Err(Errno::PERM) => return Err(not_permitted()),
                Err(Errno::NOENT) => {
                    return Err(Failure::new(Exit::NotFound, "the kernel's forwarder is not loaded"));
                }
                Err(errno) => return Err(Failure::failed(format!("cannot unload the module: {errno}"))),
            }
        }
        ctx.out.answer(|| "the kernel's forwarder is unloaded", || json!({"loaded": false}));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_parameter_is_one_assignment() {
        for text in ["family=18", "cs_packets_max=65536", "planted=Y"] {
            assert!(parameter(text).is_ok(), "{text}");
        }
        for text in ["family", "=1", "family=", "family=1 planted=1", "Family=1", "a=b=c", ""] {
            assert!(parameter(text).is_err(), "{text}");
        }
    }
}
