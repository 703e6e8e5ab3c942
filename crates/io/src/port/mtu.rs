//! The maximum length of a port's frames, from the MTU of the link and that of the path to the
//! peer.

use std::sync::atomic::Ordering;

use namely_link::LinkKind;

use super::FaceSender;
use super::state::FaceSenderState;

impl<P: AsRef<[u8]> + Clone> FaceSender<P> {
    /// Sets a new MTU of the link. `before` is the previous one. A shorter length that management
    /// set stays.
    pub(crate) fn set_mtu(&self, octets: usize, before: Option<usize>) {
        // Relaxed: only the status reads it.
        self.mtu.store(octets, Ordering::Relaxed);
        let mut state = self.state.lock();
        // A length below the link's previous MTU was set by management, and stays as long as it
        // fits.
        let may_grow = !self.holds_mtu.load(Ordering::Relaxed);
        let mut config = *state.link.config();
        if let LinkKind::Datagram { mtu } = &mut config.kind
            && (*mtu > octets || may_grow && before.is_none_or(|before| *mtu >= before))
        {
            *mtu = octets.clamp(namely_link::MTU_OCTETS_MIN, namely_wire::LP_PACKET_OCTETS_MAX);
            state.link.reconfigure(config);
        }
    }

    /// Sets a new MTU of the path to the peer. The link service fragments to it from now on, unless
    /// management set another length.
    pub(crate) fn follow_path(&self, octets: usize) {
        self.follow_path_with(&mut self.state.lock(), octets);
    }

    pub(super) fn follow_path_with(&self, state: &mut FaceSenderState<P>, octets: usize) {
        let before = self.path_octets.swap(octets, Ordering::Relaxed);
        let mut config = *state.link.config();
        // A length that differs from the path's was set by management, and stays.
        if let LinkKind::Datagram { mtu } = &mut config.kind
            && *mtu == path_mtu(before)
            && before != octets
        {
            *mtu = path_mtu(octets);
            tracing::debug!(remote = %self.info.remote, mtu = *mtu, "the path's MTU");
            state.link.reconfigure(config);
            self.note_config(state);
        }
    }

    /// Returns the longest frame to send if the path determines it, octets.
    pub(super) fn path_mtu(&self) -> Option<usize> {
        Some(self.path_octets.load(Ordering::Relaxed)).filter(|path| *path > 0).map(path_mtu)
    }

    /// Copies to the mirror the link settings that the receiving side reads without the lock. Lets
    /// the link service discover the path's MTU while the length of its frames follows the path.
    pub(super) fn note_config(&self, state: &mut FaceSenderState<P>) {
        let config = *state.link.config();
        self.mirror.local_fields.store(config.local_fields, Ordering::Relaxed);
        self.mirror.is_reliable.store(config.reliability, Ordering::Relaxed);
        // A length that management set takes precedence over the path's.
        let octets = self.path_octets.load(Ordering::Relaxed);
        let follows = octets > 0 && config.kind == LinkKind::Datagram { mtu: path_mtu(octets) };
        state.link.discover_path(follows);
    }
}

/// Returns the longest frame to send if a frame of `octets` reaches the peer in one piece.
fn path_mtu(octets: usize) -> usize {
    // Some paths, such as the loopback, carry more octets than the longest packet.
    octets.clamp(namely_link::MTU_OCTETS_MIN, namely_wire::PACKET_OCTETS_MAX)
}
