//! Files by name: a directory served, a file or a tree fetched, standard input published.
//!
//! This crate never holds a whole file in memory, and never leaves anything under a final file name
//! that was not verified. The protocol is described in `docs/files.md`.
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

pub use certificates::Vouched;
pub use get::{GetError, GetOptions, Got, ResumeSecret, get, get_object, get_to_writer, get_tree};
pub use put::{Input, Put, PutOptions};
pub use server::{FileServer, ServeCounters, ServeError, ServeOptions};
