//! The state machine: interfaces, neighbors and timers.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::action::{Action, Note, Recipient};
use crate::config::Config;
use crate::counters::{Counter, Counters};
use crate::interface::{Interface, InterfaceId, LinkState, NeighborKey};
use crate::limits::{CHALLENGE_NS, CHALLENGES_MAX, FIRST_NS, HELLO_GAP_NS};
use crate::link_address::{Face, Key, LinkAddress};
use crate::message::{Message, OwnHello, OwnReply, RouterInfo};
use crate::neighbour::{FaceState, Neighbour, NeighbourStatus, Phase};
use crate::suspects::Suspects;

/// A received packet of discovery.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedPacket<'a> {
    /// The interface.
    pub interface: InterfaceId,
    /// The source of the frame.
    pub source: LinkAddress,
    /// True if the frame was sent to this router's link address only.
    pub is_unicast: bool,
    /// The Interest or Data.
    pub packet: &'a [u8],
}

/// Neighbor discovery on all links of a router. The crate's documentation describes how to drive
/// it.
#[derive(Debug)]
pub struct Discovery {
    pub(crate) config: Config,
    pub(crate) key: Key,
    /// Time of the last multicast hello on each interface, ns. Removed interfaces are included.
    pub(crate) sent_ns: BTreeMap<InterfaceId, u64>,
    random: u64,
    pub(crate) interfaces: BTreeMap<InterfaceId, Interface>,
    pub(crate) neighbours: BTreeMap<NeighborKey, Neighbour>,
    pub(crate) suspects: Suspects,
    pub(crate) verifying: BTreeMap<u64, PendingVerification>,
    pub(crate) next_ticket: u64,
    pub(crate) counters: Counters,
    /// Time of the next timer; 0 after a change.
    pub(crate) due_ns: u64,
    /// Incremented by each change of the neighbors' faces.
    pub(crate) changes: u64,
}

/// A neighbor's face, for the forwarding decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourFace {
    /// The interface.
    pub interface: InterfaceId,
    /// The face.
    pub face: Face,
    /// True if the MTU of the face is below the floor of the group MTU. Multicast packets are then
    /// also sent to this face.
    pub is_small: bool,
}

/// A message whose signature is being checked.
#[derive(Debug)]
pub(crate) struct PendingVerification {
    pub(crate) message: Message,
    pub(crate) peer: NeighborKey,
    pub(crate) source: LinkAddress,
    pub(crate) is_unicast: bool,
    /// True if the message answers a challenge of this link address.
    pub(crate) is_challenged: bool,
}

impl Discovery {
    /// Creates the discovery of a router with this key, without interfaces. `random` must be secret
    /// and used only once.
    pub fn new(config: Config, key: Key, random: u64, now_ns: u64) -> Self {
        Discovery {
            config,
            key,
            sent_ns: BTreeMap::new(),
            random: random | 1,
            interfaces: BTreeMap::new(),
            neighbours: BTreeMap::new(),
            suspects: Suspects::new(now_ns),
            verifying: BTreeMap::new(),
            next_ticket: 0,
            counters: Counters::default(),
            due_ns: 0,
            changes: 0,
        }
    }

    /// The settings.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Number of neighbors, unproven ones included.
    pub fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// Returns true if there are no neighbors.
    pub fn is_empty(&self) -> bool {
        self.neighbours.is_empty()
    }

    /// Number of link addresses with retained state that are not neighbors.
    pub fn stations(&self) -> usize {
        self.suspects.len()
    }

