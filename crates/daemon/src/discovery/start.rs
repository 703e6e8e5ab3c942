//! How discovery begins with the router.

use std::sync::Arc;

use namely_forwarder::FaceId;
use namely_io::ethernet::DEFAULT_GROUP;
use namely_mgmt::Faces;
use namely_wire::FaceUri;

use super::Running;
use super::faces::LinkFaces;
use super::home::Home;
use super::kernel::KernelLinks;
use super::link::{Link, WatchedLink};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::kernel::Kernel;
use crate::key::RouterKey;
use namely_dataplane::{Core, DataPlane, ListenSpec, Tap};

/// Has workers hand over what is about neighbours, from the first face on.
pub(crate) fn tap(plane: &DataPlane, links: &[WatchedLink]) -> Result<Option<Arc<Tap>>, Failure> {
    if links.is_empty() {
        return Ok(None);
    }
    let tap = Tap::new(links.iter().map(WatchedLink::tapped).collect());
    let tap = tap.map_err(|errno| failed(format!("no neighbour discovery: {errno}")))?;
    let tap = Arc::new(tap);
    plane.set_tap(tap.clone());
    Ok(Some(tap))
}

/// Starts discovery on these links, each of which has a face for its group.
pub(crate) fn start(
    config: &Config,
    plane: &Arc<DataPlane>,
    core: &Arc<Core>,
    kernel: Option<&Arc<Kernel>>,
    tap: Option<Arc<Tap>>,
    links: Vec<WatchedLink>,
    key: &RouterKey,
) -> Result<Option<Running>, Failure> {
    let Some(tap) = tap else { return Ok(None) };
    let settings = config.discovery.settings().map_err(|why| Failure::new(Exit::Configuration, why))?;
    let with_group = |watched: WatchedLink| {
        let group = match kernel {
            Some(kernel) => listen_on(kernel, &watched)?,
            None => group(plane, &watched)?,
        };
        Ok(Link { watched, group, seen: None, asked: Vec::new(), small: Vec::new() })
    };
    let links = links.into_iter().map(with_group).collect::<Result<_, Failure>>()?;
    let home: Box<dyn Home> = match kernel {
        Some(kernel) => Box::new(KernelLinks::new(kernel.clone())),
        None => Box::new(LinkFaces::new(plane.clone(), core.clone())),
    };
    Running::start(home, tap, links, settings, key).map(Some).map_err(failed)
}

/// The kernel's face of a link's group.
fn listen_on(kernel: &Kernel, link: &WatchedLink) -> Result<FaceId, Failure> {
    let face = kernel.listen_on(&link.device, DEFAULT_GROUP);
    face.map(FaceId).map_err(|error| {
        Failure::new(Exit::CannotListen, format!("listening on dev://{}: {error}", link.device))
    })
}

/// The face of a link's group, which the configuration may have made already.
fn group(plane: &DataPlane, link: &WatchedLink) -> Result<FaceId, Failure> {
    let local = FaceUri::Device(link.device.clone()).to_string();
    let remote = link.group().to_string();
    let find = || {
        let faces = plane.faces();
        let face = faces.iter().find(|face| face.uri == remote && face.local_uri == local);
        face.map(|face| FaceId(face.face_id))
    };
    if let Some(face) = find() {
        return Ok(face);
    }
    let (interface, group) = (link.device.clone(), DEFAULT_GROUP);
    plane
        .listen(ListenSpec::EthernetGroup { interface, group })
        .map_err(|error| Failure::new(Exit::CannotListen, error.to_string()))?;
    find().ok_or_else(|| failed(format!("the face of {remote} on {local} has gone")))
}

fn failed(why: String) -> Failure {
    Failure::new(Exit::Failed, why)
}
