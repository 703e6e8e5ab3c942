//! VIP in a router that was built without it. It never runs, because the configuration refuses
//! `[vip]`.

use crate::services::Service;

#[derive(Default)]
pub(crate) struct VirtualPlane;

impl Service for VirtualPlane {}
