//! An Interest on its way through the tables.

use namely_wire::LpHeaders;

use crate::faces::FaceHold;
use crate::interest_key::InterestKey;
use crate::pit::entry::InRecord;
use crate::reserve::Reserve;

/// An Interest that has passed the checks that need no table.
pub(super) struct CheckedInterest<'a, B> {
    pub(super) ingress: &'a FaceHold<'a>,
    pub(super) packet: &'a B,
    pub(super) headers: &'a LpHeaders,
    pub(super) interest: InterestKey<'a>,
    pub(super) nonce: [u8; 4],
    pub(super) lifetime_ns: u64,
    pub(super) now_ns: u64,
    pub(super) reserve: &'a Reserve,
}

impl<B> CheckedInterest<'_, B> {
    /// HopLimit as it is forwarded; an Interest that arrived with 0 was dropped.
    pub(super) fn hop_limit_out(&self) -> Option<u8> {
        self.interest.view.hop_limit.map(|limit| limit.saturating_sub(1))
    }

    pub(super) fn in_record(&self) -> InRecord {
        InRecord {
            face: self.ingress.key(),
            nonce: self.nonce,
            token: self.headers.pit_token,
            expires_at_ns: self.now_ns.saturating_add(self.lifetime_ns),
        }
    }
}
