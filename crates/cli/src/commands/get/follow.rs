//! `namely get --watch`: copies that follow their source.

use std::sync::atomic::Ordering;
use std::time::Duration;

use namely_files::get::{find_file, find_version};
use namely_wire::Name;

use super::retry::{growing, wait};
use super::{Destination, Get, Job, Session};
use crate::failure::{Exit, Failure};
use crate::fetching::get_failure;

/// Longest pause after failures, unless the interval itself is longer.
const PAUSE_MAX: Duration = Duration::from_secs(600);

/// The versions of the names. None: not known.
type Versions = Vec<Option<Name>>;

impl Get {
    /// Fetches the names, and again whenever one of them has a new version, until Ctrl-C.
    pub(super) fn follow(
        &self,
        session: &mut Session<'_>,
        jobs: &[Job],
        interval: Duration,
    ) -> Result<(), Failure> {
        if jobs.iter().any(|job| job.to == Destination::Stdout) {
            return Err(Failure::new(Exit::Usage, "standard output cannot follow new versions")
                .hint("name a file or a directory"));
        }
        let (mut seen, mut failures) = (None, 0);
        loop {
            match self.follow_once(session, jobs, seen.as_ref()) {
                Ok(versions) => (seen, failures) = (Some(versions), 0),
                Err(failure) if failure.exit == Exit::Interrupted => return Ok(()),
                Err(failure) => {
                    session.ctx.out.failure(&failure);
                    session.forget(None);
                    (seen, failures) = (None, failures + 1);
                }
            }
            if !wait(growing(interval, PAUSE_MAX.max(interval), failures), &session.stop) {
                return Ok(());
            }
        }
    }

    /// Fetches the names, unless they have the versions `seen`. Returns the present versions.
    fn follow_once(
        &self,
        session: &mut Session<'_>,
        jobs: &[Job],
        seen: Option<&Versions>,
    ) -> Result<Versions, Failure> {
        // They are requested before the fetch: a change during the fetch leads to another one.
        let versions = self.versions(session, jobs)?;
        let is_known =
            versions.iter().all(Option::is_some) && !session.is_version_partial.load(Ordering::Relaxed);
        if is_known && seen == Some(&versions) {
            return Ok(versions);
        }
        self.round(session, jobs)?;
        session.is_repeated = true;
        Ok(versions)
    }

    /// Requests the present versions of the names.
    fn versions(&self, session: &Session<'_>, jobs: &[Job]) -> Result<Versions, Failure> {
        let consumer = session.consumer(self)?;
        let version = |job: &Job| match self.recursive {
            true => find_version(&consumer, &job.name).map_err(get_failure),
            false => find_file(&consumer, &job.name).map(|file| Some(file.name)).map_err(get_failure),
        };
        jobs.iter().map(version).collect()
    }
}
