//! A router with its forwarder in the kernel (docs/kernel.md). Management changes the faces,
//! routes, strategies and the content store of the kernel, and lists the kernel's state.
//!
//! The kernel has no RIB, so the RIB is that of the [`Core`]. The core's FIB forwards no packets;
//! its changes are copied to the kernel's FIB. Clients see faces by their kernel numbers.

mod events;
mod faces;
mod fib;
mod start;
mod tables;

use std::collections::BTreeMap;
use std::sync::Arc;

use namely_forwarder::{FaceId, FaceProperties, OwnerId};
use namely_nnet::{Control, ControlError, FaceKind, proc};
use namely_wire::MacAddress;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::events::{EventListener, KernelEvent};
use self::fib::Fib;
pub(crate) use self::start::{KernelHandle, check, check_loaded};
use namely_dataplane::{Core, DataPlane, Relay};

/// The kernel's forwarder, for the control thread. A call blocks only until the kernel answers,
/// except for [`Kernel::create_face`].
pub(crate) struct Kernel {
    plane: Arc<DataPlane>,
    core: Arc<Core>,
    control: Mutex<Control>,
    fib: Mutex<Fib>,
    /// Locked while the entries of a name are updated.
    changing: Mutex<()>,
    /// The listening devices and their groups, each with its face if this router made it.
    devices: Mutex<BTreeMap<(String, MacAddress), Option<u64>>>,
    /// The kernel number of the face on which the kernel's applications reach this router.
    own: u64,
}

impl Kernel {
    fn control(&self) -> MutexGuard<'_, Control> {
        self.control.lock()
    }

    fn relay(&self) -> Option<&Relay> {
        self.plane.relay()
    }

    /// The kernel number of a face of the core.
    pub(crate) fn number(&self, face: FaceId) -> Option<u64> {
        if face == FaceId::LOCAL {
            return Some(face.0);
        }
        self.relay()?.number(face).or_else(|| self.fib.lock().number(face))
    }

    /// The face of the core that represents a face of the kernel: that of a client, or one made for
    /// a device's face. Sockets of other programs have none, because this router does not manage
    /// their routes.
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
        let face = self.core.face_register_for(FaceProperties::remote(), OwnerId::ROUTER).ok()?;
        self.fib.lock().know(number, face);
        Some(face)
    }

    /// A face was closed in the kernel, together with its routes.
    pub(crate) fn face_closed(&self, number: u64, now_ns: u64) {
        let mut fib = self.fib.lock();
        let stand_in = fib.gone(number, now_ns);
        drop(fib);
        if let Some(face) = stand_in {
            // The core's face exists, because only this function releases it.
            let _ = self.core.face_release(face);
        }
    }
}

/// The counters of a file of /proc/net/nnet; empty if it is not readable.
fn counters(file: &str) -> Vec<(String, u64)> {
    proc::counters(file).unwrap_or_default()
}

/// The value of a counter, or 0.
fn of(counters: &[(String, u64)], name: &str) -> u64 {
    counters.iter().find(|(label, _)| label == name).map_or(0, |(_, value)| *value)
}

/// Logs a failure that is not reported to a requester.
fn noted(doing: &str, error: &ControlError) {
    tracing::warn!("{doing}: {error}");
}
