//! The verifier: decides under a [`TrustPolicy`] whether a packet is believed.
//!
//! It does no I/O and reads no clock. When it lacks a certificate it says which; its driver fetches
//! that, hands it in with [`Verifier::supply`], and asks again:
//!
//! ```
//! use namely_security::{TrustPolicy, Verdict, Verifier};
//! # fn fetch(_: &namely_wire::Name) -> Option<Vec<u8>> { None }
//! # let (packet, now_ns) = (vec![6, 0], 0);
//! let mut verifier = Verifier::new(TrustPolicy::hierarchical());
//! let mut data = packet;
//! let verified = loop {
//!     match verifier.verify(data, now_ns) {
//!         Verdict::Verified(verified) => break Some(verified),
//!         Verdict::Rejected(rejection) => { eprintln!("{rejection}"); break None }
//!         Verdict::NeedCertificate(needed) => {
//!             // An Interest for this name with CanBePrefix, because it may be the name of a key.
//!             let Some(certificate) = fetch(&needed.certificate) else { break None };
//!             if verifier.supply(&certificate).is_err() { break None }
//!             data = needed.data;
//!         }
//!     }
//! };
//! # assert!(verified.is_none());
//! ```
//!
//! Each turn of that loop adds one certificate to the chain, and a chain has at most
//! [`TrustPolicy::depth_max`] certificates: the loop ends.

mod chain;
#[cfg(test)]
mod tests;

use namely_wire::{
    DataView, DecodeError, InterestView, Name, NameRef, SignatureInfoView, SignatureType, key_name_of_locator,
};

use crate::certificate::{Certificate, CertificateError};
use crate::crypto::{constant_time_eq, sha256, sha256_of};
use crate::manifest::ManifestHash;
use crate::prepared::{Done, Preparation, Prepared};
use crate::trust::{Mode, Rejection, RejectionReason, TrustPolicy};
use crate::verified::{PacketOctets, Spans, TrustReason, Verified};

use self::chain::Chains;
pub use self::chain::{CANDIDATES_MAX, VALIDATED_MAX};

/// Decides whether packets are believed. Remembers validated certificates, at most
/// [`VALIDATED_MAX`].
#[derive(Debug)]
pub struct Verifier {
    policy: TrustPolicy,
    chains: Chains,
}

/// What a [`Verifier`] says of a Data.
#[derive(Debug)]
pub enum Verdict<B: PacketOctets> {
    /// It is believed.
    Verified(Verified<B>),
    /// A certificate is needed first.
    NeedCertificate(NeedCertificate<B>),
    /// It is not believed.
    Rejected(Rejection),
}

/// A Data that waits for a certificate.
#[derive(Debug)]
pub struct NeedCertificate<B> {
    /// The Data, given back.
    pub data: B,
    /// The KeyLocator to fetch: the name of a certificate or of a key, so that a certificate is any
    /// Data below.
    pub certificate: Name,
}

impl Verifier {
    /// A verifier that believes what `policy` says.
    pub fn new(policy: TrustPolicy) -> Self {
        Verifier { policy, chains: Chains::default() }
    }

    /// The policy.
    pub fn policy(&self) -> &TrustPolicy {
        &self.policy
    }

    /// Replaces the policy; what was validated under the old one is forgotten.
    pub fn set_policy(&mut self, policy: TrustPolicy) {
        self.policy = policy;
        self.chains = Chains::default();
    }

    /// Verifies a Data at `now_ns` (ns since the Unix epoch).
    pub fn verify<B: PacketOctets>(&mut self, data: B, now_ns: u64) -> Verdict<B> {
        self.verify_prepared(Prepared::from(data), now_ns)
    }

