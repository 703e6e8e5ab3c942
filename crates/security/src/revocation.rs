//! Revocation records: signed statements that a certificate is revoked, or that it is still good.
//!
//! Names and Content are those of UCLA's `ndnrevoke`, so that both programs can read all records.
//! The revocation of the certificate `/<Identity>/KEY/<KeyId>/<IssuerId>/<Version>` is named
//! `/<Identity>/REVOKE/<KeyId>/<IssuerId>/<Version>/<PublisherId>`. In the statement that the
//! certificate is good, `/nack/<timestamp>` follows this name, and ContentType is Nack. Clients
//! request both by [`revocation_prefix`] with CanBePrefix and MustBeFresh.
//!
//! The [`Verifier`](crate::Verifier) decides whether the key that signed a statement is trusted.
//! [`RevocationStatement::read`] checks that this trusted key may make the statement.

use namely_wire::tlv::{Reader, Writer, ignore_unknown};
use namely_wire::types::{GENERIC_COMPONENT, TIMESTAMP_COMPONENT};
use namely_wire::{
    CertificateName, Component, ContentType, DataBuilder, DecodeError, Name, NameRef, key_name_of_locator,
};

use crate::certificate::Certificate;
use crate::crypto::{CryptoError, sha256};
use crate::signer::{Signer, sign_data};
use crate::verified::{PacketOctets, Verified};

const REVOKE: Component<'static> = Component { typ: GENERIC_COMPONENT, value: b"REVOKE" };
const NACK: Component<'static> = Component { typ: GENERIC_COMPONENT, value: b"nack" };

const TLV_TIMESTAMP: u32 = 201;
const TLV_PUBLIC_KEY_HASH: u32 = 202;
const TLV_REASON: u32 = 203;
const TLV_NACK_REASON: u32 = 204;

/// The reason of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationReason {
    /// 0: unspecified.
    Unspecified,
    /// 1: others have the key.
    KeyCompromise,
    /// 2: others have the issuer's key.
    IssuerCompromise,
    /// 4: the key is no longer used, as after the end of a producer's session.
    Superseded,
    /// An unknown number.
    Other(u64),
}

impl RevocationReason {
    /// The number in RevocationReason.
    pub fn number(self) -> u64 {
        match self {
            RevocationReason::Unspecified => 0,
            RevocationReason::KeyCompromise => 1,
            RevocationReason::IssuerCompromise => 2,
            RevocationReason::Superseded => 4,
            RevocationReason::Other(n) => n,
        }
    }

    /// The reason of a number.
    pub fn from_number(n: u64) -> Self {
        let known = [
            RevocationReason::Unspecified,
            RevocationReason::KeyCompromise,
            RevocationReason::IssuerCompromise,
            RevocationReason::Superseded,
        ];
        known.into_iter().find(|reason| reason.number() == n).unwrap_or(RevocationReason::Other(n))
    }
}

/// The revocation status of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RevocationStatus {
    /// The certificate is not revoked.
    Good,
    /// The certificate must no longer be trusted.
    Revoked(RevocationReason),
}

/// A statement about one certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevocationStatement {
    /// The status.
    pub status: RevocationStatus,
    /// The time of the status, ms since the Unix epoch.
    pub time_ms: u64,
}

/// Returns the prefix of statements about the certificate `certificate`:
/// `/<Identity>/REVOKE/<KeyId>/<IssuerId>/<Version>`.
///
/// # Errors
/// [`DecodeError::BadName`] if `certificate` is not a certificate's name.
pub fn revocation_prefix(certificate: NameRef<'_>) -> Result<Name, DecodeError> {
    let parts = CertificateName::parse(certificate)?;
    let name = parts.identity().to_name().join(REVOKE);
    let after_key = certificate.components().skip(parts.identity().len() + 1);
    Ok(after_key.fold(name, |name, component| name.join(component)))
}

/// Returns true if `name` requests a revocation status of a certificate of `identity`: the
/// component after the identity is `REVOKE`, where certificates have `KEY`.
pub fn is_about_revocation(name: NameRef<'_>, identity: NameRef<'_>) -> bool {
    identity.is_prefix_of(name) && name.component(identity.len()) == Some(REVOKE)
}

