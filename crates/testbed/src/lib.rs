//! Testbeds: networks of namespaces, links with a rate, an MTU, delay and loss, real routers and
//! programs, timed events, and a report (docs/testbed.md). The crate also holds code that tests and
//! measurements share: processes that are watched and always ended, and namespaces of their own.
//!
//! It never touches resources that it did not create: namespaces belong to this run, and signals
//! are sent only to processes that it started or that run in its namespaces.
#![forbid(unsafe_code)]

mod capture;
mod error;
pub mod file;
mod interrupt;
mod lab;
mod net;
mod network;
pub mod picture;
mod process;
pub mod procfs;
mod report;
mod run;
pub mod sandbox;
mod text;
pub mod wire;

pub use capture::{CAPTURE_OCTETS_MAX, Capture};
pub use error::{ProcessError, TestbedError};
pub use file::{FileError, Testbed};
pub use interrupt::Interrupt;
pub use lab::{DATASETS, Lab};
pub use net::Net;
pub use network::{Carrier, Device, devices};
pub use process::{Outcome, Process, command};
pub use report::{NodeReport, ProgramReport, Report};
pub use run::run;
