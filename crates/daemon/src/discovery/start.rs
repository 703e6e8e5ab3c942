//! Starts discovery with the router.

use std::sync::{Arc, OnceLock};

use namely_forwarder::FaceId;
use namely_io::ethernet::DEFAULT_GROUP;
use namely_messages::{FaceEventKind, FaceEventNotification};
use namely_mgmt::{Control, Neighbors};

use super::faces::LinkFaces;
use super::kernel::KernelLinks;
use super::link::{Link, WatchedLink};
use super::{Order, Running};
use crate::config::{Config, ConfigError};
use crate::exit::{Exit, Failure};
use crate::home::RouterHandle;
use crate::kernel::Kernel;
use crate::services::{Service, ServiceCounters, StartContext};
use namely_dataplane::{CaptureQueue, DataPlane, ListenError};

/// Neighbor discovery as a service.
#[derive(Default)]
pub(crate) struct NeighborDiscovery {
    /// The queue of discovery packets from the workers, if links are watched.
    tap: OnceLock<Arc<CaptureQueue>>,
    running: OnceLock<Running>,
}

impl Service for NeighborDiscovery {
    fn check(&self, config: &Config) -> Result<(), ConfigError> {
        config.discovery.settings().map(drop)
    }

    /// Sets the capture queue before the first face exists, so that no packet of neighbor discovery
    /// bypasses it.
    fn prepare(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        let links = WatchedLink::all(start.config);
        if !links.is_empty() {
            let tap = CaptureQueue::new(links.iter().map(WatchedLink::tapped).collect());
            let tap = Arc::new(tap.map_err(Failure::system("no neighbor discovery"))?);
            start.home.plane.set_tap(tap.clone());
            let _ = self.tap.set(tap);
        }
        Ok(())
    }

    /// Starts discovery on the watched links. Each link receives a face for its group.
    fn start(&self, start: &StartContext<'_>) -> Result<(), Failure> {
        let Some(tap) = self.tap.get() else { return Ok(()) };
        let RouterHandle { plane, core, kernel, .. } = start.home;
        let settings = start.config.discovery.settings()?;
        let with_group = |watched: WatchedLink| {
            let group = match kernel {
                Some(kernel) => listen_on(kernel, &watched)?,
                None => group(plane, &watched)?,
            };
            Ok(Link { watched, group, seen: None, discovery_faces: Vec::new(), small: Vec::new() })
        };
        let links = WatchedLink::all(start.config).into_iter().map(with_group);
        let links = links.collect::<Result<_, Failure>>()?;
        let home: Box<dyn super::home::DiscoveryHost> = match kernel {
            Some(kernel) => Box::new(KernelLinks::new(kernel.clone())),
            None => Box::new(LinkFaces::new(plane.clone(), core.clone())),
        };
        let running = Running::start(home, tap.clone(), links, settings, start.key)?;
        let _ = self.running.set(running);
        Ok(())
    }

    fn apply(&self, config: &Config) {
        if let (Some(running), Ok(settings)) = (self.running.get(), config.discovery.settings()) {
            running.send(Order::Configure(Box::new(settings)));
        }
    }

    fn drain(&self, _: &RouterHandle, _: u64) {
        self.running.get().into_iter().for_each(|running| running.send(Order::Withdraw));
    }

    fn face_event(&self, _: &RouterHandle, event: &FaceEventNotification, _: u64) {
        if let (Some(running), FaceEventKind::Destroyed) = (self.running.get(), event.kind) {
            running.send(Order::FaceGone(event.face_id));
        }
    }

    fn datasets<'a>(&'a self, control: &mut Control<'a>) {
        control.neighbors = self.running.get().map(|running| &running.view as &dyn Neighbors);
    }

    fn measure(&self, measures: &mut ServiceCounters) {
        measures.counters.extend(self.running.get().into_iter().flat_map(|running| running.view.counters()));
    }

    fn stop(&self) {
        self.running.get().into_iter().for_each(Running::stop);
    }
}

/// The kernel's face for a link's group.
fn listen_on(kernel: &Kernel, link: &WatchedLink) -> Result<FaceId, Failure> {
    let face = kernel.listen_on(&link.device, DEFAULT_GROUP);
    face.map(FaceId).map_err(|error| {
        Failure::new(Exit::CannotListen, format!("listening on dev://{}: {error}", link.device))
    })
}

/// The face for a link's group. A face from the configuration is reused. If the device is absent,
/// the result is [`FaceId::NONE`].
fn group(plane: &DataPlane, link: &WatchedLink) -> Result<FaceId, Failure> {
    match link.open_group(plane) {
        Err(ListenError::NoDevice(_)) => Ok(FaceId::NONE),
        opened => opened.map_err(|error| Failure::new(Exit::CannotListen, error.to_string())),
    }
}
