//! What goes into a port: packets, and what its link service sends by itself. Frames queue here and
//! are written by a flush.

use std::sync::atomic::Ordering;

use namely_link::{Frame, LinkDrop, LinkSender, Outbound, Shown};
use namely_wire::LpView;

use crate::queue::WaitingFrames;
use crate::unproven::Unproven;

use super::FacePort;
use super::state::{FollowUp, PortState, SendContext, SendError};

/// Where the frames of one packet join the queue.
struct Entry<'a, P> {
    queue: &'a mut WaitingFrames<P>,
    begins_packet: bool,
    now_ns: u64,
}

impl<P: AsRef<[u8]>> Entry<'_, P> {
    #[inline]
    fn push(&mut self, frame: Frame<P>) {
        self.queue.push(frame, std::mem::take(&mut self.begins_packet), self.now_ns);
    }
}

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
    ) -> (Result<(), SendError>, FollowUp) {
        let is_answer = outbound.headers.nack.is_none();
        self.queue_packet(is_answer, total_octets, context, charge, |link, entry| {
            link.send(outbound, context.now_ns, &mut |frame| entry.push(frame))
        })
    }

    /// The same of a packet with its PrefixAnnouncement; `share` makes a packet of octets.
    ///
    /// # Errors
    /// [`SendError`]; counted.
    pub(crate) fn send_announced(
        &self,
        outbound: Outbound<P>,
        announcement: &[u8],
        share: impl FnOnce(Vec<u8>) -> P,
        total_octets: isize,
        context: SendContext,
        charge: &mut isize,
    ) -> (Result<(), SendError>, FollowUp) {
        self.queue_packet(true, total_octets, context, charge, |link, entry| {
            link.send_announced(outbound, announcement, share, context.now_ns, &mut |frame| entry.push(frame))
        })
    }

    /// Queues the frames that `send` makes of one packet, if there is room.
    #[inline]
    fn queue_packet(
        &self,
        is_answer: bool,
        total_octets: isize,
        context: SendContext,
        charge: &mut isize,
        send: impl FnOnce(&mut LinkSender<P>, &mut Entry<'_, P>) -> Result<(), LinkDrop>,
    ) -> (Result<(), SendError>, FollowUp) {
        let mut state = self.state.lock();
        if let Err(error) = state.admit(&self.limits, || self.is_closed(), total_octets) {
            return (Err(error), FollowUp::default());
        }
        let before = state.queue.memory_octets();
        if state.unproven.is_some()
            && let Err(error) = state.admit_unproven(context.now_ns)
        {
            *charge += (state.queue.memory_octets() - before) as isize;
            return (Err(error), state.follow_up(context));
        }
        if is_answer {
            // Changed under the lock only.
            self.answers.store(self.answers().wrapping_add(1), Ordering::Relaxed);
        }
        let PortState { link, queue, .. } = &mut *state;
        let frames_before = queue.in_frames();
        let sent = send(link, &mut Entry { queue, begins_packet: true, now_ns: context.now_ns });
        *charge += (queue.memory_octets() - before) as isize;
        if state.unproven.is_some() {
            state.charge_unproven(frames_before, context.now_ns);
        }
        if let Err(drop) = sent {
            return (Err(SendError::Link(drop)), FollowUp::default());
        }
        (Ok(()), state.follow_up(context))
    }

    /// The peer must prove that it receives what is sent to it, and is limited until then.
    pub(crate) fn must_prove(&self, unproven: Unproven) {
        self.state.lock().unproven = Some(Box::new(unproven));
        self.is_unproven.store(true, Ordering::Relaxed);
    }

    /// Shows an arrived frame to the limits of a peer that has not proven that it receives, which
    /// end if it does prove it. Returns true if the frame was nothing but the proof.
    #[cold]
    pub(crate) fn takes_proof(&self, view: &LpView<'_>) -> bool {
        if !namely_link::may_show(view) {
            return false;
        }
        let mut state = self.state.lock();
        let shown = state.unproven.as_ref().map_or(Shown::Nothing, |unproven| unproven.shown_by(view));
        if shown != Shown::Nothing {
            self.end_limits(&mut state);
        }
        shown == Shown::ByAnswer
    }

    /// The peer has proven itself, or need not.
    pub(super) fn end_limits(&self, state: &mut PortState<P>) {
        if let Some(unproven) = state.unproven.take() {
            unproven.end();
        }
        self.is_unproven.store(false, Ordering::Relaxed);
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
            let before = state.queue.memory_octets();
            if state.admit(&self.limits, || self.is_closed(), total_octets).is_ok()
                && (state.unproven.is_none() || state.admit_unproven(now_ns).is_ok())
            {
                let frames_before = state.queue.in_frames();
                state.queue.push(frame, true, now_ns);
                state.charge_unproven(frames_before, now_ns);
            }
            *charge += (state.queue.memory_octets() - before) as isize;
        }
        worked
    }
}