    /// The same of one of which a part may have been done ahead, as [`Verifier::preparation`] says.
    pub fn verify_prepared<B: PacketOctets>(&mut self, data: Prepared<B>, now_ns: u64) -> Verdict<B> {
        let (spans, outcome) = match DataView::parse(data.packet().as_ref()) {
            Ok(view) => (Spans::of(&view), self.verify_view(&view, data.done(), now_ns)),
            Err(e) => return Verdict::Rejected(Rejection::unreadable(e)),
        };
        let data = data.into_packet();
        match outcome {
            Ok(reason) => Verdict::Verified(Verified::new(data, spans, reason)),
            Err(NotYet::Need(certificate)) => Verdict::NeedCertificate(NeedCertificate { data, certificate }),
            Err(NotYet::Rejected(rejection)) => {
                Verdict::Rejected(Rejection { digest: Some(Box::new(sha256(data.as_ref()))), ..*rejection })
            }
        }
    }

    /// What can be done ahead of Data that will be believed for the same `reason` as one that was.
    /// Nothing where a shared key signs, or where nothing is checked.
    pub fn preparation(&self, reason: &TrustReason) -> Option<Preparation> {
        match reason {
            TrustReason::Chain(chain) => {
                let signer = self.certificate(chain.certificates.first()?.as_name())?;
                Some(Preparation::Signatures(signer.clone()))
            }
            TrustReason::Digest => Some(Preparation::Digests(ManifestHash::Sha256)),
            TrustReason::SharedKey(_) | TrustReason::Manifest(_) | TrustReason::Unchecked => None,
        }
    }

    fn verify_view(&mut self, view: &DataView<'_>, done: &Done, now_ns: u64) -> Result<TrustReason, NotYet> {
        if self.policy.mode == Mode::AcceptAll {
            return Ok(TrustReason::Unchecked);
        }
        let info =
            view.signature_info().map_err(|e| Rejection::of(view.name, RejectionReason::Malformed(e)))?;
        let parts = [view.signed_portion];
        let packet = SignedPacket { name: view.name, info, parts: &parts, value: view.signature_value, done };
        match self.policy.mode {
            Mode::DigestOnly => packet.check_digest_only(),
            Mode::Signatures | Mode::AcceptAll => self.verify_packet(&packet, now_ns),
        }
    }

    /// Verifies the signature and chain of a signed Interest; its parameters digest and its age are
    /// for the caller.
    pub(crate) fn verify_interest(
        &mut self,
        interest: &InterestView<'_>,
        info: SignatureInfoView<'_>,
        value: &[u8],
        now_ns: u64,
    ) -> Result<TrustReason, NotYet> {
        let parts = [interest.signed_name(), interest.signed_parameters];
        let done = &Done::Nothing;
        self.verify_packet(&SignedPacket { name: interest.name, info, parts: &parts, value, done }, now_ns)
    }

    fn verify_packet(&mut self, packet: &SignedPacket<'_>, now_ns: u64) -> Result<TrustReason, NotYet> {
        let locator = packet.locator()?;
        let key_name =
            key_name_of_locator(locator).map_err(|_| packet.rejected(RejectionReason::NoKeyName))?;
        if !self.policy.allows(packet.name, key_name) {
            return Err(packet.rejected(RejectionReason::NotAllowed).into());
        }
        if packet.info.signature_type == SignatureType::HmacWithSha256 {
            return packet.check_shared_key(&self.policy, key_name);
        }
        if !self.policy.has_anchor_for(packet.name) {
            return Err(packet.rejected(RejectionReason::NoAnchor).into());
        }
        let signer = self.chains.trusted(&self.policy, packet, locator, now_ns)?;
        packet.check_signature(&self.policy, signer.certificate())?;
        Ok(TrustReason::Chain(signer.chain()))
    }

    /// The validated certificate or trust anchor of that name.
    pub fn certificate(&self, name: NameRef<'_>) -> Option<&Certificate> {
        let anchor = || self.policy.anchors().iter().find(|anchor| anchor.name() == name);
        self.chains.validated(name).or_else(anchor)
    }

    /// Hands in a certificate that was asked for. It is believed only if its own chain leads to an
    /// anchor, and it is forgotten again when more than [`CANDIDATES_MAX`] others came since.
    ///
    /// # Errors
    /// [`CertificateError`]: the octets are no certificate, or one whose key cannot be used.
    pub fn supply(&mut self, certificate: &[u8]) -> Result<(), CertificateError> {
        self.supply_certificate(Certificate::parse(certificate)?);
        Ok(())
    }

