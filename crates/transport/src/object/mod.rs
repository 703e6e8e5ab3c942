//! Reading a named object: find its newest version, fetch it, verify every octet, hand it over in order.
//!
//! Finding follows RDR (`<name>/32=metadata`); an object without metadata is found by its prefix. Verification is
//! by manifest where the producer has them, else packet by packet; certificates that the verifier lacks are
//! fetched by name. What has not been verified is never handed over.
//!
//! ```no_run
//! use namely_security::{TrustPolicy, Verifier};
//! use namely_transport::connection::{Connection, Options};
//! use namely_transport::object::{ReadOptions, Reader};
//!
//! let mut connection = Connection::find(None, Options::default())?;
//! let mut verifier = Verifier::new(TrustPolicy::hierarchical());
//! let mut reader = Reader::new(&mut connection, &mut verifier, ReadOptions::default());
//! let content = reader.read_to_vec("/example/list".parse().expect("a name"), 1 << 20)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod asking;
pub mod backlog;
mod checking;
mod error;
mod finder;
pub mod helpers;
mod layout;
mod progress;
mod pull;

use std::io;

use namely_security::{TrustReason, Verified, Verifier};
use namely_wire::rdr::Metadata;
use namely_wire::{InterestBuilder, Name, NameRef};

pub use self::asking::Asking;
pub use self::checking::{CORRUPT_MAX, Checked, Checking, OnBadSegment};
pub use self::error::ObjectError;
pub use self::finder::{Express, Finder};
pub use self::progress::{Flow, Progress};
use crate::connection::Connection;
use crate::fetch;

/// How objects are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadOptions {
    /// Window, limits, retransmission.
    pub fetch: fetch::Options,
    /// InterestLifetime, ms.
    pub lifetime_ms: u64,
    /// How often metadata and certificates are asked for.
    pub attempts: u32,
    /// Threads that verify one object, that of the reading included; 0: as many as [`helpers::threads_default`] says.
    pub verify_threads: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { fetch: fetch::Options::default(), lifetime_ms: 2_000, attempts: 3, verify_threads: 0 }
    }
}

/// What vouches for segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vouching {
    /// Manifests, one for each 240 segments.
    Manifests,
    /// Each segment's own signature.
    Segments,
}

/// An object that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The name under which its segments are; versioned, as a rule.
    pub name: Name,
    /// How many segments there are, if it is known.
    pub segments: Option<u64>,
    /// What vouches for them.
    pub vouching: Vouching,
    /// Its metadata, verified; none for an object without.
    pub metadata: Option<Metadata>,
    /// Why the metadata is believed.
    pub reason: Option<TrustReason>,
    /// The content of an object that is a single packet without segment number; verified.
    pub whole: Option<Verified>,
}

impl Object {
    /// Octets of the content, if it is known.
    pub fn octets(&self) -> Option<u64> {
        let whole = self.whole.as_ref().map(|data| data.content().len() as u64);
        whole.or_else(|| self.metadata.as_ref()?.size_octets)
    }
}

/// Segments of an object: all of it, from one on, or between two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The first segment that is wanted.
    pub first: u64,
    /// The number after that of the last one: what lies behind is not asked for. No end: [`u64::MAX`].
    pub end: u64,
}

impl Part {
    /// All segments from `first` on.
    pub fn from(first: u64) -> Self {
        Part { first, end: u64::MAX }
    }

    /// The number after that of the last segment, of an object that has `segments`, if it is known.
    fn end_of(self, segments: Option<u64>) -> Option<u64> {
        let bounded = (self.end < u64::MAX).then_some(self.end.max(self.first));
        segments.map_or(bounded, |segments| Some(segments.min(bounded.unwrap_or(segments))))
    }
}

/// Takes the content of an object: verified, in order, without gaps.
pub trait Sink {
    /// Segment `segment`. An error ends the reading.
    fn write(&mut self, segment: u64, data: &Verified<&[u8]>) -> io::Result<()>;
}

/// Reads objects over a connection, as far as a verifier believes them.
#[derive(Debug)]
pub struct Reader<'a> {
    connection: &'a mut Connection,
    verifier: &'a mut Verifier,
    options: ReadOptions,
}

impl<'a> Reader<'a> {
    /// A reader over `connection`.
    pub fn new(connection: &'a mut Connection, verifier: &'a mut Verifier, options: ReadOptions) -> Self {
        Reader { connection, verifier, options }
    }

    /// The options.
    pub fn options(&self) -> &ReadOptions {
        &self.options
    }

    /// Finds and reads a small object: at most `octets_max`.
    pub fn read_to_vec(&mut self, name: Name, octets_max: u64) -> Result<Vec<u8>, ObjectError> {
        let object = self.find(name.as_name())?;
        self.read_found_to_vec(&object, octets_max)
    }

    /// Reads a small object that was found: at most `octets_max`.
    pub fn read_found_to_vec(&mut self, object: &Object, octets_max: u64) -> Result<Vec<u8>, ObjectError> {
        let mut collected = Collected { octets: Vec::new(), octets_max };
        match self.read(object, 0, &mut collected, &mut |_| Flow::Continue) {
            Ok(_) => Ok(collected.octets),
            Err(ObjectError::Sink(_)) => {
                Err(ObjectError::TooLarge { object: object.name.clone(), octets_max })
            }
            Err(error) => Err(error),
        }
    }

    /// Finds `name`: its newest version if it names none; see [`Finder::find`].
    pub fn find(&mut self, name: NameRef<'_>) -> Result<Object, ObjectError> {
        self.finder().find(name)
    }

    /// Finds what answers to `name` as a prefix; see [`Finder::find_by_prefix`].
    pub fn find_by_prefix(&mut self, name: NameRef<'_>) -> Result<Object, ObjectError> {
        self.finder().find_by_prefix(name)
    }

    /// Asks for one packet, some times, and verifies it.
    pub fn packet(&mut self, interest: &InterestBuilder, name: NameRef<'_>) -> Result<Verified, ObjectError> {
        self.finder().packet(interest, name)
    }

    /// Verifies a packet, fetching the certificates that takes.
    pub fn verified(&mut self, wire: Vec<u8>) -> Result<Verified, ObjectError> {
        self.finder().verified(wire)
    }

    fn finder(&mut self) -> Finder<'_> {
        Finder::new(self.connection, self.verifier, self.options)
    }
}

struct Collected {
    octets: Vec<u8>,
    octets_max: u64,
}

impl Sink for Collected {
    fn write(&mut self, _: u64, data: &Verified<&[u8]>) -> io::Result<()> {
        if (self.octets.len() + data.content().len()) as u64 > self.octets_max {
            return Err(io::Error::from(io::ErrorKind::FileTooLarge));
        }
        self.octets.extend_from_slice(data.content());
        Ok(())
    }
}
