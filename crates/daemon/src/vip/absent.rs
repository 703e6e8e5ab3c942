//! The thread of VIP in a router that was built without it: it never runs. `[vip]` is refused where
//! the configuration is read.

use std::convert::Infallible;
use std::sync::Arc;

use namely_wire::mgmt::{VipNeighbour, VipObject, VipStatus};

use crate::config::Config;
use crate::disk::Disk;
use crate::exit::Failure;
use crate::key::RouterKey;
use namely_dataplane::{Core, DataPlane};

pub(crate) type Settings = Infallible;

pub(crate) struct Running(Infallible);

#[derive(Clone)]
pub(crate) struct Orders(Infallible);

#[derive(Clone)]
pub(crate) struct View(Infallible);

pub(crate) fn check(_config: &Config) -> Result<Option<Settings>, String> {
    Ok(None)
}

pub(crate) fn start(
    _config: &Config,
    _plane: &Arc<DataPlane>,
    _core: &Arc<Core>,
    _disk: Option<&Arc<Disk>>,
    _key: &RouterKey,
) -> Result<Option<Running>, Failure> {
    Ok(None)
}

impl Running {
    pub(crate) fn orders(&self) -> Orders {
        match self.0 {}
    }

    pub(crate) fn view(&self) -> View {
        match self.0 {}
    }
}

impl Orders {
    pub(crate) fn exchange(&self, settings: Settings) {
        match settings {}
    }
}

impl namely_mgmt::Vip for View {
    fn status(&self) -> VipStatus {
        match self.0 {}
    }

    fn objects(&self) -> Vec<VipObject> {
        match self.0 {}
    }

    fn neighbours(&self) -> Vec<VipNeighbour> {
        match self.0 {}
    }
}
