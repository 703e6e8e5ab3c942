//! Where packets leave: through a face, with the headers that its downstream is owed.

use lock_api::RawMutex;
use namely_wire::mgmt::LinkType;
use namely_wire::{LpHeaders, NackReason, PitToken};

use super::amend::with_nonce_of;
use crate::counters::{Counters, DropReason, Packets};
use crate::face_id::FaceId;
use crate::faces::{FaceHold, Faces};
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::pit::entry::InRecord;

/// The headers of a Data that do not depend on the downstream.
#[derive(Clone, Copy)]
pub(super) struct DataOut {
    /// The value of IncomingFaceId.
    pub(super) from: FaceId,
    pub(super) congestion_mark: Option<u64>,
}

/// Sends a packet through a face, or into the black hole if the face has been released (`IS-14`).
pub(super) fn emit<B>(
    counters: &Counters,
    face: &FaceHold<'_>,
    packets: Packets,
    packet: Outgoing<B>,
    out: &mut impl Output<B>,
) {
    match face.id() {
        FaceId::NONE => counters.dropped(DropReason::FaceGone),
        id => {
            face.count(packets);
            out.send(id, packet);
        }
    }
}

/// Answers a downstream with Data. Scope needs no check: a non-local face is recorded as the
/// downstream of a name that `/localhost` Data satisfies only if it may ask management, and then of
/// names below management's.
#[inline]
pub(super) fn send_data<B>(
    counters: &Counters,
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
    emit(counters, face, Packets::OutData, Outgoing { packet, headers, hop_limit: None }, out);
}

/// Refuses the Interest in `packet` (guide 4.4.2, Outgoing Nack; NDNLPv2, Network Nack). On a link
/// with several peers a Nack would refuse it for all of them, so there it is not sent.
pub(super) fn send_nack<B>(
    counters: &Counters,
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
    emit(counters, face, Packets::OutNacks, Outgoing { packet, headers, hop_limit: None }, out);
}

/// Refuses a downstream's Interest, with the Nonce that it used itself.
pub(super) fn nack_downstream<B: PacketBuf, R: RawMutex>(
    faces: &Faces<R>,
    counters: &Counters,
    kept: &B,
    record: &InRecord,
    reason: NackReason,
    out: &mut impl Output<B>,
) {
    let Some(face) = faces.hold_key(record.face) else {
        counters.dropped(DropReason::FaceGone);
        return;
    };
    match with_nonce_of(kept, record.nonce) {
        Some(packet) => send_nack(counters, &face, record.token, packet, reason, out),
        None => counters.dropped(DropReason::NoBuffer),
    }
}
