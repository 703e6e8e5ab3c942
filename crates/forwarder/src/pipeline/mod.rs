//! What happens to a packet, from the face it came from to the faces it goes to.
//!
//! Rules name the section of NFD's developer guide (revision 11) that they follow: 4.2 for
//! Interests, 4.3 for Data, 4.4 for Nacks; or the page of the NDN packet format v0.3 or of NDNLPv2.

mod amend;
mod data;
mod departed;
mod expire;
mod hooks;
mod hops;
mod interest;
mod learning;
mod nack;
mod tier;
mod upstreams;

pub(crate) use departed::Departed;
pub use expire::Expiry;
pub(crate) use expire::{EXPIRED_PER_CALL_MAX, TABLES_TURN_NS};

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
use namely_wire::{LpHeaders, NackReason, NameRef, PitToken};

use crate::counters::{DropReason, Packets};
use crate::face_id::FaceId;
use crate::faces::FaceHold;
use crate::forwarder::Forwarder;
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::pit::entry::{InRecord, PitEntry};

/// Namespace-based scope control: `/localhost` as the octets of a name: packets under it stay on
/// this host.
const LOCALHOST: &[u8] = b"\x08\x09localhost";

/// `/localhost/nfd`: the router's management.
const MANAGEMENT: &[u8] = b"\x08\x09localhost\x08\x03nfd";

/// `/localhop`: Interests under it go one hop.
const LOCALHOP: &[u8] = b"\x08\x08localhop";

fn is_localhost(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(LOCALHOST)
}

/// Whether an Interest of this name may come in through the face (guide 4.2.1, scope control): what
/// is of this host from this host only, but for management where the face may ask it.
fn may_come(name: NameRef<'_>, ingress: &FaceHold<'_>) -> bool {
    !is_localhost(name)
        || ingress.is_local()
        || ingress.asks_management() && name.as_bytes().starts_with(MANAGEMENT)
}

fn is_localhop(name: NameRef<'_>) -> bool {
    name.as_bytes().starts_with(LOCALHOP)
}

/// What a Data is sent with, whoever the downstream is.
#[derive(Clone, Copy)]
struct DataOut {
    /// What IncomingFaceId says.
    from: FaceId,
    congestion_mark: Option<u64>,
}

impl<B: PacketBuf, R: RawMutex> Forwarder<B, R> {
    /// Sends a packet through a face, or into the black hole if the face has been released
    /// (`IS-14`).
    fn emit(&self, face: &FaceHold<'_>, packets: Packets, packet: Outgoing<B>, out: &mut impl Output<B>) {
        match face.id() {
            FaceId::NONE => self.counters.dropped(DropReason::FaceGone),
            id => {
                face.count(packets);
                out.send(id, packet);
            }
        }
    }

    /// Answers a downstream with Data. Scope needs no check: a non-local face is recorded as the
    /// downstream of a name that `/localhost` Data satisfies only if it may ask management, and
    /// then of names below management's.
    #[inline]
    fn send_data(
        &self,
        face: &FaceHold<'_>,
        token: Option<PitToken>,
        packet: B,
        data: DataOut,
        out: &mut impl Output<B>,
    ) {
        let headers = LpHeaders {
            pit_token: token,
            incoming_face_id: face.local_fields().then_some(data.from.0),
            congestion_mark: data.congestion_mark,
            ..LpHeaders::default()
        };
        self.emit(face, Packets::OutData, Outgoing { packet, headers, hop_limit: None }, out);
    }

    /// Refuses the Interest in `packet` (guide 4.4.2, Outgoing Nack; NDNLPv2, Network Nack). On a
    /// link with several peers a Nack would refuse it for all of them, so there it is not sent.
    fn send_nack(
        &self,
        face: &FaceHold<'_>,
        token: Option<PitToken>,
        packet: B,
        reason: NackReason,
        out: &mut impl Output<B>,
    ) {
        if face.link_type() != LinkType::PointToPoint {
            return;
        }
        let headers = LpHeaders { pit_token: token, nack: Some(reason), ..LpHeaders::default() };
        self.emit(face, Packets::OutNacks, Outgoing { packet, headers, hop_limit: None }, out);
    }

    /// Refuses a downstream's Interest, with the Nonce that it used itself.
    fn nack_downstream(&self, kept: &B, record: &InRecord, reason: NackReason, out: &mut impl Output<B>) {
        let Some(face) = self.faces.hold_key(record.face) else {
            self.counters.dropped(DropReason::FaceGone);
            return;
        };
        match amend::with_nonce_of(kept, record.nonce) {
            Some(packet) => self.send_nack(&face, record.token, packet, reason, out),
            None => self.counters.dropped(DropReason::NoBuffer),
        }
    }

    /// Remembers the Nonces that a finished entry was sent with: the insertion into the dead-nonce
    /// list of the Interest Finalize pipeline (guide 4.2.6).
    fn record_dead_nonces(&self, entry: &PitEntry<B>, now_ns: u64) {
        if entry.out_records.is_empty() {
            return;
        }
        let name_hash = self.hasher.whole(entry.name());
        entry.out_records.iter().for_each(|record| self.dead_nonces.add(name_hash, record.nonce, now_ns));
    }
}
