//! Interests that trace a name hop by hop (`messages::hop_name`). The router at which HopLimit is
//! exhausted passes the Interest to its management, instead of dropping it or sending it to an
//! application.
//!
//! None of this runs for an Interest whose HopLimit is not exhausted here.

use lock_api::RawMutex;
use namely_messages::hop_query_name;

use super::Pipeline;
use super::checked_interest::CheckedInterest;
use super::upstreams::Routing;
use crate::faces::FaceHold;
use crate::packet::PacketBuf;
use crate::strategy::Upstream;

impl<'t, B: PacketBuf, R: RawMutex> Pipeline<'t, '_, B, R> {
    /// Returns true if an Interest whose HopLimit is exhausted must not leave through `face`. Local
    /// faces receive it, unless it traces hops and a face answers such traces.
    #[cold]
    #[inline(never)]
    pub(super) fn ends_here(
        self,
        arrived: &CheckedInterest<'_, B>,
        face: &FaceHold<'_>,
        routing: &mut Routing<'_>,
    ) -> bool {
        if !face.is_local() {
            routing.hop_limited = true;
            return true;
        }
        self.tables.explainer.get().is_some() && hop_query_name(arrived.interest.view.name).is_some()
    }

    /// Adds the face that answers hop traces, if the Interest traces hops and its HopLimit is
    /// exhausted here. Returns its index among the upstreams, or `None` for any other Interest.
    #[cold]
    #[inline(never)]
    pub(super) fn add_explainer(
        self,
        arrived: &CheckedInterest<'_, B>,
        routing: &mut Routing<'t>,
    ) -> Option<usize> {
        if arrived.hop_limit_out() != Some(0) {
            return None;
        }
        hop_query_name(arrived.interest.view.name)?;
        let face = self.context.hold(self.tables.explainer.get()?)?;
        let index = routing.upstreams.len();
        // As if bound, so that the Interest counts as delivered on this host.
        routing.upstreams.push(Upstream { face, is_bound: true }).then_some(index)
    }
}