impl RevocationStatement {
    /// Creates the signed Data with this statement about `certificate`. `issuer` is the key that
    /// issued the certificate. The certified key itself may sign a revocation, but not the
    /// statement that its certificate is good. Caches may return the Data as fresh for
    /// `freshness_ms`.
    ///
    /// # Errors
    /// [`RevocationError::Signing`] if the library refuses.
    pub fn sign(
        &self,
        certificate: &Certificate,
        freshness_ms: u64,
        issuer: &Signer,
    ) -> Result<Vec<u8>, RevocationError> {
        let publisher = CertificateName::parse(certificate.name())?.issuer_id();
        let mut name = revocation_prefix(certificate.name())?.join(publisher);
        let (content_type, code) = match self.status {
            RevocationStatus::Revoked(reason) => (ContentType::Blob, (TLV_REASON, reason.number())),
            RevocationStatus::Good => {
                name = name.join(NACK).join_number(TIMESTAMP_COMPONENT, self.time_ms);
                (ContentType::Nack, (TLV_NACK_REASON, 0))
            }
        };
        let mut content = Writer::new();
        content.nni(TLV_TIMESTAMP, self.time_ms);
        if let RevocationStatus::Revoked(_) = self.status {
            content.tlv(TLV_PUBLIC_KEY_HASH, &sha256(certificate.public_key().spki()));
        }
        content.nni(code.0, code.1);
        let builder = DataBuilder::new(name.as_name()).content_type(content_type).freshness_ms(freshness_ms);
        sign_data(&builder, content.as_bytes(), issuer).map_err(RevocationError::Signing)
    }

    /// Reads a verified Data as a statement about `certificate`. The Data must have the name of
    /// such a statement, match the certificate's key, and be signed by the key that issued the
    /// certificate. A revocation may also be signed by the certified key itself.
    ///
    /// # Errors
    /// [`RevocationError`]: the Data is malformed, is about another certificate, or is signed by a
    /// key without authority over the certificate.
    pub fn read<B: PacketOctets>(
        data: &Verified<B>,
        certificate: &Certificate,
    ) -> Result<Self, RevocationError> {
        let prefix = revocation_prefix(certificate.name())?;
        let components_after = data.name().len().checked_sub(prefix.len());
        if !prefix.is_prefix_of(data.name()) || !matches!(components_after, Some(1 | 3)) {
            return Err(RevocationError::OtherName(data.name().to_name()));
        }
        let (statement, key_hash) = decode(data.content())?;
        let is_nack = data.content_type() == ContentType::Nack && components_after == Some(3);
        if is_nack != (statement.status == RevocationStatus::Good) {
            return Err(RevocationError::OtherName(data.name().to_name()));
        }
        if key_hash.is_some_and(|hash| hash != sha256(certificate.public_key().spki())) {
            return Err(RevocationError::OtherKey);
        }
        let key = |name: NameRef<'_>| key_name_of_locator(name).map(Name::from).ok();
        let signer = data.reason().key_name().and_then(|name| key(name.as_name()));
        let of_issuer = signer.is_some() && signer == certificate.signer_name().and_then(key);
        let of_owner = signer.as_ref().is_some_and(|signer| signer.as_name() == certificate.key_name());
        match statement.status {
            _ if of_issuer => Ok(statement),
            RevocationStatus::Revoked(_) if of_owner => Ok(statement),
            _ => Err(RevocationError::OtherSigner(signer.unwrap_or_default())),
        }
    }
}

fn decode(content: &[u8]) -> Result<(RevocationStatement, Option<&[u8]>), RevocationError> {
    let (mut time_ms, mut key_hash, mut status) = (None, None, None);
    let mut reader = Reader::new(content);
    while let Some(tlv) = reader.next_tlv()? {
        match tlv.typ {
            TLV_TIMESTAMP => time_ms = Some(tlv.nni()?),
            TLV_PUBLIC_KEY_HASH => key_hash = Some(tlv.value),
            TLV_REASON => status = Some(RevocationStatus::Revoked(RevocationReason::from_number(tlv.nni()?))),
            TLV_NACK_REASON if tlv.nni()? == 0 => status = Some(RevocationStatus::Good),
            typ => ignore_unknown(typ)?,
        }
    }
    let time_ms = time_ms.ok_or(DecodeError::Missing(TLV_TIMESTAMP))?;
    let status = status.ok_or(DecodeError::Missing(TLV_REASON))?;
    Ok((RevocationStatement { status, time_ms }, key_hash))
}

/// The reason why a Data is not a statement about a certificate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// Peer: malformed. Caller: the certificate's name is not valid.
    #[error("the revocation record is malformed: {0}")]
    Encoding(#[from] DecodeError),
    /// Peer: name or ContentType do not match the statement.
    #[error("{0} is not a record about this certificate")]
    OtherName(Name),
    /// Peer: about another key.
    #[error("the revocation record is about another key")]
    OtherKey,
    /// Peer: signed by a key without authority over the certificate.
    #[error("key {0} has no authority over the revocation of this certificate: its issuer has")]
    OtherSigner(Name),
    /// Environment: signing failed.
    #[error(transparent)]
    Signing(CryptoError),
}

#[cfg(test)]
mod tests;
