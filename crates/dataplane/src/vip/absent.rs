//! The queue for VIP in a router that was built without it: it does not exist.

use std::convert::Infallible;

use namely_forwarder::{FaceId, Outgoing};

use super::Packet;

#[derive(Debug)]
pub(crate) struct VipInbox(Infallible);

impl VipInbox {
    pub(crate) fn face(&self) -> FaceId {
        match self.0 {}
    }

    pub(super) fn push(&self, _outgoing: Outgoing<Packet>) {
        match self.0 {}
    }
}
