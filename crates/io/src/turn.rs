//! What a kind of face may do while it is served.

use std::sync::Arc;

use crate::error::CloseReason;
use crate::event_loop::{Handler, Remote, Unread, dispatch};
use crate::kind::NewTransport;
use crate::options::IoOptions;
use crate::port::{Port, TransportState};
use crate::shared::Note;
use crate::sockets::{self, Interest};
use crate::transport::TransportId;
use crate::transports::{Event, Source, Transports};

/// How long a listener rests when the process has no file descriptor left, ns.
const ACCEPT_REST_NS: u64 = 100_000_000;

/// A transport's turn.
pub(crate) struct Turn<'a, P> {
    pub(crate) io: &'a mut Transports<P>,
    pub(crate) id: TransportId,
    pub(crate) port: Arc<Port<P>>,
    pub(crate) handler: &'a mut dyn Handler<P>,
    pub(crate) frames: u64,
    pub(crate) octets: u64,
}

impl<P: AsRef<[u8]> + Clone + Send + 'static> Turn<'_, P> {
    pub(crate) fn now_ns(&self) -> u64 {
        self.io.now_ns()
    }

    pub(crate) fn options(&self) -> &IoOptions {
        self.io.options()
    }

    /// Hands over a frame. False when the transport is no more: the turn must end.
    #[inline]
    pub(crate) fn deliver(&mut self, remote: Remote, frame: &[u8]) -> bool {
        self.frames += 1;
        self.octets += frame.len() as u64;
        self.handler.frame(self.io, self.id, remote, frame);
        self.io.contains(self.id)
    }

    /// The same for a frame that nobody has copied yet.
    #[inline]
    pub(crate) fn deliver_unread(&mut self, frame: Unread<'_>) -> bool {
        self.frames += 1;
        self.octets += frame.octets() as u64;
        self.handler.unread(self.io, self.id, frame);
        self.io.contains(self.id)
    }

    /// Counts a drop.
    pub(crate) fn count(&self, label: &'static str) {
        self.port.count_receive_drop(label);
    }

    /// Sets or clears the transport's timer.
    pub(crate) fn set_timer(&mut self, due_ns: Option<u64>) {
        self.io.set_timer(self.id, due_ns);
    }

    /// What an on-demand transport does when its timer is due: ends if it was idle for long, and otherwise sets the
    /// timer for when it will have been.
    pub(crate) fn end_if_idle(&mut self) -> Result<(), CloseReason> {
        let Some(due_ns) = self.port.expires_ns() else { return Ok(()) };
        if due_ns <= self.now_ns() {
            return Err(CloseReason::Idle);
        }
        self.set_timer(Some(due_ns));
        Ok(())
    }

    /// Writes what waits, as far as it is taken.
    pub(crate) fn flush(&mut self) {
        self.io.flush(&self.port);
    }

    /// Watches a descriptor that is not watched yet.
    pub(crate) fn watch(&self, descriptor: impl std::os::fd::AsFd, interest: Interest) {
        // Without a watch nothing comes of a connection attempt, and its timeout ends it.
        let _ = sockets::watch(&self.io.station.epoll, descriptor, self.id, interest);
    }

    /// Changes what a descriptor is watched for.
    pub(crate) fn rewatch(&self, descriptor: impl std::os::fd::AsFd, interest: Interest) {
        sockets::rewatch(&self.io.station.epoll, descriptor, self.id, interest);
    }

    /// The transport can send from now on.
    pub(crate) fn up(&mut self) {
        self.port.set_state(TransportState::Up);
        self.io.events.push_back(Event::Up(self.id));
    }
}

/// A listener's turn.
pub(crate) struct AcceptTurn<'a, P> {
    pub(crate) io: &'a mut Transports<P>,
    pub(crate) id: TransportId,
    pub(crate) handler: &'a mut dyn Handler<P>,
}

impl<P: AsRef<[u8]> + Clone + Send + 'static> AcceptTurn<'_, P> {
    pub(crate) fn options(&self) -> &IoOptions {
        self.io.options()
    }

    /// Whether another transport may be made.
    pub(crate) fn has_room(&self) -> bool {
        self.io.shared.has_room()
    }

    /// Counts a drop at the listener.
    pub(crate) fn count(&mut self, label: &'static str) {
        if let Some(Source::Listener(listener)) = self.io.source_mut(self.id) {
            listener.drops.count(label);
        }
    }

    /// Counts drops at the listener.
    pub(crate) fn add_drops(&mut self, label: &'static str, drops: u64) {
        if let Some(Source::Listener(listener)) = self.io.source_mut(self.id) {
            listener.drops.add(label, drops);
        }
    }

    /// Takes up a new transport, here or at another worker, with the datagram that made it known. One too many is
    /// closed again. `made` sees its port before anybody else does.
    pub(crate) fn welcome(
        &mut self,
        new: NewTransport<P>,
        first: Option<&[u8]>,
        made: impl FnOnce(&Arc<Port<P>>),
    ) {
        if !self.io.shared.reserve() {
            return self.count("too_many_transports");
        }
        let station =
            self.io.shared.idlest_for(&new.local, &new.about.remote).unwrap_or(&self.io.station).clone();
        station.load.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let (port, receiver) = Port::new(new, station.clone(), self.io.shared.clone());
        made(&port);
        if station.index != self.io.station.index {
            let first = first.map(<[u8]>::to_vec);
            let note = Note::Adopt { listener: self.id, port, receiver, first };
            return station.post(note, Some(self.io.station.index));
        }
        if self.io.adopt(self.id, port.clone(), receiver).is_err() {
            return self.count("accept_failed");
        }
        dispatch(self.io, self.handler);
        if let Some(first) = first {
            self.deliver(&port, first);
        }
    }

    /// Hands over a frame that reached the listener's socket instead of the transport's own.
    pub(crate) fn deliver(&mut self, port: &Arc<Port<P>>, frame: &[u8]) {
        let here = self.io.station.index;
        if port.station.index == here {
            self.io.deliver_early(port, None, frame, self.handler);
        } else if !port.station.deliver(port, frame, here) {
            self.count("handover_full");
        }
    }

    /// Takes up a new transport at this very worker, with the frame that made it known.
    pub(crate) fn welcome_here(
        &mut self,
        new: NewTransport<P>,
        first: &[u8],
        made: impl FnOnce(&Arc<Port<P>>),
    ) {
        let Ok(id) = self.io.add_transport(new) else { return self.count("accept_failed") };
        let Some(port) = self.io.port(id).cloned() else { return };
        made(&port);
        self.io.events.push_back(Event::Accepted { listener: self.id, transport: id });
        dispatch(self.io, self.handler);
        self.deliver_here(&port, None, first);
    }

    /// Hands over a frame, whichever worker reads its transport, and tells who sent it. Only for links that bring all
    /// frames of one sender to one worker.
    pub(crate) fn deliver_here(&mut self, port: &Arc<Port<P>>, remote: Remote, frame: &[u8]) {
        if port.station.index == self.io.station.index {
            self.io.deliver_early(port, remote, frame, self.handler);
        } else {
            self.io.deliver_foreign(port, remote, frame, self.handler);
        }
    }

    /// Takes up nobody for some time, since the system has no descriptor to give.
    pub(crate) fn rest(&mut self, socket: impl std::os::fd::AsFd) {
        self.count("accept_failed");
        self.io.set_timer(self.id, Some(self.io.now_ns().saturating_add(ACCEPT_REST_NS)));
        sockets::rewatch(&self.io.station.epoll, socket, self.id, Interest::Nothing);
    }
}
