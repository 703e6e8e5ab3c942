//! The state of the virtual plane for management: a copy, so that readers do not wait for the
//! plane.

use std::sync::Arc;

use namely_discovery::Key;
use namely_host::clock;
use namely_messages::{Counter, VipNeighbour, VipObject, VipStatus};
use namely_vip::{NOWHERE, NeighbourStatus};
use parking_lot::Mutex;

use super::RefusalCounts;
use super::catalogue::LoadedCatalogue;
use super::plane::VipState;
use crate::config::Trust;
use namely_dataplane::VipInbox;

/// Slots planned for memory alone because the disk rests or failed since the previous slot.
const DISK_LEFT_OUT: &str = "disk_left_out";

/// Messages dropped because too many of their neighbor wait.
const QUEUE_FULL: &str = "queue_full";

/// Packets that came from a face of no neighbor, and Nacks.
const OTHER_FACE: &str = "other_face";

/// The last state that the thread of VIP published.
#[derive(Clone)]
pub(crate) struct View {
    snapshot: Arc<Mutex<VipSnapshot>>,
    key: Key,
    inbox: Arc<VipInbox>,
}

struct VipSnapshot {
    status: VipStatus,
    loaded: Arc<LoadedCatalogue>,
    rows: Vec<Row>,
    neighbours: Vec<(VipNeighbour, NeighbourStatus, RefusalCounts)>,
}

/// The variable state of an object.
struct Row {
    block: u32,
    count: u64,
    score: u64,
    requested: u64,
    held: u64,
    tier: u8,
    is_source: bool,
    face: Option<u64>,
}

impl View {
    pub(super) fn new(machine: &VipState, key: Key, inbox: Arc<VipInbox>) -> Self {
        let refused = vec![RefusalCounts::default(); machine.faces.len()];
        View { snapshot: Arc::new(Mutex::new(VipSnapshot::of(machine, &refused))), key, inbox }
    }

    /// Publishes a new state.
    pub(super) fn show(&self, machine: &VipState, refused: &[RefusalCounts]) {
        let snapshot = VipSnapshot::of(machine, refused);
        *self.snapshot.lock() = snapshot;
    }
}

impl VipSnapshot {
    fn of(machine: &VipState, refused: &[RefusalCounts]) -> Self {
        let VipState { vip, settings, faces, .. } = machine;
        let (config, plane) = (&settings.config, vip.plane());
        let objects = vip.objects().as_slice();
        let disk = machine.disk.as_ref().filter(|_| config.disk_octets_max != Some(0));
        let mut status = VipStatus {
            router: config.router.clone(),
            key: Vec::new(),
            is_open: config.trust == Trust::Open,
            slot: vip.slot(),
            period_ms: config.period_ms.into(),
            catalogue: config.catalogue.display().to_string(),
            version: settings.loaded.version,
            objects: objects.len() as u64,
            blocks: settings.loaded.blocks().len() as u64,
            files: settings.loaded.files() as u64,
            octets: objects.iter().fold(0, |sum, object| sum.saturating_add(object.octets)),
            room: config.memory,
            disk_room: disk.map(|disk| disk.room(settings)),
            disk_octets_per_s: disk.map(|disk| disk.octets_per_s(settings)),
            counters: vip.counters().iter().map(|(label, value)| Counter::new(label, value)).collect(),
        };
        if let Some(disk) = disk {
            status.counters.push(Counter::new(DISK_LEFT_OUT, disk.left_out()));
        }
        let row = |(k, block): (usize, &u32)| Row {
            block: *block,
            count: plane.counts()[k],
            score: plane.scores()[k],
            requested: machine.requested(k),
            held: machine.held(k),
            tier: machine.tier(k),
            is_source: plane.is_source(k),
            face: machine.direction(k).map(|face| face.0),
        };
        let neighbours = config.neighbour.iter().zip(faces).zip(refused).enumerate();
        let neighbours = neighbours.filter_map(|(b, ((neighbour, face), refused))| {
            let base = VipNeighbour {
                remote: neighbour.face.to_string(),
                router: neighbour.router.clone().unwrap_or_default(),
                face_id: face.map(|face| face.0),
                ..VipNeighbour::default()
            };
            Some((base, vip.neighbour(b)?, *refused))
        });
        VipSnapshot {
            status,
            loaded: settings.loaded.clone(),
            rows: machine.registered.iter().enumerate().map(row).collect(),
            neighbours: neighbours.collect(),
        }
    }
}

impl namely_mgmt::Vip for View {
    fn status(&self) -> VipStatus {
        let mut status = self.snapshot.lock().status.clone();
        status.key = self.key.to_vec();
        status.counters.push(Counter::new(QUEUE_FULL, self.inbox.dropped().iter().sum()));
        status.counters.push(Counter::new(OTHER_FACE, self.inbox.strangers()));
        status
    }

    fn objects(&self) -> Vec<VipObject> {
        let snapshot = self.snapshot.lock();
        let loaded = &snapshot.loaded;
        let named = |row: &Row| {
            let index = row.block as usize;
            Some((loaded.names.get(index)?.clone(), *loaded.blocks().get(index)?))
        };
        let rows = snapshot.rows.iter().filter_map(|row| named(row).map(|of| (of, row)));
        let objects = rows.map(|((name, object), row)| VipObject {
            name,
            id: object.id,
            octets: object.octets,
            count: row.count,
            score: row.score,
            asked: row.requested,
            held: row.held,
            tier: (row.tier != NOWHERE).then_some(row.tier.into()),
            is_source: row.is_source,
            face_id: row.face,
        });
        objects.collect()
    }

    fn neighbours(&self) -> Vec<VipNeighbour> {
        let now_ns = clock::monotonic_ns();
        let queues = self.inbox.dropped().into_iter().chain(std::iter::repeat(0));
        let snapshot = self.snapshot.lock();
        let neighbours = snapshot.neighbours.iter().zip(queues).map(|((base, status, refused), dropped)| {
            let left_ns = status.fresh_until_ns.saturating_sub(now_ns);
            let counters = [
                ("refused", refused.dropped),
                ("bad_signature", refused.bad_signature),
                (QUEUE_FULL, dropped),
            ];
            VipNeighbour {
                boot: status.boot,
                fresh_ms: (left_ns > 0).then_some(left_ns / 1_000_000),
                under_way: status.vips_under_way,
                slots_under_way: status.slots_under_way as u64,
                entered: status.entered,
                counters: counters.map(|(label, value)| Counter::new(label, value)).to_vec(),
                ..base.clone()
            }
        });
        neighbours.collect()
    }
}
