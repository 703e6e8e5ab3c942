//! The router as a library: configuration and control of a data plane (`namely-dataplane`).
//!
//! `namelyd` calls [`run`]; another program embeds a [`Router`].
#![deny(unsafe_code)]

mod accepted_commands;
mod args;
mod awaited;
pub mod config;
mod confinement;
mod control;
mod discovery;
mod disk;
mod exit;
mod home;
mod kernel;
mod key;
mod log;
mod metrics;
mod preflight;
mod privileges;
mod router;
mod run;
mod services;
mod settings;
mod socket_folders;
mod systemd;
mod threads;
#[cfg_attr(not(feature = "vip"), path = "vip/absent.rs")]
mod vip;

pub use args::{CommandLine, DaemonArgs, command};
pub use config::{parse_name, parse_octets};
pub use exit::{Exit, Failure};
pub use preflight::Checked;
pub use router::Router;
pub use run::{check, command_line, run};
pub use settings::{Setting, settings};
