//! A router whose forwarder is the kernel's (docs/kernel.md): what management does to faces,
//! routes, strategies and the content store is done there, and what it shows is what the kernel
//! has.
//!
//! The RIB is this router's own, as the kernel has none: it is that of the [`Core`], whose FIB no
//! packet is forwarded by, and what becomes of the FIB is entered into the kernel's. Faces are
//! known outside by the numbers that they have in the kernel.

mod events;
mod faces;
mod fib;
mod start;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use namely_forwarder::{FaceId, FaceProperties, HolderId};
use namely_nnet::{Control, ControlError, FaceKind, proc};
use namely_wire::MacAddress;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::events::{Heard, Listening};
use self::fib::Fib;
pub(crate) use self::start::{Opened, check};
use namely_dataplane::{Core, DataPlane, Relay};

/// The kernel's forwarder, as the control thread acts on it. Each call waits for the kernel's
/// answer, and for nothing else.
pub(crate) struct Kernel {
    plane: Arc<DataPlane>,
    core: Arc<Core>,
    control: Mutex<Control>,
    fib: Mutex<Fib>,
    /// Held while what has become of a name is entered.
    changing: Mutex<()>,
    /// The devices that are listened on, with the faces of their groups that were made for that.
    devices: Mutex<BTreeMap<(String, MacAddress), Option<u64>>>,
    /// The face by which the kernel's applications reach this router, as the kernel numbers it.
    own: u64,
}

impl Kernel {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock()
    }

    fn relay(&self) -> Option<&Relay> {
        self.plane.relay()
    }

    /// The number that a face of the core has in the kernel.
    pub(crate) fn number(&self, face: FaceId) -> Option<u64> {
        if face == FaceId::LOCAL {
            return Some(face.0);
        }
        self.relay()?.number(face).or_else(|| self.fib.lock().number(face))
    }

    /// The face of the core that stands for one of the kernel's: that of a client, or one that is
    /// made for a device's. The sockets of other programs have none: their routes are not ours.
    fn face(&self, number: u64) -> Option<FaceId> {
        if number == FaceId::LOCAL.0 {
            return Some(FaceId::LOCAL);
        }
        if number == self.own {
            return None;
        }
        let known = self.relay()?.face(number).or_else(|| self.fib.lock().face(number));
        if known.is_some() {
            return known;
        }
        let faces = self.control().faces().ok()?;
        faces.iter().find(|face| face.id == number && face.kind != FaceKind::Socket)?;
        let face = self.core.face_register_for(FaceProperties::remote(), HolderId::ROUTER).ok()?;
        self.fib.lock().know(number, face);
        Some(face)
    }

    /// A face of the kernel has gone, and there its routes with it.
    pub(crate) fn face_gone(&self, number: u64, now_ns: u64) {
        let mut fib = self.fib.lock();
        let stand_in = fib.gone(number, now_ns);
        drop(fib);
        if let Some(face) = stand_in {
            // It is there: it is released nowhere else.
            let _ = self.core.face_release(face);
        }
    }
}

/// The counters of one file of /proc/net/nnet; none where it cannot be read.
fn counters(file: &str) -> Vec<(String, u64)> {
    proc::counters(file).unwrap_or_default()
}

/// One of them.
fn of(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(label, _)| label == name).map_or(0, |(_, value)| *value)
}

/// What the log says of a failure that nobody is told.
fn noted(doing: &str, error: &ControlError) {
    tracing::warn!("{doing}: {error}");
}
