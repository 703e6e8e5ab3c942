//! The state machine: interfaces, neighbours, and when what is due.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::action::{Action, Note, Recipient};
use crate::config::Config;
use crate::counters::{Counter, Counters};
use crate::interface::{Interface, InterfaceId, LinkState};
use crate::limits::{CHALLENGE_NS, CHALLENGES_MAX, FIRST_NS, HELLO_GAP_NS};
use crate::message::{About, Message, OwnHello, OwnReply};
use crate::neighbour::{FaceState, Neighbour, NeighbourStatus, Phase};
use crate::station::{Face, Key, Station};
use crate::suspects::Suspects;

/// A neighbour is known by where it is.
pub(crate) type Place = (InterfaceId, Station);

/// A packet of discovery that was heard.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// On which interface.
    pub interface: InterfaceId,
    /// Where the frame came from.
    pub source: Station,
    /// It was sent to this station only.
    pub is_unicast: bool,
    /// The Interest or Data.
    pub packet: &'a [u8],
}

/// Neighbour discovery on all links of a router. See the crate's documentation for how it is
/// driven.
#[derive(Debug)]
pub struct Discovery {
    pub(crate) config: Config,
    pub(crate) key: Key,
    /// When a hello was last multicast on each interface, those that have gone too, ns.
    pub(crate) sent_ns: BTreeMap<InterfaceId, u64>,
    random: u64,
    pub(crate) interfaces: BTreeMap<InterfaceId, Interface>,
    pub(crate) neighbours: BTreeMap<Place, Neighbour>,
    pub(crate) suspects: Suspects,
    pub(crate) verifying: BTreeMap<u64, Verifying>,
    pub(crate) next_ticket: u64,
    pub(crate) counters: Counters,
    /// When something is due; 0 after a change.
    pub(crate) due_ns: u64,
    /// Rises with each change of the neighbours' faces.
    pub(crate) changes: u64,
}

/// A neighbour's face, for who decides where packets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourFace {
    /// On which interface.
    pub interface: InterfaceId,
    /// The face.
    pub face: Face,
    /// Its MTU is below the floor of what is multicast: it receives that by unicast.
    pub is_small: bool,
}

/// A message whose signature is being checked.
#[derive(Debug)]
pub(crate) struct Verifying {
    pub(crate) message: Message,
    pub(crate) place: Place,
    pub(crate) source: Station,
    pub(crate) is_unicast: bool,
    /// It answers a challenge of this very station.
    pub(crate) is_challenged: bool,
}

impl Discovery {
    /// Discovery of a router with this key, on no interface yet. `random` is secret and never used
    /// again.
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

