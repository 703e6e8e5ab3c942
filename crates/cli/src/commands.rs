//! One module per command: its arguments and its implementation.

pub mod bind;
pub mod cat;
pub mod catalogue;
pub mod cert;
pub mod channel;
pub mod complete;
pub mod config;
pub mod cs;
#[cfg(feature = "dashboard")]
pub mod dashboard;
pub mod demo;
#[cfg(feature = "dissect")]
pub mod dissect;
pub mod down;
pub mod face;
#[cfg(feature = "generate")]
pub mod generate;
pub mod get;
pub mod kernel;
pub mod key;
pub mod ls;
#[cfg(feature = "generate")]
pub mod man;
pub mod migrate;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "mount")]
pub mod mount;
pub mod neighbors;
pub mod peek;
pub mod perf;
pub mod ping;
pub mod pingserver;
pub mod poke;
#[cfg(feature = "proxy")]
pub mod proxy;
pub mod put;
pub mod route;
pub mod serve;
pub mod status;
pub mod strategy;
#[cfg(feature = "testbed")]
pub mod testbed;
#[cfg(feature = "top")]
pub mod top;
pub mod trace;
pub mod up;
pub mod vip;
pub mod wait;
pub mod why;
pub mod words;

use crate::args::{Cli, Command};
use crate::context::Context;
use crate::failure::Failure;
use crate::output::Output;

impl Command {
    /// Returns the target of the command's access log, if the command logs each request.
    pub fn access_log(&self) -> Option<&'static str> {
        match self {
            #[cfg(feature = "proxy")]
            Command::Proxy(proxy) if proxy.logs_access() => Some(namely_proxy::ACCESS),
            _ => None,
        }
    }
}

/// Runs the command that `cli` names.
pub fn run(cli: &Cli, out: &Output) -> Result<(), Failure> {
    let ctx = Context { global: &cli.global, out };
    match &cli.command {
        Command::Demo(c) => c.run(&ctx),
        Command::Up(c) => c.run(&ctx),
        Command::Down(c) => c.run(&ctx),
        Command::Config(c) => c.run(&ctx),
        Command::Serve(c) => c.run(&ctx),
        Command::Get(c) => c.run(&ctx),
        Command::Cat(c) => c.run(&ctx),
        Command::Ls(c) => c.run(&ctx),
        Command::Stat(c) => c.run(&ctx),
        #[cfg(feature = "mount")]
        Command::Mount(c) => c.run(&ctx),
        Command::Put(c) => c.run(&ctx),
        #[cfg(feature = "proxy")]
        Command::Proxy(c) => c.run(&ctx),
        Command::Ping(c) => c.run(&ctx),
        Command::Pingserver(c) => c.run(&ctx),
        Command::Perf(c) => c.run(&ctx),
        Command::Peek(c) => c.run(&ctx),
        Command::Poke(c) => c.run(&ctx),
        Command::Status(c) => c.run(&ctx),
        #[cfg(feature = "top")]
        Command::Top(c) => c.run(&ctx),
        #[cfg(feature = "dashboard")]
        Command::Dashboard(c) => c.run(&ctx),
        Command::Face(c) => c.run(&ctx),
        Command::Channel(c) => c.run(&ctx),
        Command::Wait(c) => c.run(&ctx),
        Command::Why(c) => c.run(&ctx),
        Command::Trace(c) => c.run(&ctx),
        Command::Complete(c) => c.run(&ctx),
        Command::Neighbors(c) => c.run(&ctx),
        Command::Route(c) => c.run(&ctx),
        Command::Bind(c) => c.run(&ctx),
        Command::Strategy(c) => c.run(&ctx),
        Command::Cs(c) => c.run(&ctx),
        Command::Kernel(c) => c.run(&ctx),
        Command::Key(c) => c.run(&ctx),
        Command::Cert(c) => c.run(&ctx),
        #[cfg(feature = "dissect")]
        Command::Dissect(c) => c.run(&ctx),
        #[cfg(feature = "testbed")]
        Command::Testbed(c) => c.run(&ctx),
        Command::Migrate(c) => c.run(&ctx),
        Command::Words(c) => c.run(&ctx),
        #[cfg(feature = "model")]
        Command::Model(c) => c.run(&ctx),
        Command::Catalogue(c) => c.run(&ctx),
        Command::Vip(c) => c.run(&ctx),
        Command::Version => {
            let version = env!("CARGO_PKG_VERSION");
            out.answer(|| format!("namely {version}"), || serde_json::json!({"version": version}));
            Ok(())
        }
        #[cfg(feature = "generate")]
        Command::Completions(c) => c.run(&ctx),
        #[cfg(feature = "generate")]
        Command::Man(c) => c.run(&ctx),
    }
}
