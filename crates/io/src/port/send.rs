//! Queueing frames on a port: those of packets, and those that the link service sends by itself. A
//! flush writes them.

use std::sync::atomic::Ordering;

use namely_link::{Evidence, Frame, LinkDrop, LinkSender, Outbound};
use namely_wire::LpView;
use namely_wire::types::INTEREST;

use crate::queue::WaitingFrames;
use crate::unproven::UnprovenPeer;

use super::FaceSender;
use super::state::{FaceSenderState, FollowUp, SendContext, SendError};

/// The kind of a packet, as far as a port distinguishes them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PacketKind {
    Interest,
    Data,
    Nack,
}

impl PacketKind {
    #[inline]
    fn of<P: AsRef<[u8]>>(outbound: &Outbound<P>) -> Self {
        // NDN packet format v0.3: a packet begins with its TLV-TYPE, one octet for both kinds.
        let is_interest = outbound.packet.as_ref().first().copied().map(u32::from) == Some(INTEREST);
        match (outbound.headers.nack.is_some(), is_interest) {
            (true, _) => PacketKind::Nack,
            (false, true) => PacketKind::Interest,
            (false, false) => PacketKind::Data,
        }
    }
}

/// Adds the frames of one packet to the queue.
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

impl<P: AsRef<[u8]> + Clone> FaceSender<P> {
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
        self.queue_packet(PacketKind::of(&outbound), total_octets, context, charge, |link, entry| {
            link.send(outbound, context.now_ns, &mut |frame| entry.push(frame))
        })
    }

    /// Queues a packet with its PrefixAnnouncement. `share` makes a packet from octets.
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
        self.queue_packet(PacketKind::Data, total_octets, context, charge, |link, entry| {
            link.send_announced(outbound, announcement, share, context.now_ns, &mut |frame| entry.push(frame))
        })
    }

    /// Queues the frames that `send` makes of one packet, if there is room.
    #[inline]
    fn queue_packet(
        &self,
        kind: PacketKind,
        total_octets: isize,
        context: SendContext,
        charge: &mut isize,
        send: impl FnOnce(&mut LinkSender<P>, &mut Entry<'_, P>) -> Result<(), LinkDrop>,
    ) -> (Result<(), SendError>, FollowUp) {
        let mut state = self.state.lock();
        if let Err(error) = state.admit(&self.limits, || self.is_closed(), total_octets) {
            if error == SendError::Down {
                state.since_arrival.on_failure(self.arrived(), 1);
            }
            return (Err(error), FollowUp::default());
        }
        let before = state.queue.memory_octets();
        if state.unproven.is_some()
            && let Err(error) = state.admit_unproven(context.now_ns)
        {
            // A request for proof may have joined the queue although the packet was refused.
            *charge += (state.queue.memory_octets() - before) as isize;
            return (Err(error), state.follow_up(context));
        }
        // A Nack is not counted as an answer, so requests for absent Data count as unanswered.
        if kind != PacketKind::Nack {
            // Changed under the lock only.
            self.answers.store(self.answers().wrapping_add(1), Ordering::Relaxed);
        }
        let FaceSenderState { link, queue, .. } = &mut *state;
        let (octets_before, frames_before) = queue.in_frames();
        let sent = send(link, &mut Entry { queue, begins_packet: true, now_ns: context.now_ns });
        *charge += (queue.memory_octets() - before) as isize;
        if state.unproven.is_some() {
            state.charge_unproven(octets_before, frames_before, context.now_ns);
        }
        if let Err(drop) = sent {
            return (Err(SendError::Link(drop)), FollowUp::default());
        }
        if kind == PacketKind::Interest {
            state.since_arrival.on_interest(self.arrived(), context.now_ns);
        }
        (Ok(()), state.follow_up(context))
    }

    /// Requires the peer to prove that it receives. Its limits apply until then.
    pub(crate) fn must_prove(&self, unproven: UnprovenPeer) {
        self.state.lock().unproven = Some(Box::new(unproven));
        // Relaxed: no other worker has the port yet.
        self.mirror.is_unproven.store(true, Ordering::Relaxed);
    }

    /// Passes an arrived frame to the check of an unproven peer. The limits end if the frame proves
    /// that the peer receives. Returns true if the frame was only the proof.
    #[cold]
    pub(crate) fn takes_proof(&self, view: &LpView<'_>) -> bool {
        // Most frames contain no proof, and the lock is not taken for them.
        if !namely_link::may_answer(view) {
            return false;
        }
        let mut state = self.state.lock();
        let shown = state.unproven.as_ref().map_or(Evidence::Nothing, |unproven| unproven.evidence_in(view));
        if shown != Evidence::Nothing {
            self.end_limits(&mut state);
        }
        shown == Evidence::ByAnswer
    }

    /// Ends the limits of an unproven peer, because it has proven that it receives or need not.
    pub(super) fn end_limits(&self, state: &mut FaceSenderState<P>) {
        if let Some(unproven) = state.unproven.take() {
            unproven.end();
        }
        // Relaxed: a reader that still finds the flag set only checks one more frame needlessly.
        self.mirror.is_unproven.store(false, Ordering::Relaxed);
    }

    /// Passes an arrived frame to the sending half of the link service.
    ///
    /// # Errors
    /// The frame is a duplicate. The caller counts it.
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
        // Another worker may have served the timer and set it again.
        if state.timer_ns.is_none_or(|timer_ns| timer_ns > context.now_ns) {
            return FollowUp::default();
        }
        state.timer_ns = None;
        self.with_link(&mut state, total_octets, context.now_ns, charge, |link, emit| {
            link.tick(context.now_ns, &mut |frame| emit(frame));
        });
        state.follow_up(context)
    }

    /// Runs `work` on the link service, and queues each emitted frame if there is room.
    fn with_link<T>(
        &self,
        state: &mut FaceSenderState<P>,
        total_octets: isize,
        now_ns: u64,
        charge: &mut isize,
        work: impl FnOnce(&mut LinkSender<P>, &mut dyn FnMut(Frame<P>)) -> T,
    ) -> T {
        // Collected, because the link service is borrowed from the state while it emits frames.
        let (mut frames, before) = (Vec::new(), state.link.mtu());
        let worked = work(&mut state.link, &mut |frame| frames.push(frame));
        let mtu = state.link.mtu();
        if mtu < before {
            let remote = &self.info.remote;
            tracing::info!(
                %remote,
                mtu,
                "the path silently drops long datagrams: the face sends shorter ones"
            );
        }
        for frame in frames {
            let before = state.queue.memory_octets();
            if state.admit(&self.limits, || self.is_closed(), total_octets).is_ok()
                && (state.unproven.is_none() || state.admit_unproven(now_ns).is_ok())
            {
                let (octets_before, frames_before) = state.queue.in_frames();
                // Each frame counts as a packet of its own, so CoDel may drop it without the
                // others.
                state.queue.push(frame, true, now_ns);
                state.charge_unproven(octets_before, frames_before, now_ns);
            }
            *charge += (state.queue.memory_octets() - before) as isize;
        }
        worked
    }
}
