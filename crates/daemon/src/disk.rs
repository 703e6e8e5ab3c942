//! The content store's disk: its folder or device, and its management. The workers' requests to it
//! are in `namely_dataplane`.

use std::io;
use std::path::Path;
use std::sync::Arc;

use namely_dataplane as dataplane;
use namely_host::disk::{Folder, Writers};
use namely_messages::{Counter, CsDiskStatus};
use namely_mgmt::CsDiskChange;
use namely_security::sha256;
use namely_tier::{Status, Tier, TierError, is_device};
use namely_wire::NameRef;
use parking_lot::Mutex;

use crate::config::{Admission, CsDisk, Queue, check_budget};
use crate::exit::{Exit, Failure};

/// The content store's disk.
#[derive(Debug)]
pub(crate) struct Disk {
    shared: Arc<dataplane::Disk>,
    folder: String,
    queue: Mutex<Queue>,
}

impl Disk {
    /// Opens the disk of `config`; `None` if it has none.
    ///
    /// # Errors
    /// [`Failure`]: the folder belongs to another router, user or version, or is not writable.
    pub(crate) fn open(config: &CsDisk) -> Result<Option<Arc<Self>>, Failure> {
        let Some(folder) = &config.folder else { return Ok(None) };
        make_folder(config, None)?;
        let tier = Tier::open(folder, &config.options()).map_err(|error| refused(folder, error))?;
        let Status { records, octets, engine, .. } = tier.status();
        // Absolute, because clients may have another working directory.
        let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.clone()).display().to_string();
        tracing::info!(folder, records, octets, engine, "the content store has a disk");
        Ok(Some(Arc::new(Disk {
            shared: Arc::new(dataplane::Disk::new(tier, config.variant.0.clone())),
            folder,
            queue: Mutex::new(config.queue),
        })))
    }

    /// The part that workers share.
    pub(crate) fn shared(&self) -> &Arc<dataplane::Disk> {
        &self.shared
    }

    /// The store on it.
    pub(crate) fn tier(&self) -> &Tier {
        self.shared.tier()
    }

    /// Applies the changes of a reload.
    pub(crate) fn apply(&self, config: &CsDisk) {
        self.tier().set_admission(config.admission.to_tier());
        self.set_queue(config.queue);
        self.tier().set_pending_threshold(config.threshold);
        self.tier().set_octets_max(config.budget());
    }

    /// Writes all pending data and closes the disk. No requests may follow.
    pub(crate) fn close(self: Arc<Self>) {
        let closed =
            Arc::into_inner(self).and_then(|disk| Arc::into_inner(disk.shared)).map(dataplane::Disk::close);
        if let Some(Err(error)) = closed {
            tracing::warn!("the content store's disk: {error}");
        }
    }

    fn set_queue(&self, queue: Queue) {
        *self.queue.lock() = queue;
        self.tier().set_fairness(queue.fairness());
    }
}

fn refused(folder: &Path, error: TierError) -> Failure {
    let exit = match error {
        TierError::InUse(_) | TierError::Busy(_) | TierError::NoSpace(_) | TierError::Io(..) => Exit::Failed,
        _ => Exit::Configuration,
    };
    let failure = Failure::new(exit, format!("cs.disk: {error}"));
    match error {
        TierError::UntrustedFile { .. } => {
            failure.hint(format!("namely cs format --force {}", folder.display()))
        }
        TierError::ReadOnly(_) if is_device(folder) => failure.hint(DEVICE_HINT),
        _ => failure,
    }
}

/// The advice for a router without the right to open a device.
const DEVICE_HINT: &str =
    "for a device: give it to the router's user by a rule of udev (docs/content-store.md, On a device)";

/// Makes the disk's folder if it does not exist. It is owned by `uid` if the router will change to
/// that user.
///
/// # Errors
/// [`Failure`]: the folder cannot be made.
pub(crate) fn make_folder(config: &CsDisk, uid: Option<u32>) -> Result<(), Failure> {
    let Some(folder) = &config.folder else { return Ok(()) };
    if folder.exists() {
        return Ok(());
    }
    if folder.starts_with("/dev") && !folder.starts_with("/dev/shm") {
        let failure = format!("cs.disk: there is no device {}", folder.display());
        return Err(Failure::new(Exit::Configuration, failure).hint("`lsblk` lists the devices"));
    }
    make_owned(folder, uid).map_err(|error| cannot_make(folder, &error.to_string()))
}

