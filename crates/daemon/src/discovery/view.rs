//! The state of discovery, for management.

use std::sync::Arc;

use namely_discovery::{Discovery, Key, Phase};
use namely_host::clock;
use namely_messages::{Counter, NeighborState, NeighborStatus};
use namely_mgmt::Neighbors;
use parking_lot::Mutex;

use namely_dataplane::CaptureQueue;

/// Messages dropped because too many wait for the thread of discovery.
const QUEUE_FULL: &str = "queue_full";

/// Reads the state of the thread of discovery.
pub(super) struct View {
    machine: Arc<Mutex<Discovery>>,
    devices: Arc<Vec<String>>,
    key: Key,
    tap: Arc<CaptureQueue>,
}

impl View {
    pub(super) fn new(
        machine: Arc<Mutex<Discovery>>,
        devices: Vec<String>,
        key: Key,
        tap: Arc<CaptureQueue>,
    ) -> Self {
        View { machine, devices: Arc::new(devices), key, tap }
    }

    fn local(&self, interface: namely_discovery::InterfaceId) -> String {
        let name = self.devices.get(interface.0 as usize);
        name.map(|name| format!("dev://{name}")).unwrap_or_default()
    }
}

impl Neighbors for View {
    fn neighbors(&self) -> Vec<NeighborStatus> {
        let machine = self.machine.lock();
        let is_open = machine.config().open;
        let own = self.devices.iter().map(|device| NeighborStatus {
            local_uri: format!("dev://{device}"),
            state: if is_open { NeighborState::OwnOpen } else { NeighborState::Own },
            key: self.key.to_vec(),
            accepted: machine.config().prefixes.clone(),
            ..NeighborStatus::default()
        });
        let now_ns = clock::monotonic_ns();
        let neighbours = machine.neighbours(now_ns).map(|neighbour| NeighborStatus {
            local_uri: self.local(neighbour.interface),
            station: neighbour.station.to_string(),
            state: match neighbour.phase {
                Phase::Found => NeighborState::Found,
                Phase::Proven => NeighborState::Proven,
            },
            face_id: neighbour.face,
            mtu: Some(neighbour.mtu as u64),
            peer_mtu: Some(neighbour.peer_mtu as u64),
            key: neighbour.key.to_vec(),
            silent_ms: Some(neighbour.silent_ns / 1_000_000),
            accepted: neighbour.accepted,
            refused: neighbour.refused,
        });
        let quarantined =
            machine.quarantined(now_ns).into_iter().map(|(interface, station, left_ns)| NeighborStatus {
                local_uri: self.local(interface),
                station: station.to_string(),
                state: NeighborState::Quarantined,
                silent_ms: Some(left_ns / 1_000_000),
                ..NeighborStatus::default()
            });
        own.chain(neighbours).chain(quarantined).collect()
    }

    fn counters(&self) -> Vec<Counter> {
        let machine = self.machine.lock();
        let counted = machine.counters().iter().chain([(QUEUE_FULL, self.tap.drops())]);
        let counted = counted.filter(|(_, n)| *n > 0);
        counted.map(|(label, n)| Counter::new(format!("discovery.{label}"), n)).collect()
    }
}

/// The octets of a key in hexadecimal digits.
pub(super) fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}
