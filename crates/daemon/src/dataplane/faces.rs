//! The data plane's half of the faces: link services, and which socket belongs to which number.

use std::collections::{BTreeSet, HashMap};

use namely_forwarder::FaceId;
use namely_io::{Persistency, Remote, TransportId, TransportState, TransportStatus};
use namely_link::{LinkConfig, LinkKind, LinkService};
use namely_wire::FaceUri;

use super::{FaceCounters, FaceState, FaceStatus, Packet};

/// A face with a socket.
pub(super) struct Face {
    pub(super) id: FaceId,
    pub(super) transport: TransportId,
    pub(super) link: LinkService<Packet, Remote>,
    pub(super) reach: Reach,
    pub(super) credentials: Option<namely_io::Credentials>,
    /// The remote end, where only one face may lead.
    unique_remote: Option<FaceUri>,
    timer_ns: Option<u64>,
}

impl Face {
    pub(super) fn new(
        id: FaceId,
        transport: TransportId,
        link: LinkService<Packet, Remote>,
        status: &TransportStatus,
    ) -> Self {
        let reach = reach(status);
        let unique_remote = match status.remote {
            FaceUri::Tcp(_) | FaceUri::Udp(_) if reach != Reach::Group => Some(status.remote.clone()),
            _ => None,
        };
        Face { id, transport, link, reach, credentials: status.credentials, unique_remote, timer_ns: None }
    }

    /// Everything management shows of the face but its packets by kind.
    pub(super) fn status(&self, transport: TransportStatus, now_ns: u64) -> FaceStatus {
        let config = self.link.config();
        let marking = config.marking.unwrap_or_default();
        let mut drops = transport.counters.drops;
        drops.merge(&self.link.counters().drops);
        FaceStatus {
            face_id: self.id,
            remote: transport.remote,
            local: transport.local,
            is_local: self.reach == Reach::Local,
            is_multi_access: self.reach == Reach::Group,
            persistency: transport.persistency,
            state: if transport.state == TransportState::Up { FaceState::Up } else { FaceState::Down },
            local_fields: config.local_fields,
            reliability: config.reliability,
            congestion_marking: config.marking.is_some(),
            marking_interval_ns: marking.interval_ns,
            marking_threshold_octets: marking.threshold_octets as u64,
            mtu: match config.kind {
                LinkKind::Stream => None,
                LinkKind::Datagram { mtu } => Some(mtu as u64),
            },
            expires_in_ns: transport.expires_ns.map(|expires_ns| expires_ns.saturating_sub(now_ns)),
            credentials: transport.credentials,
            counters: FaceCounters {
                in_octets: transport.counters.in_octets,
                out_octets: transport.counters.out_octets,
                queue_octets: transport.queue_octets as u64,
                drops: drops.iter().collect(),
                ..FaceCounters::default()
            },
        }
    }
}

/// Whether the other end is on this machine: applications, which may exchange `/localhost` packets. A UDP peer
/// never counts as that, since its address proves nothing.
pub(super) fn is_local(status: &TransportStatus) -> bool {
    match &status.remote {
        FaceUri::Fd(_) => true,
        FaceUri::Tcp(_) => status.remote.address().is_some_and(|address| address.ip().is_loopback()),
        _ => false,
    }
}

pub(super) fn is_multi_access(status: &TransportStatus) -> bool {
    status.remote.address().is_some_and(|address| address.ip().is_multicast())
}

/// Who is at the other end of a face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// An application on this machine.
    Local,
    /// One neighbour.
    Neighbour,
    /// Several neighbours, who hear each other.
    Group,
}

pub(super) fn reach(status: &TransportStatus) -> Reach {
    match (is_local(status), is_multi_access(status)) {
        (true, _) => Reach::Local,
        (_, true) => Reach::Group,
        _ => Reach::Neighbour,
    }
}

/// What carries the frames of a transport.
pub(super) fn link_kind(status: &TransportStatus, udp_mtu: usize) -> LinkKind {
    match &status.remote {
        FaceUri::Udp(_) => LinkKind::Datagram { mtu: udp_mtu },
        _ => LinkKind::Stream,
    }
}

/// The faces by the ways in which they are looked up.
#[derive(Default)]
pub(super) struct Faces {
    /// By the transport's place.
    by_place: Vec<Option<Box<Face>>>,
    places: HashMap<FaceId, usize>,
    by_remote: HashMap<FaceUri, FaceId>,
    timers: BTreeSet<(u64, usize)>,
}

impl Faces {
    pub(super) fn insert(&mut self, face: Face) {
        let place = face.transport.index();
        if self.by_place.len() <= place {
            self.by_place.resize_with(place + 1, || None);
        }
        self.places.insert(face.id, place);
        if let Some(remote) = &face.unique_remote {
            self.by_remote.insert(remote.clone(), face.id);
        }
        self.by_place[place] = Some(Box::new(face));
    }

