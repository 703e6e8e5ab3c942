//! Where neighbours are looked for, and how that begins with the router.

use std::sync::Arc;

use namely_forwarder::FaceId;
use namely_io::ethernet::DEFAULT_GROUP;
use namely_mgmt::Faces;
use namely_wire::FaceUri;

use super::Running;
use crate::config::Config;
use crate::dataplane::{Core, DataPlane, ListenSpec, Tap};
use crate::exit::{Exit, Failure};
use crate::router::{cannot_listen, wrong_configuration};

/// The network devices on which neighbours are looked for: those that were named to listen on.
pub(crate) fn devices(config: &Config) -> Vec<String> {
    let named = config.faces.listen.iter().filter_map(|uri| match uri {
        FaceUri::Device(name) => Some(name.clone()),
        _ => None,
    });
    named.filter(|_| config.discovery.enabled).collect()
}

/// Has workers hand over what is about neighbours, from the first face on.
pub(crate) fn tap(plane: &DataPlane, devices: &[String]) -> Result<Option<Arc<Tap>>, Failure> {
    if devices.is_empty() {
        return Ok(None);
    }
    let links = devices.iter().map(|name| FaceUri::Device(name.clone())).collect();
    let tap = Tap::new(links).map_err(|errno| failed(format!("no neighbour discovery: {errno}")))?;
    let tap = Arc::new(tap);
    plane.set_tap(tap.clone());
    Ok(Some(tap))
}

/// Starts discovery on these devices, each of which gets a face for the group of all routers.
pub(crate) fn start(
    config: &Config,
    plane: &Arc<DataPlane>,
    core: &Arc<Core>,
    tap: Option<Arc<Tap>>,
    devices: Vec<String>,
) -> Result<Option<Running>, Failure> {
    let Some(tap) = tap else { return Ok(None) };
    let settings = config.discovery.settings().map_err(wrong_configuration)?;
    let with_group = |name: String| Ok((name.clone(), group(plane, name)?));
    let devices = devices.into_iter().map(with_group).collect::<Result<_, Failure>>()?;
    Running::start(plane.clone(), core.clone(), tap, devices, settings).map(Some).map_err(failed)
}

/// The face of the group on a device, which the configuration may have made already.
fn group(plane: &DataPlane, interface: String) -> Result<FaceId, Failure> {
    let (local, remote) =
        (FaceUri::Device(interface.clone()).to_string(), FaceUri::Ether(DEFAULT_GROUP).to_string());
    let find = || {
        let faces = plane.faces();
        let face = faces.iter().find(|face| face.uri == remote && face.local_uri == local);
        face.map(|face| FaceId(face.face_id))
    };
    if let Some(face) = find() {
        return Ok(face);
    }
    plane
        .listen(ListenSpec::EthernetGroup { interface, group: DEFAULT_GROUP })
        .map_err(|error| cannot_listen(error.to_string()))?;
    find().ok_or_else(|| failed(format!("the face of {remote} on {local} has gone")))
}

fn failed(why: String) -> Failure {
    Failure::new(Exit::Failed, why)
}