/// Makes the folder and changes its owner to `uid`. The opened folder is checked first, so that
/// root never changes the owner of a folder that has replaced it.
fn make_owned(folder: &Path, uid: Option<u32>) -> io::Result<()> {
    let name = folder.file_name().ok_or(io::ErrorKind::AlreadyExists)?;
    let above = Folder::open(folder.parent().unwrap_or(Path::new("")))?;
    above.make_folder(name, 0o700)?;
    let Some(uid) = uid else { return Ok(()) };
    let made = above.below(Path::new(name))?;
    Writers::this_user().check_folder(&made.stat()?)?;
    Ok(rustix::fs::fchown(&made, Some(rustix::process::Uid::from_raw(uid)), None)?)
}

fn cannot_make(folder: &Path, why: &str) -> Failure {
    Failure::new(Exit::Configuration, format!("cs.disk: cannot create {}: {why}", folder.display()))
        .hint("create it by hand for the router's user, or name another with --cs-disk DIR")
}

impl namely_mgmt::CsDisk for Disk {
    fn status(&self) -> CsDiskStatus {
        let status = self.tier().status();
        CsDiskStatus {
            folder: self.folder.clone(),
            engine: status.engine.to_owned(),
            admission: Admission::of(status.admission).to_string(),
            queue: self.queue.lock().to_string(),
            threshold: status.pending_threshold,
            pending: status.pending + self.shared.waiting(),
            octets_max: status.octets_max,
            octets: status.octets,
            records: status.records,
            memory_octets: status.index_octets,
            pinned: self.tier().pinned(),
            counters: counters(&status).into_iter().chain(self.shared.times().counters()).collect(),
            trouble: status.fault,
        }
    }

    fn configure(&self, change: &CsDiskChange) -> Result<(), String> {
        let octets_max = change.octets_max.map(check_budget).transpose()?;
        let admission: Option<Admission> = change.admission.as_deref().map(str::parse).transpose()?;
        let queue: Option<Queue> = change.queue.as_deref().map(str::parse).transpose()?;
        if let Some(octets) = octets_max {
            self.tier().set_octets_max(octets);
        }
        if let Some(admission) = admission {
            self.tier().set_admission(admission.to_tier());
        }
        if let Some(threshold) = change.threshold {
            self.tier().set_pending_threshold(usize::try_from(threshold).unwrap_or(usize::MAX));
        }
        if let Some(queue) = queue {
            self.set_queue(queue);
        }
        Ok(())
    }

    fn erase(&self, prefix: NameRef<'_>) -> Result<(), String> {
        self.tier().erase(prefix).map_err(|error| error.to_string())
    }

    fn erase_exact(&self, full_name: NameRef<'_>) -> Result<(), String> {
        self.tier().erase_exact(full_name, sha256).map_err(|error| error.to_string())
    }

    fn pin(&self, prefix: NameRef<'_>) -> Result<(), String> {
        self.tier().pin(prefix).map_err(|error| error.to_string())
    }

    fn unpin(&self, prefix: NameRef<'_>) -> bool {
        self.tier().unpin(prefix)
    }
}

/// The counters of the disk that docs/counters.md lists.
pub(crate) fn counters(status: &Status) -> Vec<Counter> {
    let of = &status.counters;
    [
        ("hits", of.hits),
        ("hits_memory", of.hits_memory),
        ("misses", of.misses),
        ("bypassed_filter", of.bypassed_filter),
        ("false_positives", of.false_positives),
        ("bypassed_reads", of.bypassed_reads),
        ("bypassed_writes", of.bypassed_writes),
        ("refused_reads", of.refused_reads),
        ("stale", of.stale),
        ("written", of.written),
        ("written_octets", of.written_octets),
        ("known", of.known),
        ("no_room", of.no_room),
        ("resting", of.resting),
        ("evicted", of.evicted),
        ("reinserted", of.reinserted),
        ("erased", of.erased),
        ("damaged", of.damaged),
        ("collisions", of.collisions),
        ("read_errors", of.read_errors),
        ("write_errors", of.write_errors),
        ("disk_reads", of.disk_reads),
        ("read_octets", of.read_octets),
        ("read_ns", status.read_ns),
        ("disk_writes", of.disk_writes),
        ("read_ahead", of.read_ahead),
        ("syncs", of.syncs),
    ]
    .map(|(label, value)| Counter::new(label, value))
    .to_vec()
}
