//! Sends packets through a face, with the headers for that face.

use lock_api::RawMutex;
use namely_messages::LinkType;
use namely_wire::{LpHeaders, NackReason, PitToken};

use super::amend::with_nonce_of;
use crate::counters::{Counters, DropReason, Packets};
use crate::face_id::FaceId;
use crate::faces::{FaceHold, Faces};
use crate::packet::{Outgoing, Output, PacketBuf};
use crate::pit::entry::InRecord;

/// The headers of a Data that do not depend on the downstream.
#[derive(Clone, Copy)]
pub(super) struct DataHeaders {
    /// The value of IncomingFaceId.
    pub(super) from: FaceId,
    pub(super) congestion_mark: Option<u64>,
}

/// Sends a packet through a face, or drops it if the face has been released (`IS-14`).
pub(super) fn emit<B>(
    counters: &Counters,
    face: &FaceHold<'_>,
    packets: Packets,
    packet: Outgoing<B>,
    out: &mut impl Output<B>,
) {
    // The face may have been released since it was held.
    match face.id() {
        FaceId::NONE => counters.dropped(DropReason::FaceGone),
        id => {
            face.count(packets);
            out.send(id, packet);
        }
    }
}

/// Answers a downstream with Data. Scope needs no check: `/localhost` Data satisfies a non-local
/// downstream only if that face may use management, and then only for names below management's
/// prefix.
#[inline]
pub(super) fn send_data<B>(
    counters: &Counters,
    face: &FaceHold<'_>,
    token: Option<PitToken>,
    packet: B,
    data: DataHeaders,
    out: &mut impl Output<B>,
) {
    let headers = LpHeaders {
        pit_token: token,
        // NDNLPv2, Incoming Face Indication: only for an application that has enabled it.
        incoming_face_id: face.local_fields().then_some(data.from.0),
        congestion_mark: data.congestion_mark,
        ..LpHeaders::default()
    };
    emit(counters, face, Packets::OutData, Outgoing { packet, headers, hop_limit: None }, out);
}

/// Sends a Nack for the Interest in `packet` (guide 4.4.2, Outgoing Nack; NDNLPv2, Network Nack).
/// On a link with several peers a Nack would refuse the Interest for all of them, so it is not sent
/// there.
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

/// Sends a Nack for a downstream's Interest, with the Nonce of that downstream.
pub(super) fn nack_downstream<B: PacketBuf, R: RawMutex>(
    faces: &Faces<R>,
    counters: &Counters,
    kept: &B,
    record: &InRecord,
    reason: NackReason,
    out: &mut impl Output<B>,
) {
    // By key, so that a later face in the same slot receives no Nack of an earlier one.
    let Some(face) = faces.hold_key(record.face) else {
        counters.dropped(DropReason::FaceGone);
        return;
    };
    match with_nonce_of(kept, record.nonce) {
        Some(packet) => send_nack(counters, &face, record.token, packet, reason, out),
        None => counters.dropped(DropReason::NoBuffer),
    }
}