    pub(super) fn remove(&mut self, transport: TransportId) -> Option<Face> {
        let place = transport.index();
        let slot = self.by_place.get_mut(place)?;
        let face = *slot.take_if(|face| face.transport == transport)?;
        self.places.remove(&face.id);
        if let Some(remote) = &face.unique_remote {
            self.by_remote.remove(remote);
        }
        if let Some(timer_ns) = face.timer_ns {
            self.timers.remove(&(timer_ns, place));
        }
        Some(face)
    }

    #[inline]
    pub(super) fn by_transport(&mut self, transport: TransportId) -> Option<&mut Face> {
        let face = self.by_place.get_mut(transport.index())?.as_deref_mut()?;
        (face.transport == transport).then_some(face)
    }

    #[inline]
    pub(super) fn by_id(&mut self, id: FaceId) -> Option<&mut Face> {
        let place = *self.places.get(&id)?;
        self.by_place.get_mut(place)?.as_deref_mut()
    }

    pub(super) fn by_remote(&mut self, remote: &FaceUri) -> Option<&mut Face> {
        let id = *self.by_remote.get(remote)?;
        self.by_id(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Face> {
        self.by_place.iter().flatten().map(|face| &**face)
    }

    /// Sees to it that the link service's timer is served. A timer that is set too early is harmless, so that it
    /// need not follow each packet.
    #[inline]
    pub(super) fn arm(&mut self, transport: TransportId) {
        let Some(Some(face)) = self.by_place.get_mut(transport.index()) else { return };
        let Some(due_ns) = face.link.due_ns() else { return };
        if face.timer_ns.is_some_and(|timer_ns| timer_ns <= due_ns) {
            return;
        }
        if let Some(timer_ns) = face.timer_ns.replace(due_ns) {
            self.timers.remove(&(timer_ns, transport.index()));
        }
        self.timers.insert((due_ns, transport.index()));
    }

    pub(super) fn due_ns(&self) -> Option<u64> {
        self.timers.first().map(|(due_ns, _)| *due_ns)
    }

    /// A face whose timer is due; the timer is then no longer set.
    pub(super) fn take_due(&mut self, now_ns: u64) -> Option<&mut Face> {
        if self.due_ns()? > now_ns {
            return None;
        }
        let (_, place) = self.timers.pop_first()?;
        let face = self.by_place.get_mut(place)?.as_deref_mut()?;
        face.timer_ns = None;
        Some(face)
    }
}

/// The internal face, as management shows it.
pub(super) fn internal_status(id: FaceId, drops: u64) -> FaceStatus {
    FaceStatus {
        face_id: id,
        remote: FaceUri::Internal,
        local: FaceUri::Internal,
        is_local: true,
        is_multi_access: false,
        persistency: Persistency::Permanent,
        state: FaceState::Up,
        local_fields: true,
        reliability: false,
        congestion_marking: false,
        marking_interval_ns: 0,
        marking_threshold_octets: 0,
        mtu: None,
        expires_in_ns: None,
        credentials: None,
        counters: FaceCounters {
            drops: if drops > 0 { vec![("queue_full", drops)] } else { Vec::new() },
            ..FaceCounters::default()
        },
    }
}

/// Applies what a caller asks of a link.
///
/// # Errors
/// What is impossible on this kind of face, in words.
pub(super) fn configure(
    mut config: LinkConfig,
    options: &super::FaceOptions,
    reach: Reach,
    defaults: &super::DataPlaneOptions,
) -> Result<LinkConfig, &'static str> {
    if options.local_fields == Some(true) && reach != Reach::Local {
        // NextHopFaceId would let a neighbour choose this router's next hops.
        return Err("local fields are for applications on this machine: leave them out");
    }
    if let LinkKind::Datagram { mtu } = &mut config.kind {
        if let Some(wanted) = options.mtu {
            *mtu = usize::try_from(wanted)
                .unwrap_or(usize::MAX)
                .clamp(namely_link::MTU_OCTETS_MIN, namely_wire::LP_PACKET_OCTETS_MAX);
        }
    } else if options.mtu.is_some() {
        return Err("a stream has no MTU: leave it out");
    }
    if let Some(reliability) = options.reliability {
        if reliability && (config.kind == LinkKind::Stream || reach == Reach::Group) {
            return Err("link reliability is for UDP faces to one peer: leave it out");
        }
        config.reliability = reliability;
    }
    config.local_fields = options.local_fields.unwrap_or(config.local_fields);
    let mut marking = config.marking.unwrap_or(defaults.marking);
    if let Some(interval_ns) = options.marking_interval_ns {
        marking.interval_ns = interval_ns;
    }
    if let Some(octets) = options.marking_threshold_octets {
        marking.threshold_octets = usize::try_from(octets).unwrap_or(usize::MAX);
    }
    let is_marking = options.congestion_marking.unwrap_or(config.marking.is_some());
    config.marking = is_marking.then_some(marking);
    Ok(config)
}
