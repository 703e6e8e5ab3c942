//! Interests that follow a name hop by hop (`wire::mgmt::hop_name`): the router at which HopLimit
//! ends hands one to its management instead of dropping it, or giving it to an application.
//!
//! Nothing of this runs for an Interest whose HopLimit does not end here.

use lock_api::RawMutex;
use namely_wire::mgmt::asked_of_hop;

use super::interest::Arrived;
use super::upstreams::Routing;
use crate::face_id::FaceId;
use crate::faces::FaceHold;
use crate::faces::batch_context::BatchContext;
use crate::forwarder::Forwarder;
use crate::packet::PacketBuf;
use crate::strategy::Upstream;
use crate::sync::plain::Ordering;

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// From now on a question that follows a name hop by hop, and ends here, goes to this face;
    /// with [`FaceId::NONE`] it is dropped as any Interest whose HopLimit ends.
    pub fn set_explainer(&self, face: FaceId) {
        // Relaxed: who asks at this very moment gets one or the other.
        self.explainer.store(face.0, Ordering::Relaxed);
    }

    fn explainer(&self) -> Option<FaceId> {
        Some(FaceId(self.explainer.load(Ordering::Relaxed))).filter(|face| *face != FaceId::NONE)
    }

    /// An Interest has come to HopLimit 0. Returns true if it does not leave through `face`: that
    /// is an application's, and the Interest no question.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_here(
        &self,
        arrived: &Arrived<'_, B>,
        face: &FaceHold<'_>,
        routing: &mut Routing<'_>,
    ) -> bool {
        if !face.is_local() {
            routing.hop_limited = true;
            return true;
        }
        self.explainer().is_some() && asked_of_hop(arrived.interest.view.name).is_some()
    }

    /// Adds who answers a question that ends here; its place among the upstreams. `None` for any
    /// other Interest that has none.
    #[cold]
    #[inline(never)]
    pub(super) fn add_explainer<'t>(
        &self,
        context: &'t BatchContext<'_, R>,
        arrived: &Arrived<'_, B>,
        routing: &mut Routing<'t>,
    ) -> Option<usize> {
        if arrived.hop_limit_out() != Some(0) {
            return None;
        }
        asked_of_hop(arrived.interest.view.name)?;
        let face = context.hold(self.explainer()?)?;
        let place = routing.upstreams.len();
        routing.upstreams.push(Upstream { face, is_bound: true }).then_some(place)
    }
}
