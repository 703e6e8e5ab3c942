//! How long the frames of a port may be: what the link carries, and what the path to the peer does.

use std::sync::atomic::Ordering;

use namely_link::LinkKind;

use super::FacePort;
use super::state::PortState;

impl<P: AsRef<[u8]> + Clone> FacePort<P> {
    /// The longest frame that the link carries is another one. What management set below it stays.
    pub(crate) fn set_mtu(&self, octets: usize, before: Option<usize>) {
        self.mtu.store(octets, Ordering::Relaxed);
        let mut state = self.state.lock();
        let may_grow = !self.holds_mtu.load(Ordering::Relaxed);
        let mut config = *state.link.config();
        if let LinkKind::Datagram { mtu } = &mut config.kind
            && (*mtu > octets || may_grow && before.is_none_or(|before| *mtu >= before))
        {
            *mtu = octets.clamp(namely_link::MTU_OCTETS_MIN, namely_wire::LP_PACKET_OCTETS_MAX);
            state.link.reconfigure(config);
        }
    }

    /// The path to the peer carries other frames in one piece than before. Fragments are made for
    /// it from now on, unless management set another length.
    pub(crate) fn follow_path(&self, octets: usize) {
        self.follow_path_with(&mut self.state.lock(), octets);
    }

    pub(super) fn follow_path_with(&self, state: &mut PortState<P>, octets: usize) {
        let before = self.path_octets.swap(octets, Ordering::Relaxed);
        let mut config = *state.link.config();
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

    /// The longest frame to send where the path decides, octets.
    pub(super) fn path_mtu(&self) -> Option<usize> {
        Some(self.path_octets.load(Ordering::Relaxed)).filter(|path| *path > 0).map(path_mtu)
    }

    /// Copies what the receiving side needs of the link's settings to where it reads without the
    /// lock.
    pub(super) fn note_config(&self, state: &mut PortState<P>) {
        let config = *state.link.config();
        self.local_fields.store(config.local_fields, Ordering::Relaxed);
        self.is_reliable.store(config.reliability, Ordering::Relaxed);
        // What management set holds, whatever the path.
        let told = self.path_octets.load(Ordering::Relaxed);
        let follows = told > 0 && config.kind == LinkKind::Datagram { mtu: path_mtu(told) };
        state.link.discover_path(follows);
    }
}

/// The longest frame to send where `octets` reach the peer in one piece.
fn path_mtu(octets: usize) -> usize {
    octets.clamp(namely_link::MTU_OCTETS_MIN, namely_wire::PACKET_OCTETS_MAX)
}