    /// The neighbors, by interface and station.
    pub fn neighbours(&self, now_ns: u64) -> impl Iterator<Item = NeighbourStatus> + '_ {
        self.neighbours.iter().map(move |(peer, neighbour)| NeighbourStatus {
            interface: peer.interface,
            station: peer.station,
            phase: neighbour.phase,
            face: neighbour.made(),
            mtu: neighbour.mtu,
            peer_mtu: neighbour.peer_mtu,
            key: neighbour.key,
            silent_ns: now_ns.saturating_sub(neighbour.received_ns),
            accepted: neighbour.accepted.clone(),
            refused: neighbour.refused.clone(),
        })
    }

    /// The faces of the neighbors, by interface and station.
    pub fn faces(&self) -> impl Iterator<Item = NeighbourFace> + '_ {
        let floor = self.config.group_mtu_octets_min;
        self.neighbours.iter().filter(|(_, neighbour)| neighbour.is_proven()).filter_map(
            move |(NeighborKey { interface, .. }, neighbour)| {
                let (interface, is_small) = (*interface, neighbour.mtu < floor);
                neighbour.made().map(|face| NeighbourFace { interface, face, is_small })
            },
        )
    }

    /// A generation number that changes with each change of [`Discovery::faces`].
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Marks a change, so that the next `tick` recomputes all timers, and [`Discovery::changes`]
    /// returns a new number.
    pub(crate) fn changed(&mut self) {
        self.due_ns = 0;
        self.changes = self.changes.wrapping_add(1);
    }

    /// Quarantined link addresses and their remaining time, ns.
    pub fn quarantined(&self, now_ns: u64) -> Vec<(InterfaceId, LinkAddress, u64)> {
        let all = self.suspects.quarantined(now_ns);
        all.map(|(id, station, until_ns)| (id, station, until_ns.saturating_sub(now_ns))).collect()
    }

    /// Reports that an interface is up, or has another link address or MTU; `None` reports that it
    /// is down or removed.
    pub fn interface(
        &mut self,
        id: InterfaceId,
        state: Option<LinkState>,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        self.changed();
        let Some(link) = state else {
            if self.interfaces.remove(&id).is_some() {
                let gone = |peer: &NeighborKey| peer.interface == id;
                self.remove_all(gone, Note::Expired, now_ns, out);
            }
            return;
        };
        let sent_ns = self.sent_ns.get(&id);
        let hello_ns = sent_ns.map_or(now_ns, |sent_ns| sent_ns.saturating_add(HELLO_GAP_NS)).max(now_ns);
        let session = self.draw();
        match self.interfaces.get_mut(&id) {
            Some(interface) if interface.link == link => return,
            Some(interface) => (interface.link, interface.hello_ns) = (link, hello_ns),
            None => drop(self.interfaces.insert(id, Interface::new(link, session, hello_ns, now_ns))),
        }
        // In another network, nothing is sent to neighbors of the former one.
        let is_elsewhere =
            |peer: &NeighborKey| peer.interface == id && !link.is_neighbor_address(peer.station);
        self.remove_all(is_elsewhere, Note::Expired, now_ns, out);
        self.fit_mtus(id, out);
    }

    /// Recomputes the MTUs of all faces of an interface from the limits of both ends.
    fn fit_mtus(&mut self, id: InterfaceId, out: &mut Vec<Action>) {
        let Some(interface) = self.interfaces.get(&id) else { return };
        let own = interface.link.mtu;
        for (_, neighbour) in self.neighbours.iter_mut().filter(|(peer, _)| peer.interface == id) {
            // The MTU is reported even if it is the same, because a new MTU of an interface also
            // changes the MTUs of its faces.
            neighbour.agreed_mtu = None;
            neighbour.mtu = neighbour.fitting_mtu(own);
            if let Some(face) = neighbour.made() {
                out.push(Action::SetMtu { face, mtu: neighbour.mtu });
            }
        }
        if let Some(interface) = self.interfaces.get_mut(&id) {
            interface.group_mtu = 0;
        }
    }

    /// Sets the group MTU, which must fit each proven neighbor except those below the floor. These
    /// receive multicast packets by unicast. An unproven peer does not reduce the group MTU.
    pub(crate) fn fit_group(&mut self, id: InterfaceId, out: &mut Vec<Action>) {
        let floor = self.config.group_mtu_octets_min;
        let of_interface = self.neighbours.iter().filter(|(peer, n)| peer.interface == id && n.is_proven());
        let mtus = of_interface.map(|(_, neighbour)| neighbour.mtu).filter(|mtu| *mtu >= floor);
        self.set_group_mtu(id, mtus.min().unwrap_or(usize::MAX), out);
    }

    fn set_group_mtu(&mut self, id: InterfaceId, mtu: usize, out: &mut Vec<Action>) {
        let Some(interface) = self.interfaces.get_mut(&id) else { return };
        let mtu = mtu.min(interface.link.mtu);
        if mtu != interface.group_mtu {
            interface.group_mtu = mtu;
            out.push(Action::SetGroupMtu { interface: id, mtu });
        }
    }

    /// Runs the timers that are due and returns the time of the next call, ns. Without a change or
    /// a due timer, no neighbor is visited.
    pub fn tick(&mut self, now_ns: u64, out: &mut Vec<Action>) -> Option<u64> {
        if now_ns >= self.due_ns {
            self.due_ns = self.do_due(now_ns, out).unwrap_or(u64::MAX);
        }
        (self.due_ns < u64::MAX).then_some(self.due_ns)
    }

    fn do_due(&mut self, now_ns: u64, out: &mut Vec<Action>) -> Option<u64> {
        let ids: Vec<InterfaceId> = self.interfaces.keys().copied().collect();
        for id in ids {
            self.fit_group(id, out);
            if self.interfaces.get(&id).is_some_and(|interface| interface.hello_ns <= now_ns) {
                self.send_hello(id, now_ns, out);
            }
        }
        let heartbeat_ns = self.config.heartbeat_ns;
        let is_due = |neighbour: &Neighbour| neighbour.due_ns(heartbeat_ns) <= now_ns;
        let due: Vec<NeighborKey> =
            self.neighbours.iter().filter(|(_, n)| is_due(n)).map(|(peer, _)| *peer).collect();
        due.into_iter().for_each(|peer| self.run_timer(peer, now_ns, out));
        let hellos = self.interfaces.values().map(|interface| interface.hello_ns);
        let neighbours = self.neighbours.values().map(|neighbour| neighbour.due_ns(heartbeat_ns));
        hellos.chain(neighbours).min()
    }

    /// Multicasts a hello and sets the time of the next one. By random jitter, that is a little
    /// early, so that routers that were started together do not send together.
    fn send_hello(&mut self, id: InterfaceId, now_ns: u64, out: &mut Vec<Action>) {
        let jitter_ns = self.draw() % (self.config.heartbeat_ns / 5).max(1);
        let Some(interface) = self.interfaces.get_mut(&id) else { return };
        interface.hello_ns = now_ns.saturating_add(self.config.heartbeat_ns).saturating_sub(jitter_ns);
        let is_first = now_ns < interface.up_ns.saturating_add(FIRST_NS);
        let floor = self.config.group_mtu_octets_min;
        self.sent_ns.insert(id, now_ns);
        self.counters.count(Counter::HellosSent);
        let Some(about) = self.about(id) else { return };
        // The neighbors are not known yet, so the hello must fit the smallest MTU. After the hello,
        // `fit_group` restores the larger MTU for other packets: to fragment these would cost more
        // than the loss.
        if is_first {
            self.set_group_mtu(id, self.config.mtu_octets_min, out);
        }
        out.push(Action::SendHello { interface: id, to: None, hello: OwnHello(about) });
        self.fit_group(id, out);
        // The hello may be longer than these neighbors can receive, so they are challenged by
        // unicast.
        let is_small =
            |(peer, n): &(&NeighborKey, &Neighbour)| peer.interface == id && n.is_proven() && n.mtu < floor;
        let small: Vec<NeighborKey> =
            self.neighbours.iter().filter(is_small).map(|(peer, _)| *peer).collect();
        small.into_iter().for_each(|peer| self.challenge(peer, now_ns, out));
    }

    /// Handles a due timer of a neighbor: sends a challenge or removes the neighbor.
    fn run_timer(&mut self, peer: NeighborKey, now_ns: u64, out: &mut Vec<Action>) {
        let heartbeat_ns = self.config.heartbeat_ns;
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return };
        let is_unproven = neighbour.phase == Phase::Found && neighbour.challenges >= CHALLENGES_MAX;
        if neighbour.end_ns(heartbeat_ns) <= now_ns || is_unproven && neighbour.challenge_ns <= now_ns {
            let counter = if is_unproven { Counter::NeighboursUnproven } else { Counter::NeighboursExpired };
            self.counters.count(counter);
            return self.remove(peer, (!is_unproven).then_some(Note::Expired), now_ns, out);
        }
        if neighbour.challenge_ns <= now_ns {
            if let Some(name) = neighbour.unanswered.take() {
                self.reply(peer, name, out);
            }
            self.challenge(peer, now_ns, out);
        }
    }

    /// Challenges one link address: sends a hello that it must answer.
    pub(crate) fn challenge(&mut self, peer: NeighborKey, now_ns: u64, out: &mut Vec<Action>) {
        let heartbeat_ns = self.config.heartbeat_ns;
        let about = self.about(peer.interface);
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return };
        neighbour.challenges = neighbour.challenges.saturating_add(1);
        let wait_ns = if neighbour.phase == Phase::Found { CHALLENGE_NS } else { heartbeat_ns / 2 };
        neighbour.challenge_ns = now_ns.saturating_add(wait_ns);
        let Some(about) = about else { return };
        self.counters.count(Counter::ChallengesSent);
        let to = Some(Recipient { station: peer.station, face: neighbour.made(), mtu: neighbour.mtu });
        out.push(Action::SendHello { interface: peer.interface, to, hello: OwnHello(about) });
    }

    /// Reports a signed hello. `digest` is the parameters digest that ends its name.
    pub fn hello_sent(
        &mut self,
        interface: InterfaceId,
        to: Option<LinkAddress>,
        digest: [u8; 32],
        now_ns: u64,
    ) {
        if let Some(interface) = self.interfaces.get_mut(&interface) {
            interface.sent(digest, to, now_ns);
        }
    }

    /// Reports that a requested face was made; `None` reports that it could not be made.
    pub fn face_made(
        &mut self,
        interface: InterfaceId,
        station: LinkAddress,
        made: Option<Face>,
        out: &mut Vec<Action>,
    ) {
        self.changed();
        let peer = NeighborKey { interface, station };
        let waiting = self.neighbours.get_mut(&peer).filter(|n| n.face == FaceState::Requested);
        let (Some(neighbour), Some(face)) = (waiting, made) else {
            match made {
                // The neighbor was removed while the face was made.
                Some(face) => out.push(Action::DestroyFace { face }),
                None => {
                    self.counters.count(Counter::FacesRefused);
                    self.neighbours.remove(&peer);
                }
            }
            return;
        };
        neighbour.face = FaceState::Created(face);
        self.update_routes(peer, out);
    }

    /// Sends the reply to a hello.
    pub(crate) fn reply(&mut self, peer: NeighborKey, name: namely_wire::Name, out: &mut Vec<Action>) {
        let (Some(own), Some(neighbour)) = (self.about(peer.interface), self.neighbours.get(&peer)) else {
            return;
        };
        let to = Recipient { station: peer.station, face: neighbour.made(), mtu: neighbour.mtu };
        let agreed = neighbour.mtu;
        self.counters.count(Counter::RepliesSent);
        out.push(Action::SendReply { interface: peer.interface, to, reply: OwnReply { name, own, agreed } });
    }

    /// Reports that a face failed or was destroyed by another part of the router.
    pub fn face_closed(&mut self, face: Face, now_ns: u64, out: &mut Vec<Action>) {
        let peer = self.neighbours.iter().find(|(_, n)| n.made() == Some(face)).map(|(peer, _)| *peer);
        let Some(peer) = peer else { return };
        // The face no longer exists, so `remove` must not destroy it.
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            neighbour.face = FaceState::Requested;
        }
        self.remove(peer, Some(Note::Expired), now_ns, out);
    }

    /// Announces the stop of the router on all interfaces.
    pub fn goodbye(&mut self, out: &mut Vec<Action>) {
        for id in self.interfaces.keys() {
            if let Some(mut about) = self.about(*id) {
                about.mtu = 0;
                about.prefixes.clear();
                out.push(Action::SendHello { interface: *id, to: None, hello: OwnHello(about) });
            }
        }
    }

    /// Removes a neighbor with its face and its routes.
    pub(crate) fn remove(
        &mut self,
        peer: NeighborKey,
        note: Option<Note>,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let Some(neighbour) = self.neighbours.remove(&peer) else { return };
        self.changed();
        // The key of an unproven neighbor is not retained, because any peer could have used the
        // link address.
        if neighbour.phase == Phase::Proven && note != Some(Note::Left) {
            self.suspects.remember(peer, neighbour.key, now_ns);
        }
        if let Some(face) = neighbour.made() {
            out.push(Action::DestroyFace { face });
        }
        if let Some(note) = note {
            out.push(Action::Note { interface: peer.interface, station: peer.station, note });
        }
    }

    fn remove_all(
        &mut self,
        is_gone: impl Fn(&NeighborKey) -> bool,
        note: Note,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let gone: Vec<NeighborKey> = self.neighbours.keys().filter(|peer| is_gone(peer)).copied().collect();
        gone.into_iter().for_each(|peer| self.remove(peer, Some(note.clone()), now_ns, out));
    }

    /// The description of this router in its messages on an interface.
    fn about(&self, id: InterfaceId) -> Option<RouterInfo> {
        let Interface { link, session, .. } = self.interfaces.get(&id)?;
        Some(RouterInfo {
            station: link.station,
            mtu: link.mtu,
            prefixes: self.config.prefixes.clone(),
            key: self.key,
            session: *session,
        })
    }

    /// Returns a pseudorandom number that is hard to predict from a few others. No secret depends
    /// on it.
    pub(crate) fn draw(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
