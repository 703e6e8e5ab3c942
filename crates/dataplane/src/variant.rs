//! Hooks for experiments with another design of disk access in an embedded router. `namelyd` has no
//! variant, and no configuration key selects one.

use std::fmt;
use std::time::Duration;

use namely_forwarder::{FaceId, Received};
use namely_tier::{Options, Tier};

use crate::Packet;

/// Another design of a router's disk access.
pub trait DiskVariant: fmt::Debug + Send + Sync {
    /// Changes the options of the store before it is opened.
    fn change(&self, options: &mut Options);

    /// Returns the part of the variant for one worker.
    fn worker(&self) -> Box<dyn WorkerVariant>;
}

/// The part of a [`DiskVariant`] for one worker.
pub trait WorkerVariant: fmt::Debug + Send {
    /// Returns true if the variant has a queue in front of the forwarder.
    fn has_queue(&self) -> bool;

    /// Puts a packet of `face` into the queue. Returns the packet if the worker should forward it
    /// at once.
    ///
    /// # Errors
    /// [`QueueFull`]: the packet is dropped.
    fn put(
        &mut self,
        face: FaceId,
        received: Received<Packet>,
    ) -> Result<Option<Received<Packet>>, QueueFull>;

    /// Takes the next packet of the queue.
    fn take(&mut self) -> Option<(FaceId, Received<Packet>)>;

    /// Returns the number of packets in the queue.
    fn len(&self) -> usize;

    /// Returns true if the queue is empty.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Called after the worker has passed a request to the disk.
    fn requested(&mut self, disk: &Tier);

    /// Returns true if the worker has waited for the disk since the last call.
    fn take_has_waited(&mut self) -> bool;

    /// Returns true if the disk counts as busy. With `None` the store decides.
    fn is_busy(&self, disk: &Tier) -> Option<bool>;

    /// Returns the delay from the end of a read to its report.
    fn report_delay(&self) -> Duration;
}

/// The queue in front of a worker has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

/// Maximum number of packets that a worker takes from the queue of a variant in one iteration. The
/// iteration ends earlier if the worker waits for the disk.
pub(super) const TAKEN_PER_ITERATION: usize = 64;
