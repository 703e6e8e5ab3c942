//! Serves a directory by name, fetches files and trees, and publishes standard input.
//!
//! A file is read and written in parts. Only small files are held in memory as a whole: those of a
//! pack, and input of [`put`] up to [`put::MEMORY_OCTETS_MAX`]. A file receives its final name only
//! after its octets were verified. The protocol is described in `docs/files.md`.
//!
//! ```no_run
//! use namely_files::{GetOptions, get};
//! use namely_socket::{Consumer, ConsumerOptions, Flow};
//!
//! let name = "/lab/run7.root".parse().expect("a name");
//! let consumer = Consumer::bind("/lab".parse().expect("a name"), ConsumerOptions::default())?;
//! let target = std::path::Path::new("run7.root");
//! let got = get(&consumer, &name, target, GetOptions::default(), &mut |_| Flow::Continue)?;
//! println!("{}: {} octets", got.object, got.progress.octets);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod certificates;
mod content;
pub mod get;
mod group;
pub mod index;
mod pack;
mod published;
pub mod put;
mod root;
pub mod server;

pub use certificates::IssuedCertificate;
pub use get::{FetchedFile, GetError, GetOptions, ResumeSecret, get, get_object, get_to_writer, get_tree};
pub use put::{Input, Put, PutOptions};
pub use server::{FileServer, ServeCounters, ServeError, ServeOptions};