    /// What happened so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many neighbours there are, those that are only found among them.
    pub fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.neighbours.is_empty()
    }

    /// Stations that are remembered beside neighbours.
    pub fn stations(&self) -> usize {
        self.suspects.len()
    }

    /// The neighbours, by interface and station.
    pub fn neighbours(&self, now_ns: u64) -> impl Iterator<Item = NeighbourStatus> + '_ {
        self.neighbours.iter().map(move |(place, neighbour)| NeighbourStatus {
            interface: place.0,
            station: place.1,
            phase: neighbour.phase,
            face: neighbour.made(),
            mtu: neighbour.mtu,
            peer_mtu: neighbour.peer_mtu,
            key: neighbour.key,
            silent_ns: now_ns.saturating_sub(neighbour.heard_ns),
            accepted: neighbour.accepted.clone(),
            refused: neighbour.refused.clone(),
        })
    }

    /// The faces of the neighbours, by interface and station.
    pub fn faces(&self) -> impl Iterator<Item = NeighbourFace> + '_ {
        let floor = self.config.group_mtu_octets_min;
        self.neighbours.iter().filter(|(_, neighbour)| neighbour.is_proven()).filter_map(
            move |((interface, _), neighbour)| {
                let (interface, is_small) = (*interface, neighbour.mtu < floor);
                neighbour.made().map(|face| NeighbourFace { interface, face, is_small })
            },
        )
    }

    /// A number that is another one after each change of [`Discovery::faces`].
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Something has changed: what is due is looked for anew.
    pub(crate) fn changed(&mut self) {
        self.due_ns = 0;
        self.changes = self.changes.wrapping_add(1);
    }

    /// Stations that are not listened to, and for how long still, ns.
    pub fn quarantined(&self, now_ns: u64) -> Vec<(InterfaceId, Station, u64)> {
        let all = self.suspects.quarantined(now_ns);
        all.map(|(id, station, until_ns)| (id, station, until_ns.saturating_sub(now_ns))).collect()
    }

    /// An interface is up, or has another station or MTU; `None` when it went down or away.
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
                let gone = |place: &Place| place.0 == id;
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
        self.fit_mtus(id, out);
    }

    /// The MTUs of all faces of an interface, by what both ends can take.
    fn fit_mtus(&mut self, id: InterfaceId, out: &mut Vec<Action>) {
        let Some(interface) = self.interfaces.get(&id) else { return };
        let own = interface.link.mtu;
        for (_, neighbour) in self.neighbours.iter_mut().filter(|(place, _)| place.0 == id) {
            // Told again even if it is the same: an interface whose MTU changed changes its faces.
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

    /// What is multicast must fit every neighbour but those below the floor, which receive it by
    /// unicast. A station that proved nothing shrinks nobody's frames.
    pub(crate) fn fit_group(&mut self, id: InterfaceId, out: &mut Vec<Action>) {
        let floor = self.config.group_mtu_octets_min;
        let of_interface = self.neighbours.iter().filter(|(place, n)| place.0 == id && n.is_proven());
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

    /// Does what is due; returns when to call again, ns. While nothing has changed and nothing is
    /// due no neighbour is looked at.
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
        let due: Vec<Place> =
            self.neighbours.iter().filter(|(_, n)| is_due(n)).map(|(place, _)| *place).collect();
        due.into_iter().for_each(|place| self.look_at(place, now_ns, out));
        let hellos = self.interfaces.values().map(|interface| interface.hello_ns);
        let neighbours = self.neighbours.values().map(|neighbour| neighbour.due_ns(heartbeat_ns));
        hellos.chain(neighbours).min()
    }

    /// Multicasts a hello, and says when the next one is due: a little early by chance, so that
    /// routers that were started together do not speak together.
    fn send_hello(&mut self, id: InterfaceId, now_ns: u64, out: &mut Vec<Action>) {
        let jitter_ns = self.draw() % (self.config.heartbeat_ns / 5).max(1);
        let Some(interface) = self.interfaces.get_mut(&id) else { return };
        interface.hello_ns = now_ns.saturating_add(self.config.heartbeat_ns).saturating_sub(jitter_ns);
        let is_first = now_ns < interface.up_ns.saturating_add(FIRST_NS);
        let floor = self.config.group_mtu_octets_min;
        self.sent_ns.insert(id, now_ns);
        self.counters.count(Counter::HellosSent);
        let Some(about) = self.about(id) else { return };
        // Who is there is not known yet. Other packets are not cut so: that would cost them more
        // than what is lost.
        if is_first {
            self.set_group_mtu(id, self.config.mtu_octets_min, out);
        }
        out.push(Action::SendHello { interface: id, to: None, hello: OwnHello(about) });
        self.fit_group(id, out);
        // The hello may be longer than what these can receive.
        let is_small = |(place, n): &(&Place, &Neighbour)| place.0 == id && n.is_proven() && n.mtu < floor;
        let small: Vec<Place> = self.neighbours.iter().filter(is_small).map(|(place, _)| *place).collect();
        small.into_iter().for_each(|place| self.challenge(place, now_ns, out));
    }

    /// A neighbour is due: a challenge, or its end.
    fn look_at(&mut self, place: Place, now_ns: u64, out: &mut Vec<Action>) {
        let heartbeat_ns = self.config.heartbeat_ns;
        let Some(neighbour) = self.neighbours.get_mut(&place) else { return };
        let is_unproven = neighbour.phase == Phase::Found && neighbour.challenges >= CHALLENGES_MAX;
        if neighbour.end_ns(heartbeat_ns) <= now_ns || is_unproven && neighbour.challenge_ns <= now_ns {
            let counter = if is_unproven { Counter::NeighboursUnproven } else { Counter::NeighboursExpired };
            self.counters.count(counter);
            return self.remove(place, (!is_unproven).then_some(Note::Expired), now_ns, out);
        }
        if neighbour.challenge_ns <= now_ns {
            if let Some(name) = neighbour.unanswered.take() {
                self.reply(place, name, out);
            }
            self.challenge(place, now_ns, out);
        }
    }

    /// Sends a hello to one station, which must reply.
    pub(crate) fn challenge(&mut self, place: Place, now_ns: u64, out: &mut Vec<Action>) {
        let heartbeat_ns = self.config.heartbeat_ns;
        let about = self.about(place.0);
        let Some(neighbour) = self.neighbours.get_mut(&place) else { return };
        neighbour.challenges = neighbour.challenges.saturating_add(1);
        let wait_ns = if neighbour.phase == Phase::Found { CHALLENGE_NS } else { heartbeat_ns / 2 };
        neighbour.challenge_ns = now_ns.saturating_add(wait_ns);
        let Some(about) = about else { return };
        self.counters.count(Counter::ChallengesSent);
        let to = Some(Recipient { station: place.1, face: neighbour.made(), mtu: neighbour.mtu });
        out.push(Action::SendHello { interface: place.0, to, hello: OwnHello(about) });
    }

    /// A hello was signed: the digest that ends its name.
    pub fn hello_sent(&mut self, interface: InterfaceId, to: Option<Station>, digest: [u8; 32], now_ns: u64) {
        if let Some(interface) = self.interfaces.get_mut(&interface) {
            interface.sent(digest, to, now_ns);
        }
    }

    /// A face that was asked for is there, or cannot be.
    pub fn face_made(
        &mut self,
        interface: InterfaceId,
        station: Station,
        made: Option<Face>,
        out: &mut Vec<Action>,
    ) {
        self.changed();
        let place = (interface, station);
        let waiting = self.neighbours.get_mut(&place).filter(|n| n.face == FaceState::Asked);
        let (Some(neighbour), Some(face)) = (waiting, made) else {
            match made {
                Some(face) => out.push(Action::DestroyFace { face }),
                None => {
                    self.counters.count(Counter::FacesRefused);
                    self.neighbours.remove(&place);
                }
            }
            return;
        };
        neighbour.face = FaceState::Made(face);
        self.update_routes(place, out);
    }

    /// Answers a hello.
    pub(crate) fn reply(&mut self, place: Place, name: namely_wire::Name, out: &mut Vec<Action>) {
        let (Some(own), Some(neighbour)) = (self.about(place.0), self.neighbours.get(&place)) else { return };
        let to = Recipient { station: place.1, face: neighbour.made(), mtu: neighbour.mtu };
        let agreed = neighbour.mtu;
        self.counters.count(Counter::RepliesSent);
        out.push(Action::SendReply { interface: place.0, to, reply: OwnReply { name, own, agreed } });
    }

    /// A face is gone that somebody else has destroyed, or that failed.
    pub fn face_gone(&mut self, face: Face, now_ns: u64, out: &mut Vec<Action>) {
        let place = self.neighbours.iter().find(|(_, n)| n.made() == Some(face)).map(|(place, _)| *place);
        let Some(place) = place else { return };
        if let Some(neighbour) = self.neighbours.get_mut(&place) {
            neighbour.face = FaceState::Asked;
        }
        self.remove(place, Some(Note::Expired), now_ns, out);
    }

    /// The router stops: everybody is told.
    pub fn goodbye(&mut self, out: &mut Vec<Action>) {
        for id in self.interfaces.keys() {
            if let Some(mut about) = self.about(*id) {
                about.mtu = 0;
                about.prefixes.clear();
                out.push(Action::SendHello { interface: *id, to: None, hello: OwnHello(about) });
            }
        }
    }

    /// Ends a neighbour: its face goes, and with it its routes.
    pub(crate) fn remove(&mut self, place: Place, note: Option<Note>, now_ns: u64, out: &mut Vec<Action>) {
        let Some(neighbour) = self.neighbours.remove(&place) else { return };
        self.changed();
        // What was never proven may have been anybody's.
        if neighbour.phase == Phase::Proven && note != Some(Note::Left) {
            self.suspects.remember((place.0, place.1.host()), neighbour.key, now_ns);
        }
        if let Some(face) = neighbour.made() {
            out.push(Action::DestroyFace { face });
        }
        if let Some(note) = note {
            out.push(Action::Note { interface: place.0, station: place.1, note });
        }
    }

    fn remove_all(
        &mut self,
        is_gone: impl Fn(&Place) -> bool,
        note: Note,
        now_ns: u64,
        out: &mut Vec<Action>,
    ) {
        let gone: Vec<Place> = self.neighbours.keys().filter(|place| is_gone(place)).copied().collect();
        gone.into_iter().for_each(|place| self.remove(place, Some(note.clone()), now_ns, out));
    }

    /// What this router says of itself on an interface.
    fn about(&self, id: InterfaceId) -> Option<About> {
        let Interface { link, session, .. } = self.interfaces.get(&id)?;
        Some(About {
            station: link.station,
            mtu: link.mtu,
            prefixes: self.config.prefixes.clone(),
            key: self.key,
            session: *session,
        })
    }

    /// A number that others cannot foresee from few of them; nothing secret depends on it.
    pub(crate) fn draw(&mut self) -> u64 {
        // xorshift64*
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}
