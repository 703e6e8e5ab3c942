//! Interests that follow a name hop by hop (`wire::mgmt::hop_name`): the router at which HopLimit
//! ends hands one to its management instead of dropping it, or giving it to an application.
//!
//! Nothing of this runs for an Interest whose HopLimit does not end here.

use lock_api::RawMutex;
use namely_wire::mgmt::asked_of_hop;

use super::Pipeline;
use super::arrived::Arrived;
use super::upstreams::Routing;
use crate::faces::FaceHold;
use crate::packet::PacketBuf;
use crate::strategy::Upstream;

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// An Interest has come to HopLimit 0. Returns true if it does not leave through `face`: that
    /// is an application's, and the Interest no question.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_here(
        self,
        arrived: &Arrived<'_, B>,
        face: &FaceHold<'_>,
        routing: &mut Routing<'_>,
    ) -> bool {
        if !face.is_local() {
            routing.hop_limited = true;
            return true;
        }
        self.tables.explainer.get().is_some() && asked_of_hop(arrived.interest.view.name).is_some()
    }

    /// Adds who answers a question that ends here; its place among the upstreams. `None` for any
    /// other Interest that has none.
    #[cold]
    #[inline(never)]
    pub(super) fn add_explainer(self, arrived: &Arrived<'_, B>, routing: &mut Routing<'t>) -> Option<usize> {
        if arrived.hop_limit_out() != Some(0) {
            return None;
        }
        asked_of_hop(arrived.interest.view.name)?;
        let face = self.context.hold(self.tables.explainer.get()?)?;
        let place = routing.upstreams.len();
        routing.upstreams.push(Upstream { face, is_bound: true }).then_some(place)
    }
}
