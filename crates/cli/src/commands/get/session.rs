//! The state that the fetches of one command share.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use namely_files::get::Checksums;
use namely_security::ContentDigest;
use namely_socket::Consumer;
use namely_wire::Name;

use super::Get;
use crate::context::Context;
use crate::failure::Failure;
use crate::fetching::consumer_of_all;

/// Files and octets that were fetched.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fetched {
    pub(super) files: u64,
    pub(super) octets: u64,
}

impl Fetched {
    pub(super) fn add(&mut self, other: Fetched) {
        self.files += other.files;
        self.octets += other.octets;
    }
}

/// The state that the fetches of one command share.
pub(super) struct Session<'a> {
    pub(super) ctx: &'a Context<'a>,
    /// None before the first fetch, and after a failure.
    pub(super) consumer: Option<Rc<Consumer>>,
    /// Set by Ctrl-C.
    pub(super) stop: Arc<AtomicBool>,
    /// The list of `--checksum`, and its path.
    checksums: Option<(PathBuf, Checksums)>,
    /// Whether a fetch to standard output ends with a line about it on standard error.
    pub(super) is_summarized: bool,
    /// Whether an earlier round has reported its results.
    pub(super) is_repeated: bool,
    /// Whether the version of a fetched directory does not cover all that is in it.
    pub(super) is_version_partial: Cell<bool>,
}

impl<'a> Session<'a> {
    pub(super) fn new(ctx: &'a Context<'a>) -> Result<Self, Failure> {
        Ok(Session {
            ctx,
            consumer: None,
            stop: crate::stop::flag()?,
            checksums: None,
            is_summarized: true,
            is_repeated: false,
            is_version_partial: Cell::new(false),
        })
    }

    /// Returns the socket of the fetches.
    pub(super) fn consumer(&mut self, get: &Get) -> Result<Rc<Consumer>, Failure> {
        let consumer = match self.consumer.take() {
            Some(consumer) => consumer,
            None => Rc::new(consumer_of_all(self.ctx, &get.trust, &get.transfer)?),
        };
        Ok(self.consumer.insert(consumer).clone())
    }

    /// Reads the list of checksums, which may have changed since the last round.
    pub(super) fn read_checksums(&mut self, path: Option<&Path>) -> Result<(), Failure> {
        let Some(path) = path else { return Ok(()) };
        let list = Checksums::read(path).map_err(|error| {
            let failure = Failure::failed(format!("the checksums {}: {error}", path.display()));
            match error.hint() {
                Some(hint) => failure.hint(hint),
                None => failure,
            }
        })?;
        self.checksums = Some((path.to_owned(), list));
        Ok(())
    }

    /// The list of checksums.
    pub(super) fn checksums(&self) -> Option<&Checksums> {
        self.checksums.as_ref().map(|(_, list)| list)
    }

    /// Returns the digest of the file `name`; none without a list.
    pub(super) fn digest_of(&self, name: &Name) -> Result<Option<ContentDigest>, Failure> {
        let Some((path, list)) = &self.checksums else { return Ok(None) };
        let digest = list.of_name(name).ok_or_else(|| {
            Failure::failed(format!("{} has no checksum of {name}", path.display()))
                .hint("a path in the list must end the name: add a line, or leave out --checksum")
        })?;
        Ok(Some(digest))
    }
}