    /// Hands in a certificate, for instance one from the key chain that may save fetching.
    pub fn supply_certificate(&mut self, certificate: Certificate) {
        self.chains.supply(certificate);
    }
}

/// Why a packet is not believed, or not yet.
#[derive(Debug)]
pub(crate) enum NotYet {
    Need(Name),
    Rejected(Box<Rejection>),
}

impl From<Rejection> for NotYet {
    fn from(rejection: Rejection) -> Self {
        NotYet::Rejected(Box::new(rejection))
    }
}

impl Rejection {
    /// Of a packet that could not be parsed.
    pub(crate) fn unreadable(e: DecodeError) -> Self {
        let why = RejectionReason::Malformed(e);
        Rejection { name: Name::new(), certificate: None, key: None, why, digest: None }
    }

    pub(crate) fn of(name: NameRef<'_>, why: RejectionReason) -> Self {
        Rejection { name: name.to_name(), certificate: None, key: None, why, digest: None }
    }
}

/// What a signature covers and says, of a Data or an Interest.
struct SignedPacket<'a> {
    name: NameRef<'a>,
    info: SignatureInfoView<'a>,
    parts: &'a [&'a [u8]],
    value: &'a [u8],
    done: &'a Done,
}

impl SignedPacket<'_> {
    /// The name of the key that signed, for signatures that have one.
    fn locator(&self) -> Result<NameRef<'_>, Rejection> {
        match self.info.signature_type {
            typ @ (SignatureType::DigestSha256 | SignatureType::Null) => {
                Err(self.rejected(RejectionReason::NoOrigin(typ)))
            }
            SignatureType::Other(n) => Err(self.rejected(RejectionReason::UnknownSignatureType(n))),
            _ => self.info.key_name().ok_or_else(|| self.rejected(RejectionReason::NoKeyName)),
        }
    }

    fn check_digest_only(&self) -> Result<TrustReason, NotYet> {
        if self.info.signature_type != SignatureType::DigestSha256 {
            return Err(self.rejected(RejectionReason::NotADigest(self.info.signature_type)).into());
        }
        let digest = self.done.digest(ManifestHash::Sha256).unwrap_or_else(|| sha256_of(self.parts));
        if !constant_time_eq(&digest, self.value) {
            return Err(self.rejected(RejectionReason::BadDigest).into());
        }
        Ok(TrustReason::Digest)
    }

    fn check_shared_key(&self, policy: &TrustPolicy, key_name: NameRef<'_>) -> Result<TrustReason, NotYet> {
        let key = policy.shared_key(key_name).ok_or_else(|| self.rejected(RejectionReason::NoSharedKey))?;
        if !key.verify(self.parts, self.value) {
            return Err(self.rejected(RejectionReason::BadSignature).into());
        }
        Ok(TrustReason::SharedKey(key_name.to_name()))
    }

    fn check_signature(&self, policy: &TrustPolicy, signer: &Certificate) -> Result<(), Rejection> {
        // The KeyLocator is the sender's word; the certificate's own name is what its issuer
        // vouched for.
        if !policy.allows(self.name, signer.key_name()) {
            return Err(self.rejected(RejectionReason::NotAllowed));
        }
        let key = signer.public_key();
        if key.key_type().signature_type() != self.info.signature_type {
            return Err(self.rejected(RejectionReason::KeyTypeMismatch));
        }
        if !self.done.is_signed_by(key).unwrap_or_else(|| key.verify(self.parts, self.value)) {
            return Err(self.rejected(RejectionReason::BadSignature));
        }
        Ok(())
    }

    /// A rejection at this very packet.
    fn rejected(&self, why: RejectionReason) -> Rejection {
        Rejection { key: self.info.key_name().map(Name::from), ..Rejection::of(self.name, why) }
    }
}
