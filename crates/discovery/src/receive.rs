//! Received messages: the checks before a signature is verified, and the effects of a message with
//! a valid signature.

use alloc::vec::Vec;

use crate::action::{Action, Note, Proof};
use crate::config::Config;
use crate::counters::Counter;
use crate::interface::{InterfaceId, Match, NeighborKey};
use crate::limits::{LOWERED_NS, SPREAD_ABOVE, SPREAD_NS, SPREAD_NS_MAX, VERIFYING_MAX};
use crate::link_address::LinkAddress;
use crate::machine::{Discovery, PendingVerification, ReceivedPacket};
use crate::message::Message;
use crate::neighbour::{FaceState, Neighbour, Phase};

/// The reason of a refusal, and whether the refusal counts as a fault of the sender.
struct Refusal {
    counter: Counter,
    is_fault: bool,
}

fn fault(counter: Counter) -> Refusal {
    Refusal { counter, is_fault: true }
}

fn refusal(counter: Counter) -> Refusal {
    Refusal { counter, is_fault: false }
}

impl Discovery {
    /// Processes a received packet whose name begins with `/ndp`.
    pub fn receive(&mut self, received: ReceivedPacket<'_>, now_ns: u64, out: &mut Vec<Action>) {
        if let Err(refusal) = self.admit(received, now_ns, out) {
            self.counters.count(refusal.counter);
            if refusal.is_fault {
                self.count_fault(received.interface, received.source, now_ns, out);
            }
        }
    }

    fn count_fault(
        &mut self,
        interface: InterfaceId,
        source: LinkAddress,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let (faults, quarantine_ns) = (self.config.quarantine_faults, self.config.quarantine_ns);
        let at = NeighborKey { interface, station: source.host() };
        if self.suspects.fault(at, faults, quarantine_ns, now_ns).is_newly_quarantined {
            out.push(Action::Note { interface, station: at.station, note: Note::Quarantined });
        }
    }

