//! The state that the workers share: limits over all of them, their mailboxes, and the assignment
//! of new faces.

use std::sync::Arc;

use namely_host::closing::Closer;
use namely_host::shares::Owner;
use namely_wire::FaceUri;

use crate::ethernet::Links;
use crate::face_table::FaceTable;
use crate::limits::Limits;
use crate::mailbox::WorkerMailbox;
use crate::mapped::MappedMemory;
use crate::options::{DispatchedLinks, IoOptions};
use crate::reassembly::{LinkReader, ReassemblyShares};
use crate::udp::peers::Channels;
use crate::unproven::UnprovenAddresses;

/// Workers of a router.
///
/// Every port has a bit for each of them.
///
/// # Limit
/// The configuration is refused.
/// - Value: one for each core, at most 64
/// - Setting: `faces.workers`
/// - Tests: `invalid_arguments_report_the_allowed_values`, `flags_override_the_file`
pub const WORKERS_MAX: usize = 64;

/// The state that all workers share. `M` is the type of messages in their mailboxes, and `P` that
/// of packets.
pub(crate) struct Shared<M, P> {
    pub(crate) options: IoOptions,
    pub(crate) dispatched: DispatchedLinks,
    pub(crate) mailboxes: Vec<Arc<WorkerMailbox<M>>>,
    pub(crate) limits: Arc<Limits>,
    /// Closes descriptors that peers on this machine pass.
    pub(crate) closer: Closer,
    /// The admission of faces.
    pub(crate) faces: Arc<FaceTable<P>>,
    /// The accounting of shared memory.
    pub(crate) mapped: Arc<MappedMemory<P>>,
    /// The memory of the incomplete messages of all faces.
    reassembly: ReassemblyShares,
    /// The limits on sending to UDP addresses that may be forged.
    pub(crate) unproven: UnprovenAddresses,
    /// The UDP ports with listeners.
    pub(crate) channels: Channels<P>,
    /// The network devices in use.
    pub(crate) links: Links<P>,
}

impl<M, P> Shared<M, P> {
    pub(crate) fn new(
        options: IoOptions,
        dispatched: DispatchedLinks,
        mailboxes: Vec<Arc<WorkerMailbox<M>>>,
    ) -> Arc<Self> {
        Arc::new(Shared {
            limits: Arc::new(Limits::new(&options)),
            closer: Closer::default(),
            faces: FaceTable::new(&options),
            mapped: MappedMemory::new(&options.memif),
            reassembly: ReassemblyShares::new(options.reassembly_octets_total_max),
            unproven: UnprovenAddresses::new(options.unproven),
            options,
            dispatched,
            mailboxes,
            channels: Channels::default(),
            links: Links::default(),
        })
    }

    /// Makes the receiving half of a new face's link service.
    pub(crate) fn new_reader(&self, holder: Owner) -> LinkReader {
        LinkReader::new(self.options.reassembly, self.reassembly.of(holder))
    }

    /// Returns the workers that read links which are not dispatched.
    fn ordinary(&self) -> &[Arc<WorkerMailbox<M>>] {
        match &self.mailboxes[..] {
            [_, others @ ..] if self.dispatched.own_worker && !others.is_empty() => others,
            all => all,
        }
    }

    /// Returns the worker for a face with these ends. Of the eligible workers it is the one that
    /// reads the fewest faces. Returns `None` only if there is no worker.
    pub(crate) fn worker_for(&self, local: &FaceUri, remote: &FaceUri) -> Option<&Arc<WorkerMailbox<M>>> {
        if self.dispatched.own_worker && self.dispatched.has(local, remote) {
            return self.mailboxes.first();
        }
        self.ordinary().iter().min_by_key(|mailbox| mailbox.load())
    }

    /// Returns the workers that read a network device.
    pub(crate) fn readers_of(&self, device: &FaceUri) -> &[Arc<WorkerMailbox<M>>] {
        // One worker reads a dispatched device, so that its frames stay in order.
        if self.dispatched.has(device, device) { &self.mailboxes[..1] } else { self.ordinary() }
    }
}
