//! Settings that change while the machine runs.

use alloc::vec::Vec;

use crate::action::{Action, Note};
use crate::config::Config;
use crate::limits::HELLO_GAP_NS;
use crate::machine::{Discovery, Place};

impl Discovery {
    /// Has other settings from now on: what the router announces is said at once, and the
    /// neighbours that are there are judged anew. Where there are more than there may be now, they
    /// stay.
    pub fn reconfigure(&mut self, config: Config, now_ns: u64, out: &mut Vec<Action>) {
        self.changed();
        let before = core::mem::replace(&mut self.config, config);
        let heartbeat_ns = self.config.heartbeat_ns;
        // Neighbours reckon with the time between hellos that they have themselves.
        let is_said_anew = before.prefixes != self.config.prefixes || before.heartbeat_ns != heartbeat_ns;
        for (id, interface) in &mut self.interfaces {
            if is_said_anew {
                let sent_ns = self.sent_ns.get(id).copied().unwrap_or(0);
                interface.hello_ns = now_ns.max(sent_ns.saturating_add(HELLO_GAP_NS)).min(interface.hello_ns);
            }
        }
        let places: Vec<Place> = self.neighbours.keys().copied().collect();
        for place in places {
            let Some(neighbour) = self.neighbours.get_mut(&place) else { continue };
            let peer_mtu = neighbour.peer_mtu;
            if peer_mtu < self.config.mtu_octets_min {
                self.remove(place, Some(Note::MtuTooSmall(peer_mtu)), now_ns, out);
                continue;
            }
            neighbour.challenge_ns = neighbour.challenge_ns.min(now_ns.saturating_add(heartbeat_ns / 2 * 3));
            self.judge_routes(place, out);
        }
    }

    /// Takes back routes that no rule accepts any more, and looks anew at what was refused.
    fn judge_routes(&mut self, place: Place, out: &mut Vec<Action>) {
        let Some(neighbour) = self.neighbours.get_mut(&place) else { return };
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
        self.update_routes(place, out);
    }
}