    /// Runs the cheap checks, then requests the check of the signature.
    fn admit(
        &mut self,
        received: ReceivedPacket<'_>,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let ReceivedPacket { interface: id, source, is_unicast, packet } = received;
        let interface = self.interfaces.get_mut(&id).ok_or(refusal(Counter::NoInterface))?;
        let own = interface.link.station;
        let mut message = Message::parse(packet).map_err(|_| fault(Counter::Malformed))?;
        let station = message.from.station;
        if station == own {
            // The message is this router's own, or another node has the same address. Discovery
            // cannot resolve such a conflict.
            return Ok(());
        }
        if station.host() != source.host() {
            return Err(fault(Counter::Spoofed));
        }
        // If the source is forged, this address would become the target of replies.
        if !interface.link.is_neighbor_address(station) {
            return Err(refusal(Counter::OtherNetwork));
        }
        let mut is_challenged = false;
        if message.is_reply {
            message.agreed_mtu = message.agreed_mtu.filter(|_| interface.stated_this_mtu(&message.digest));
            match interface.awaits(&message.digest, station, now_ns) {
                Match::Challenge => is_challenged = true,
                Match::Due => {}
                Match::Late => return Err(fault(Counter::Late)),
                Match::Nothing => return Err(fault(Counter::Unsolicited)),
            }
        }
        let peer = NeighborKey { interface: id, station };
        // Any peer can send wrong messages in the name of a neighbor, and so cause its quarantine.
        // An answer to a challenge is therefore admitted during a quarantine, and prevents the
        // removal of the neighbor.
        if !is_challenged && self.suspects.is_quarantined(peer, now_ns) {
            return Err(refusal(Counter::Quarantined));
        }
        // A UDP datagram can come from any network. A new peer must therefore send to the group,
        // because multicast does not leave the link.
        let is_uninvited = is_unicast && !message.is_reply && matches!(station, LinkAddress::Udp(_));
        self.check_sender(peer, &message, is_challenged, is_uninvited, now_ns, out)?;
        if self.verifying.len() >= VERIFYING_MAX {
            return Err(refusal(Counter::VerifyFull));
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let key = message.from.key;
        self.verifying
            .insert(ticket, PendingVerification { message, peer, source, is_unicast, is_challenged });
        out.push(Action::Verify { ticket, key, packet: packet.to_vec() });
        Ok(())
    }

    /// Checks if this link address may send this message now.
    fn check_sender(
        &mut self,
        peer: NeighborKey,
        message: &Message,
        is_challenged: bool,
        is_uninvited: bool,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if let Some(neighbour) = self.neighbours.get_mut(&peer) {
            if neighbour.key != message.from.key {
                return Err(self.other_key(peer, now_ns, out));
            }
            if is_challenged {
                // No rate limit applies: other peers may have used up the tokens in the neighbor's
                // name, and then only the answer prevents the removal of the neighbor.
                return Ok(());
            }
            if !message.is_reply && message.time_ms <= neighbour.time_ms {
                return Err(fault(Counter::Replayed));
            }
            return neighbour.bucket.take(now_ns).then_some(()).ok_or(refusal(Counter::RateLimited));
        }
        if is_uninvited {
            return Err(fault(Counter::Unsolicited));
        }
        if self.suspects.key(peer, now_ns).is_some_and(|key| key != message.from.key) {
            return Err(self.other_key(peer, now_ns, out));
        }
        let mtu = message.from.mtu;
        if mtu == 0 {
            // The message is a goodbye of a router that was no neighbor.
            return Err(refusal(Counter::Replayed));
        }
        if mtu < self.config.mtu_octets_min {
            return Err(self.too_small(peer, mtu, now_ns, out));
        }
        self.check_room(peer, now_ns, out)?;
        if !self.suspects.admit_stranger(now_ns) {
            return Err(refusal(Counter::StrangersLimited));
        }
        self.suspects.admit(peer, now_ns).then_some(()).ok_or(refusal(Counter::RateLimited))
    }

    fn other_key(&mut self, peer: NeighborKey, now_ns: u64, out: &mut Vec<Action>) -> Refusal {
        if self.suspects.is_first_note(peer, now_ns) {
            out.push(Action::Note { interface: peer.interface, station: peer.station, note: Note::OtherKey });
        }
        fault(Counter::OtherKey)
    }

    fn too_small(&mut self, peer: NeighborKey, mtu: usize, now_ns: u64, out: &mut Vec<Action>) -> Refusal {
        if self.suspects.is_first_note(peer, now_ns) {
            let note = Note::MtuTooSmall(mtu);
            out.push(Action::Note { interface: peer.interface, station: peer.station, note });
        }
        refusal(Counter::MtuTooSmall)
    }

    /// Checks that there is room for another neighbor. Existing neighbors are not evicted.
    fn check_room(&mut self, peer: NeighborKey, now_ns: u64, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let first = NeighborKey { station: FIRST, ..peer };
        let of_interface = self.neighbours.range(first..).take_while(|(p, _)| p.interface == peer.interface);
        let (count, found) = of_interface.fold((0, 0), |(count, found), (_, neighbour)| {
            (count + 1, found + usize::from(neighbour.phase == Phase::Found))
        });
        let Config { neighbours_max, neighbours_total_max, .. } = self.config;
        // Half of the slots are reserved for proven neighbors.
        let has_room = count < neighbours_max
            && found < neighbours_max.div_ceil(2)
            && self.neighbours.len() < neighbours_total_max;
        if has_room {
            return Ok(());
        }
        if self.suspects.is_first_note(peer, now_ns) {
            out.push(Action::Note { interface: peer.interface, station: peer.station, note: Note::NoRoom });
        }
        Err(refusal(Counter::TooManyNeighbours))
    }

    /// Reports the result of a signature check.
    pub fn verified(&mut self, ticket: u64, proof: Proof, now_ns: u64, out: &mut Vec<Action>) {
        let Some(verifying) = self.verifying.remove(&ticket) else { return };
        if proof == Proof::Invalid {
            self.counters.count(Counter::BadSignature);
            return self.count_fault(verifying.peer.interface, verifying.source, now_ns, out);
        }
        // Interfaces and neighbors may have changed since the check was requested, so their state
        // is read again.
        let PendingVerification { message, peer, is_unicast, is_challenged, .. } = verifying;
        self.changed();
        let Some(interface) = self.interfaces.get_mut(&peer.interface) else { return };
        if !interface.link.is_neighbor_address(peer.station) {
            return self.counters.count(Counter::OtherNetwork);
        }
        if message.is_reply {
            self.counters.count(Counter::RepliesHeard);
            interface.answered(&message.digest);
        } else {
            self.counters.count(Counter::HellosHeard);
        }
        match self.neighbours.get(&peer) {
            Some(neighbour) if neighbour.key != message.from.key => {
                self.counters.count(Counter::OtherKey);
            }
            Some(_) => self.receive_neighbour(peer, &message, is_unicast, is_challenged, now_ns, out),
            None => self.add_neighbour(peer, &message, is_challenged, now_ns, out),
        }
    }

    /// Adds a new neighbor. A reply to a multicast hello does not prove the link address, because
    /// the sender may have received the hello at another address. Only an answer to a challenge
    /// proves it.
    fn add_neighbour(
        &mut self,
        peer: NeighborKey,
        message: &Message,
        is_challenged: bool,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let Some(interface) = self.interfaces.get(&peer.interface) else { return };
        let mtu = interface.link.mtu.min(message.from.mtu);
        if let Err(refusal) = self.check_room(peer, now_ns, out) {
            return self.counters.count(refusal.counter);
        }
        let due_ns = now_ns.saturating_add(if message.is_reply { 0 } else { self.spread_ns() });
        self.neighbours.insert(peer, Neighbour::new(message, mtu, due_ns, now_ns));
        if is_challenged {
            self.prove(peer, message, now_ns, out);
        }
    }

    /// The delay of the reply to a new peer. With many neighbors, the delays spread the replies.
    fn spread_ns(&mut self) -> u64 {
        let neighbours = self.neighbours.len();
        if neighbours <= SPREAD_ABOVE {
            return 0;
        }
        let most_ns = (neighbours as u64).saturating_mul(SPREAD_NS).min(SPREAD_NS_MAX);
        self.draw() % most_ns
    }

    /// Applies a new message of a neighbor.
    fn receive_neighbour(
        &mut self,
        peer: NeighborKey,
        message: &Message,
        is_unicast: bool,
        is_challenged: bool,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let heartbeat_ns = self.config.heartbeat_ns;
        if !message.is_reply && message.from.mtu == 0 {
            self.counters.count(Counter::NeighboursLeft);
            return self.remove(peer, Some(Note::Left), now_ns, out);
        }
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return };
        if !message.is_reply && message.time_ms <= neighbour.time_ms {
            // Two copies of the same message were checked at the same time.
            return self.counters.count(Counter::Replayed);
        }
        // A reply answers a recent hello, so it is current regardless of its clock.
        neighbour.time_ms = message.time_ms;
        neighbour.received_ns = now_ns;
        // A quarantined neighbor stays, but its messages change nothing.
        let is_quarantined = self.suspects.is_quarantined(peer, now_ns);
        if !is_quarantined {
            self.apply_mtu(peer, message.from.mtu, message.agreed_mtu, now_ns, out);
        }
        if is_challenged {
            self.prove(peer, message, now_ns, out);
        }
        let Some(neighbour) = self.neighbours.get_mut(&peer).filter(|_| !is_quarantined) else { return };
        let is_restarted = neighbour.session != message.from.session;
        neighbour.session = message.from.session;
        if neighbour.is_proven() {
            neighbour.challenges = 0;
            neighbour.challenge_ns = now_ns.saturating_add(heartbeat_ns / 2 * 3);
        }
        neighbour.announced.clone_from(&message.from.prefixes);
        if !message.is_reply && (is_unicast || is_restarted) {
            self.reply(peer, message.name.clone(), out);
        }
        self.update_routes(peer, out);
    }

