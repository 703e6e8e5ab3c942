//! The forwarder of a router: the data plane with its core, or the kernel's forwarder beside them.

use std::sync::Arc;

use namely_dataplane::{Core, DataPlane};
use namely_forwarder::FaceId;
use namely_mgmt::Control;

use crate::awaited::Awaited;
use crate::config::Config;
use crate::kernel::Kernel;

/// The forwarder, for management, services and the threads that make faces.
#[derive(Clone)]
pub(crate) struct RouterHandle {
    pub(crate) plane: Arc<DataPlane>,
    pub(crate) core: Arc<Core>,
    /// The kernel's forwarder, if the kernel forwards packets.
    pub(crate) kernel: Option<Arc<Kernel>>,
    /// The addresses of the configuration for whose devices the router waits.
    pub(crate) awaited: Arc<Awaited>,
}

impl RouterHandle {
    /// Faces and tables for management: those of the kernel if it forwards packets. Services are
    /// not included.
    pub(crate) fn control(&self) -> Control<'_> {
        let nothing_else = Control {
            faces: &*self.plane,
            tables: &*self.core,
            neighbors: None,
            disk: None,
            vip: None,
            traces: None,
            draining: None,
        };
        match &self.kernel {
            Some(kernel) => Control { faces: &**kernel, tables: &**kernel, ..nothing_else },
            None => nothing_else,
        }
    }

    /// The published number of a face of the core.
    pub(crate) fn number(&self, face: FaceId) -> u64 {
        self.kernel.as_ref().and_then(|kernel| kernel.number(face)).unwrap_or(face.0)
    }

    /// Applies the changes of strategies and the content store from `old` to `new`.
    pub(crate) fn apply(&self, old: &Config, new: &Config) {
        match &self.kernel {
            Some(kernel) => kernel.apply(old, new),
            None => new.apply(old, &self.core),
        }
    }
}
