//! What the workers share: limits over all of them, a mailbox for each, and who gets a new face.

use std::sync::Arc;

use namely_host::closing::Closer;
use namely_host::shares::Holder;
use namely_wire::FaceUri;

use crate::ethernet::Links;
use crate::face_table::FaceTable;
use crate::limits::Limits;
use crate::mailbox::WorkerMailbox;
use crate::mapped::Mapped;
use crate::options::{DispatchedLinks, IoOptions};
use crate::reassembly::{LinkReader, ReassemblyShares};
use crate::udp::peers::Channels;
use crate::unproven::UnprovenAddresses;

/// Maximum number of workers: a bit for each in every port.
pub const WORKERS_MAX: usize = 64;

/// What all workers share. `M` is what their mailboxes carry, `P` a packet.
pub(crate) struct Shared<M, P> {
    pub(crate) options: IoOptions,
    pub(crate) dispatched: DispatchedLinks,
    pub(crate) mailboxes: Vec<Arc<WorkerMailbox<M>>>,
    pub(crate) limits: Arc<Limits>,
    /// Closes what came from peers of this machine.
    pub(crate) closer: Closer,
    /// Who has faces.
    pub(crate) faces: Arc<FaceTable<P>>,
    /// What shared-memory faces may have mapped.
    pub(crate) mapped: Arc<Mapped<P>>,
    /// What the incomplete messages of all faces take.
    reassembly: ReassemblyShares,
    /// What is sent to UDP addresses that may be forged.
    pub(crate) unproven: UnprovenAddresses,
    /// The UDP ports on which peers make themselves known.
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
            mapped: Mapped::new(&options.memif),
            reassembly: ReassemblyShares::new(options.reassembly_octets_total_max),
            unproven: UnprovenAddresses::new(options.unproven),
            options,
            dispatched,
            mailboxes,
            channels: Channels::default(),
            links: Links::default(),
        })
    }

    /// The receiving half of a new face's link service.
    pub(crate) fn new_reader(&self, holder: Holder) -> LinkReader {
        LinkReader::new(self.options.reassembly, self.reassembly.of(holder))
    }

    /// The workers that read what is not dispatched.
    fn ordinary(&self) -> &[Arc<WorkerMailbox<M>>] {
        match &self.mailboxes[..] {
            [_, others @ ..] if self.dispatched.own_worker && !others.is_empty() => others,
            all => all,
        }
    }

    /// The worker for a face with these ends: the one that reads the fewest, of those that may have
    /// it. `None` only where there is no worker.
    pub(crate) fn worker_for(&self, local: &FaceUri, remote: &FaceUri) -> Option<&Arc<WorkerMailbox<M>>> {
        if self.dispatched.own_worker && self.dispatched.has(local, remote) {
            return self.mailboxes.first();
        }
        self.ordinary().iter().min_by_key(|mailbox| mailbox.load())
    }

    /// The workers that read from a network device.
    pub(crate) fn readers_of(&self, device: &FaceUri) -> &[Arc<WorkerMailbox<M>>] {
        if self.dispatched.has(device, device) { &self.mailboxes[..1] } else { self.ordinary() }
    }
}