    /// Marks a neighbor as proven, because it has answered a challenge, and requests its face.
    fn prove(&mut self, peer: NeighborKey, message: &Message, now_ns: u64, out: &mut Vec<Action>) {
        let heartbeat_ns = self.config.heartbeat_ns;
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return };
        neighbour.challenges = 0;
        neighbour.challenge_ns = now_ns.saturating_add(heartbeat_ns / 2 * 3);
        if neighbour.is_proven() {
            return;
        }
        neighbour.phase = Phase::Proven;
        neighbour.face = FaceState::Requested;
        let (NeighborKey { interface, station }, mtu) = (peer, neighbour.mtu);
        self.counters.count(Counter::NeighboursProven);
        let note = Note::Proven { mtu, key: message.from.key };
        out.push(Action::Note { interface, station, note });
        out.push(Action::MakeFace { interface, station, mtu });
        self.fit_group(interface, out);
    }

    /// Applies the neighbor's MTU and, from a reply, the MTU for both ends.
    fn apply_mtu(
        &mut self,
        peer: NeighborKey,
        peer_mtu: usize,
        agreed_mtu: Option<usize>,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let min = self.config.mtu_octets_min;
        let Some(own) = self.interfaces.get(&peer.interface).map(|interface| interface.link.mtu) else {
            return;
        };
        let Some(neighbour) = self.neighbours.get_mut(&peer) else { return };
        if peer_mtu < min || agreed_mtu.is_some_and(|mtu| mtu < min) {
            return self.counters.count(Counter::MtuTooSmall);
        }
        let before = (neighbour.peer_mtu, neighbour.agreed_mtu);
        neighbour.peer_mtu = peer_mtu;
        // A hello with an unchanged MTU does not change the agreed MTU.
        if agreed_mtu.is_some() || peer_mtu != before.0 {
            neighbour.agreed_mtu = agreed_mtu;
        }
        let mtu = neighbour.fitting_mtu(own);
        if mtu < neighbour.mtu {
            if neighbour.lowered_ns.is_some_and(|at_ns| now_ns < at_ns.saturating_add(LOWERED_NS)) {
                (neighbour.peer_mtu, neighbour.agreed_mtu) = before;
                return self.counters.count(Counter::MtuLoweredTooOften);
            }
            neighbour.lowered_ns = Some(now_ns);
        }
        if mtu == neighbour.mtu {
            return;
        }
        neighbour.mtu = mtu;
        if !neighbour.is_proven() {
            return;
        }
        if let Some(face) = neighbour.made() {
            out.push(Action::SetMtu { face, mtu });
        }
        out.push(Action::Note { interface: peer.interface, station: peer.station, note: Note::Mtu(mtu) });
        self.fit_group(peer.interface, out);
    }

    /// Adds routes for the accepted prefixes of a proven neighbor, and removes the routes of
    /// prefixes that are no longer announced.
    pub(crate) fn update_routes(&mut self, peer: NeighborKey, out: &mut Vec<Action>) {
        let Discovery { neighbours, config, counters, .. } = self;
        let Some(neighbour) = neighbours.get_mut(&peer) else { return };
        let Some(face) = neighbour.made().filter(|_| neighbour.phase == Phase::Proven) else { return };
        let key = neighbour.key;
        let wanted = |prefix: &namely_wire::Name| config.accepts(&key, prefix.as_name());
        let NeighborKey { interface, station } = peer;
        for prefix in &neighbour.announced {
            if neighbour.accepted.contains(prefix) {
                continue;
            }
            let note = if wanted(prefix) {
                out.push(Action::AddRoute { face, prefix: prefix.clone() });
                neighbour.accepted.push(prefix.clone());
                Note::Accepted(prefix.clone())
            } else if neighbour.refused.contains(prefix) {
                continue;
            } else {
                counters.count(Counter::PrefixesRefused);
                neighbour.refused.push(prefix.clone());
                Note::Refused(prefix.clone())
            };
            out.push(Action::Note { interface, station, note });
        }
        let announced = &neighbour.announced;
        neighbour.refused.retain(|prefix| announced.contains(prefix));
        neighbour.accepted.retain(|prefix| {
            let stays = announced.contains(prefix);
            if !stays {
                out.push(Action::RemoveRoute { face, prefix: prefix.clone() });
            }
            stays
        });
    }
}

/// The least link address.
const FIRST: LinkAddress = LinkAddress::Ether([0; 6]);
