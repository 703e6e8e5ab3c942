//! What goes into a port: packets, and what its link service sends by itself. Frames queue here and
//! are written by a flush.

use std::sync::atomic::Ordering;

use namely_link::{Frame, LinkDrop, LinkSender, Outbound};
use namely_wire::LpView;

use super::FacePort;
use super::state::{FollowUp, PortState, SendContext, SendError};

impl<P: AsRef<[u8]> + Clone> FacePort<P> {
    /// Queues a packet's frames if there is room.
    ///
    /// # Errors
    /// [`SendError`]; counted.
    #[inline]
    pub(crate) fn send(
        &self,
        outbound: Outbound<P>,
        total_octets: isize,
        context: SendContext,
        charge: &mut isize,
    ) -> Result<FollowUp, SendError> {
        let mut state = self.state.lock();
        state.admit(&self.limits, || self.is_closed(), total_octets)?;
        if outbound.headers.nack.is_none() {
            // Changed under the lock only.
            self.answers.store(self.answers().wrapping_add(1), Ordering::Relaxed);
        }
        let PortState { link, queue, .. } = &mut *state;
        let before = queue.memory_octets();
        let mut begins_packet = true;
        let sent = link.send(outbound, context.now_ns, &mut |frame| {
            queue.push(frame, std::mem::take(&mut begins_packet), context.now_ns);
        });
        *charge += (queue.memory_octets() - before) as isize;
        sent.map_err(SendError::Link)?;
        Ok(state.follow_up(context))
    }

    /// Queues what is a link packet already; `None` if it cannot leave as it is, or there is no
    /// room.
    pub(crate) fn send_encoded(
        &self,
        link_packet: P,
        total_octets: isize,
        context: SendContext,
        charge: &mut isize,
    ) -> Option<FollowUp> {
        let mut state = self.state.lock();
        state.admit(&self.limits, || self.is_closed(), total_octets).ok()?;
        let PortState { link, queue, .. } = &mut *state;
        let before = queue.memory_octets();
        let sent = link.send_encoded(link_packet, &mut |frame| queue.push(frame, true, context.now_ns));
        *charge += (queue.memory_octets() - before) as isize;
        sent.then(|| state.follow_up(context))
    }

    /// Shows an arrived frame to the sending half of the link service.
    ///
    /// # Errors
    /// The frame came before. The receiver counts it.
    pub(crate) fn on_arrival(
        &self,
        view: &LpView<'_>,
        total_octets: isize,
        context: SendContext,
        charge: &mut isize,
    ) -> (Result<(), LinkDrop>, FollowUp) {
        let mut state = self.state.lock();
        let arrived = self.with_link(&mut state, total_octets, context.now_ns, charge, |link, emit| {
            link.on_arrival(view, context.now_ns, &mut |frame| emit(frame))
        });
        (arrived, state.follow_up(context))
    }

    /// Serves the link's timer.
    pub(crate) fn tick(&self, total_octets: isize, context: SendContext, charge: &mut isize) -> FollowUp {
        let mut state = self.state.lock();
        // Another worker may have served it, and set it anew.
        if state.timer_ns.is_none_or(|timer_ns| timer_ns > context.now_ns) {
            return FollowUp::default();
        }
        state.timer_ns = None;
        self.with_link(&mut state, total_octets, context.now_ns, charge, |link, emit| {
            link.tick(context.now_ns, &mut |frame| emit(frame));
        });
        state.follow_up(context)
    }

    /// Lets the link service emit frames, each of which is queued if there is room.
    fn with_link<T>(
        &self,
        state: &mut PortState<P>,
        total_octets: isize,
        now_ns: u64,
        charge: &mut isize,
        work: impl FnOnce(&mut LinkSender<P>, &mut dyn FnMut(Frame<P>)) -> T,
    ) -> T {
        let (mut frames, before) = (Vec::new(), state.link.mtu());
        let worked = work(&mut state.link, &mut |frame| frames.push(frame));
        let mtu = state.link.mtu();
        if mtu < before {
            let remote = &self.info.remote;
            tracing::info!(
                %remote,
                mtu,
                "the path loses long datagrams and nobody says so: the face makes shorter ones"
            );
        }
        for frame in frames {
            if state.admit(&self.limits, || self.is_closed(), total_octets).is_ok() {
                let before = state.queue.memory_octets();
                state.queue.push(frame, true, now_ns);
                *charge += (state.queue.memory_octets() - before) as isize;
            }
        }
        worked
    }
}
