//! The state that the fetches of one command share.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use namely_files::ResumeSecret;
use namely_files::get::{Checksums, Jobs};
use namely_security::ContentDigest;
use namely_socket::Consumer;
use namely_wire::Name;

use super::Get;
use crate::context::Context;
use crate::failure::Failure;
use crate::fetching::{TotalPart, consumer_of_all};
use crate::keys;

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
#[derive(Clone)]
pub(super) struct Session<'a> {
    pub(super) ctx: &'a Context<'a>,
    /// None before the first fetch, and after a failure.
    consumer: Arc<Mutex<Option<Arc<Consumer>>>>,
    /// Set by Ctrl-C.
    pub(super) stop: Arc<AtomicBool>,
    /// The secret of the journals of partial files, read once: its first use makes it.
    pub(super) secret: Option<ResumeSecret>,
    /// The names that are fetched at once.
    pub(super) jobs: Arc<Jobs>,
    /// The part of the name in the progress of several names that are fetched at once.
    pub(super) part: Option<TotalPart>,
    /// The list of `--checksum`, and its path.
    checksums: Option<Arc<(PathBuf, Checksums)>>,
    /// Whether a fetch to standard output ends with a line about it on standard error.
    pub(super) is_summarized: bool,
    /// Whether an earlier round has reported its results.
    pub(super) is_repeated: bool,
    /// Whether the version of a fetched directory does not cover all that is in it.
    pub(super) is_version_partial: Arc<AtomicBool>,
}

impl<'a> Session<'a> {
    pub(super) fn new(ctx: &'a Context<'a>, jobs: Option<usize>) -> Result<Self, Failure> {
        Ok(Session {
            ctx,
            consumer: Arc::default(),
            stop: crate::stop::flag()?,
            secret: keys::resume_secret(),
            jobs: Arc::new(Jobs::new(jobs)),
            part: None,
            checksums: None,
            is_summarized: true,
            is_repeated: false,
            is_version_partial: Arc::default(),
        })
    }

    /// Returns the session of one of several names, with an output of its own.
    pub(super) fn of_name<'b>(&self, ctx: &'b Context<'b>, part: Option<TotalPart>) -> Session<'b>
    where
        'a: 'b,
    {
        Session { ctx, part, ..self.clone() }
    }

    /// Returns the socket of the fetches.
    pub(super) fn consumer(&self, get: &Get) -> Result<Arc<Consumer>, Failure> {
        let mut held = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let consumer = match held.take() {
            Some(consumer) => consumer,
            None => {
                let consumer = consumer_of_all(self.ctx, &get.trust, &get.transfer)?;
                // No other thread uses it yet. The first fetch reports that the router is gone.
                let _ = consumer.request_origins();
                Arc::new(consumer)
            }
        };
        Ok(held.insert(consumer).clone())
    }

    /// Makes the next fetch connect anew, unless another one has done so since `failed`.
    pub(super) fn forget(&self, failed: Option<&Arc<Consumer>>) {
        let mut held = self.consumer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_failed = |held: &Arc<Consumer>| failed.is_none_or(|failed| Arc::ptr_eq(held, failed));
        held.take_if(|held| is_failed(held));
    }

    /// Returns true if Ctrl-C ends the command.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
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
        self.checksums = Some(Arc::new((path.to_owned(), list)));
        Ok(())
    }

    /// The list of checksums.
    pub(super) fn checksums(&self) -> Option<&Checksums> {
        self.checksums.as_ref().map(|checksums| &checksums.1)
    }

    /// Returns the digest of the file `name`; none without a list.
    pub(super) fn digest_of(&self, name: &Name) -> Result<Option<ContentDigest>, Failure> {
        let Some((path, list)) = self.checksums.as_deref() else { return Ok(None) };
        let digest = list.of_name(name).ok_or_else(|| {
            Failure::failed(format!("{} has no checksum of {name}", path.display()))
                .hint("a path in the list must end the name: add a line, or leave out --checksum")
        })?;
        Ok(Some(digest))
    }
}
