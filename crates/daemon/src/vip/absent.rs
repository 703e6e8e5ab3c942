//! VIP in a router that was built without it: it never runs. `[vip]` is refused where the
//! configuration is read.

use crate::services::Service;

#[derive(Default)]
pub(crate) struct VirtualPlane;

impl Service for VirtualPlane {}
