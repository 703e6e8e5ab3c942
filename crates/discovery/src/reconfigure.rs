//! Changes of the settings at run time.

use alloc::vec::Vec;

use crate::action::{Action, Note};
use crate::config::Config;
use crate::interface::NeighborKey;
use crate::limits::HELLO_GAP_NS;
use crate::machine::Discovery;

impl Discovery {
    /// Replaces the settings. A hello with changed prefixes is sent at once, and existing neighbors
    /// are checked against the new settings. Neighbors above a lowered maximum stay.
    pub fn reconfigure(&mut self, config: Config, now_ns: u64, out: &mut Vec<Action>) {
        self.changed();
        let before = core::mem::replace(&mut self.config, config);
        let heartbeat_ns = self.config.heartbeat_ns;
        // A changed heartbeat counts, too, because neighbors measure silence by their own
        // heartbeat, which may be much shorter than the time to the next planned hello.
        let is_hello_due = before.prefixes != self.config.prefixes || before.heartbeat_ns != heartbeat_ns;
        for (id, interface) in &mut self.interfaces {
            if is_hello_due {
                let sent_ns = self.sent_ns.get(id).copied().unwrap_or(0);
                interface.hello_ns = now_ns.max(sent_ns.saturating_add(HELLO_GAP_NS)).min(interface.hello_ns);
            }
        }
        let peers: Vec<NeighborKey> = self.neighbours.keys().copied().collect();
        for peer in peers {
            let Some(neighbour) = self.neighbours.get_mut(&peer) else { continue };
            let peer_mtu = neighbour.peer_mtu;
            if peer_mtu < self.config.mtu_octets_min {
                self.remove(peer, Some(Note::MtuTooSmall(peer_mtu)), now_ns, out);
                continue;
            }
            neighbour.challenge_ns = neighbour.challenge_ns.min(now_ns.saturating_add(heartbeat_ns / 2 * 3));
            self.recheck_routes(peer, out);
        }
    }

    /// Removes routes that no rule accepts any more, and checks refused prefixes again.
    fn recheck_routes(&mut self, peer: NeighborKey, out: &mut Vec<Action>) {
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return };
        let (key, made) = (neighbour.key, neighbour.made());
        let config = &self.config;
        neighbour.refused.retain(|prefix| !config.accepts(&key, prefix.as_name()));
        neighbour.accepted.retain(|prefix| {
            let stays = config.accepts(&key, prefix.as_name());
            if let Some(face) = made.filter(|_| !stays) {
                out.push(Action::RemoveRoute { face, prefix: prefix.clone() });
            }
            stays
        });
        self.update_routes(peer, out);
    }
}
