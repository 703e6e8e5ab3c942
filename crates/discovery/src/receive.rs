//! What is heard: what is refused before a signature is looked at, and what follows from one that
//! was right.

use alloc::vec::Vec;

use crate::action::{Action, Note, Proof};
use crate::config::Config;
use crate::counters::Counter;
use crate::interface::{InterfaceId, Match};
use crate::limits::{LOWERED_NS, SPREAD_ABOVE, SPREAD_NS, SPREAD_NS_MAX, VERIFYING_MAX};
use crate::machine::{Discovery, Heard, Place, Verifying};
use crate::message::Message;
use crate::neighbour::{FaceState, Neighbour, Phase};
use crate::station::Station;

/// Why a message is refused, and whether that is held against where it came from.
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
    /// A packet was heard whose name begins with `/ndp`.
    pub fn hear(&mut self, heard: Heard<'_>, now_ns: u64, out: &mut Vec<Action>) {
        if let Err(refusal) = self.admit(heard, now_ns, out) {
            self.counters.count(refusal.counter);
            if refusal.is_fault {
                self.blame(heard.interface, heard.source, now_ns, out);
            }
        }
    }

    fn blame(&mut self, interface: InterfaceId, source: Station, now_ns: u64, out: &mut Vec<Action>) {
        let (faults, quarantine_ns) = (self.config.quarantine_faults, self.config.quarantine_ns);
        let at = (interface, source.host());
        if self.suspects.fault(at, faults, quarantine_ns, now_ns).is_newly_quarantined {
            out.push(Action::Note { interface, station: at.1, note: Note::Quarantined });
        }
    }

    /// Looks at what is cheap to see, and asks for the signature to be checked.
    fn admit(&mut self, heard: Heard<'_>, now_ns: u64, out: &mut Vec<Action>) -> Result<(), Refusal> {
        let Heard { interface: id, source, is_unicast, packet } = heard;
        let interface = self.interfaces.get_mut(&id).ok_or(refusal(Counter::NoInterface))?;
        let own = interface.link.station;
        let at = (id, source.host());
        let mut message = Message::parse(packet).map_err(|_| fault(Counter::Malformed))?;
        let station = message.from.station;
        if station == own {
            // It came back, or somebody has the same address, which nothing here can mend.
            return Ok(());
        }
        if station.host() != at.1 {
            return Err(fault(Counter::Spoofed));
        }
        // Whose source is forged, that would only be the target of what is sent there.
        if !interface.link.contains(station) {
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
        // Anybody can send what is wrong in the name of a neighbour. So what that neighbour was
        // challenged to say is let in: by this it stays, and by this alone.
        if !is_challenged && self.suspects.is_quarantined(at, now_ns) {
            return Err(refusal(Counter::Quarantined));
        }
        let place = (id, station);
        // Over IP a datagram may come from anywhere: who is new speaks to the group, which does not
        // leave the link.
        let is_uninvited = is_unicast && !message.is_reply && matches!(station, Station::Udp(_));
        let how = (&message, is_challenged, is_uninvited);
        self.check_sender(place, at, how, now_ns, out)?;
        if self.verifying.len() >= VERIFYING_MAX {
            return Err(refusal(Counter::VerifyFull));
        }
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let key = message.from.key;
        self.verifying.insert(ticket, Verifying { message, place, source, is_unicast, is_challenged });
        out.push(Action::Verify { ticket, key, packet: packet.to_vec() });
        Ok(())
    }

    /// Whether this station may say this now.
    fn check_sender(
        &mut self,
        place: Place,
        at: Place,
        (message, is_challenged, is_uninvited): (&Message, bool, bool),
        now_ns: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        if let Some(neighbour) = self.neighbours.get_mut(&place) {
            if neighbour.key != message.from.key {
                return Err(self.other_key(place, at, now_ns, out));
            }
            if is_challenged {
                // By this it stays, however much others send in its name.
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
        if self.suspects.key(at, now_ns).is_some_and(|key| key != message.from.key) {
            return Err(self.other_key(place, at, now_ns, out));
        }
        let mtu = message.from.mtu;
        if mtu == 0 {
            // A goodbye of somebody who was not here.
            return Err(refusal(Counter::Replayed));
        }
        if mtu < self.config.mtu_octets_min {
            return Err(self.too_small(place, at, mtu, now_ns, out));
        }
        self.check_room(place, at, now_ns, out)?;
        if !self.suspects.admit_stranger(now_ns) {
            return Err(refusal(Counter::StrangersLimited));
        }
        self.suspects.admit(at, now_ns).then_some(()).ok_or(refusal(Counter::RateLimited))
    }

    fn other_key(&mut self, place: Place, at: Place, now_ns: u64, out: &mut Vec<Action>) -> Refusal {
        if self.suspects.is_first_note(at, now_ns) {
            out.push(Action::Note { interface: place.0, station: place.1, note: Note::OtherKey });
        }
        fault(Counter::OtherKey)
    }

    fn too_small(
        &mut self,
        place: Place,
        at: Place,
        mtu: usize,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) -> Refusal {
        if self.suspects.is_first_note(at, now_ns) {
            let note = Note::MtuTooSmall(mtu);
            out.push(Action::Note { interface: place.0, station: place.1, note });
        }
        refusal(Counter::MtuTooSmall)
    }

    /// Whether there is room for another neighbour. Those that are there stay.
    fn check_room(
        &mut self,
        place: Place,
        at: Place,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let of_interface = self.neighbours.range((place.0, FIRST)..).take_while(|(p, _)| p.0 == place.0);
        let (count, found) = of_interface.fold((0, 0), |(count, found), (_, neighbour)| {
            (count + 1, found + usize::from(neighbour.phase == Phase::Found))
        });
        let Config { neighbours_max, neighbours_total_max, .. } = self.config;
        // Half of the room is for those that have shown that they are there.
        let has_room = count < neighbours_max
            && found < neighbours_max.div_ceil(2)
            && self.neighbours.len() < neighbours_total_max;
        if has_room {
            return Ok(());
        }
        if self.suspects.is_first_note(at, now_ns) {
            out.push(Action::Note { interface: place.0, station: place.1, note: Note::NoRoom });
        }
        Err(refusal(Counter::TooManyNeighbours))
    }

    /// What became of a signature.
    pub fn verified(&mut self, ticket: u64, proof: Proof, now_ns: u64, out: &mut Vec<Action>) {
        let Some(verifying) = self.verifying.remove(&ticket) else { return };
        if proof == Proof::Wrong {
            self.counters.count(Counter::BadSignature);
            return self.blame(verifying.place.0, verifying.source, now_ns, out);
        }
        // Something may have changed meanwhile.
        let Verifying { message, place, is_unicast, is_challenged, .. } = verifying;
        self.changed();
        let Some(interface) = self.interfaces.get_mut(&place.0) else { return };
        if message.is_reply {
            self.counters.count(Counter::RepliesHeard);
            interface.answered(&message.digest);
        } else {
            self.counters.count(Counter::HellosHeard);
        }
        match self.neighbours.get(&place) {
            Some(neighbour) if neighbour.key != message.from.key => {
                self.counters.count(Counter::OtherKey);
            }
            Some(_) => self.hear_neighbour(place, &message, (is_unicast, is_challenged), now_ns, out),
            None => self.meet(place, &message, is_challenged, now_ns, out),
        }
    }

    /// Somebody new. Whoever answers a multicast hello may have heard it without being where it
    /// says: only an answer to a challenge proves that.
    fn meet(
        &mut self,
        place: Place,
        message: &Message,
        is_challenged: bool,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let Some(interface) = self.interfaces.get(&place.0) else { return };
        let mtu = interface.link.mtu.min(message.from.mtu);
        if let Err(refusal) = self.check_room(place, (place.0, place.1.host()), now_ns, out) {
            return self.counters.count(refusal.counter);
        }
        let due_ns = now_ns.saturating_add(if message.is_reply { 0 } else { self.spread_ns() });
        self.neighbours.insert(place, Neighbour::new(message, mtu, due_ns, now_ns));
        if is_challenged {
            self.prove(place, message, now_ns, out);
        }
    }

    /// How late a reply to somebody new is: where there are many, not all speak at once.
    fn spread_ns(&mut self) -> u64 {
        let neighbours = self.neighbours.len();
        if neighbours <= SPREAD_ABOVE {
            return 0;
        }
        let most_ns = (neighbours as u64).saturating_mul(SPREAD_NS).min(SPREAD_NS_MAX);
        self.draw() % most_ns
    }

    /// A neighbour said something new.
    fn hear_neighbour(
        &mut self,
        place: Place,
        message: &Message,
        (is_unicast, is_challenged): (bool, bool),
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let heartbeat_ns = self.config.heartbeat_ns;
        if !message.is_reply && message.from.mtu == 0 {
            self.counters.count(Counter::NeighboursLeft);
            return self.remove(place, Some(Note::Left), now_ns, out);
        }
        let Some(neighbour) = self.neighbours.get_mut(&place) else { return };
        if !message.is_reply && message.time_ms <= neighbour.time_ms {
            // Two of the same were checked at once.
            return self.counters.count(Counter::Replayed);
        }
        // What it replies to is of now, whatever its clock says.
        neighbour.time_ms = message.time_ms;
        neighbour.heard_ns = now_ns;
        // In quarantine it stays, and changes nothing.
        let is_quarantined = self.suspects.is_quarantined((place.0, place.1.host()), now_ns);
        if !is_quarantined {
            self.take_mtu(place, (message.from.mtu, message.agreed_mtu), now_ns, out);
        }
        if is_challenged {
            self.prove(place, message, now_ns, out);
        }
        let Some(neighbour) = self.neighbours.get_mut(&place).filter(|_| !is_quarantined) else { return };
        let is_restarted = neighbour.session != message.from.session;
        neighbour.session = message.from.session;
        if neighbour.is_proven() {
            neighbour.challenges = 0;
            neighbour.challenge_ns = now_ns.saturating_add(heartbeat_ns / 2 * 3);
        }
        neighbour.announced.clone_from(&message.from.prefixes);
        if !message.is_reply && (is_unicast || is_restarted) {
            self.reply(place, message.name.clone(), out);
        }
        self.update_routes(place, out);
    }

    /// The station has answered a challenge: it is a neighbour, and gets a face.
    fn prove(&mut self, place: Place, message: &Message, now_ns: u64, out: &mut Vec<Action>) {
        let heartbeat_ns = self.config.heartbeat_ns;
        let Some(neighbour) = self.neighbours.get_mut(&place) else { return };
        neighbour.challenges = 0;
        neighbour.challenge_ns = now_ns.saturating_add(heartbeat_ns / 2 * 3);
        if neighbour.is_proven() {
            return;
        }
        neighbour.phase = Phase::Proven;
        neighbour.face = FaceState::Asked;
        let ((interface, station), mtu) = (place, neighbour.mtu);
        self.counters.count(Counter::NeighboursProven);
        let note = Note::Proven { mtu, key: message.from.key };
        out.push(Action::Note { interface, station, note });
        out.push(Action::MakeFace { interface, station, mtu });
        self.fit_group(interface, out);
    }

    /// The neighbour says what its MTU is and, in a reply, what both can take.
    fn take_mtu(
        &mut self,
        place: Place,
        (peer_mtu, agreed_mtu): (usize, Option<usize>),
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let min = self.config.mtu_octets_min;
        let Some(own) = self.interfaces.get(&place.0).map(|interface| interface.link.mtu) else { return };
        let Some(neighbour) = self.neighbours.get_mut(&place) else { return };
        if peer_mtu < min || agreed_mtu.is_some_and(|mtu| mtu < min) {
            return self.counters.count(Counter::MtuTooSmall);
        }
        let before = (neighbour.peer_mtu, neighbour.agreed_mtu);
        neighbour.peer_mtu = peer_mtu;
        // A hello that says the same as before says nothing of what was agreed on.
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
        out.push(Action::Note { interface: place.0, station: place.1, note: Note::Mtu(mtu) });
        self.fit_group(place.0, out);
    }

    /// Makes routes of what a proven neighbour announces and may, and of nothing else.
    pub(crate) fn update_routes(&mut self, place: Place, out: &mut Vec<Action>) {
        let Discovery { neighbours, config, counters, .. } = self;
        let Some(neighbour) = neighbours.get_mut(&place) else { return };
        let Some(face) = neighbour.made().filter(|_| neighbour.phase == Phase::Proven) else { return };
        let key = neighbour.key;
        let wanted = |prefix: &namely_wire::Name| config.accepts(&key, prefix.as_name());
        let (interface, station) = place;
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

/// The least station.
const FIRST: Station = Station::Ether([0; 6]);
