//! Testbeds: networks of namespaces with links of a rate, an MTU, delay and loss, real routers and
//! programs in them, events at their times, and what came of it (docs/testbed.md). Also what tests
//! and measurements share: processes that are watched and always end, and namespaces of their own.
//!
//! Never touches what it did not make: namespaces are this run's own, and signals go only to
//! processes that it started or that run in its namespaces.
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
