//! The verifier: decides under a [`TrustPolicy`] whether a packet is trusted.
//!
//! The verifier does no I/O and reads no clock. If it lacks a certificate, it returns the
//! certificate's name. The driver fetches the certificate, passes it to [`Verifier::supply`], and
//! verifies again:
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
//!             // The Interest needs CanBePrefix, because this may be the name of a key.
//!             let Some(certificate) = fetch(&needed.certificate) else { break None };
//!             if verifier.supply(&certificate).is_err() { break None }
//!             data = needed.data;
//!         }
//!     }
//! };
//! # assert!(verified.is_none());
//! ```
//!
//! Each iteration of that loop adds one certificate to the chain, and a chain has at most
//! [`TrustPolicy::depth_max`] certificates, so the loop ends.

mod chain;
#[cfg(test)]
mod tests;

use namely_wire::{
    DataView, DecodeError, InterestView, Name, NameRef, SignatureInfoView, SignatureType, key_name_of_locator,
};

use crate::certificate::{Certificate, CertificateError};
use crate::crypto::{constant_time_eq, sha256, sha256_of};
use crate::manifest::ManifestHash;
use crate::prepared::{Preparation, Prepared, PreparedCheck};
use crate::trust::{Mode, Rejection, RejectionReason, TrustPolicy};
use crate::verified::{PacketOctets, Spans, TrustReason, Verified};

use self::chain::Chains;
pub use self::chain::{CANDIDATES_MAX, VALIDATED_MAX};

/// Decides whether packets are trusted. Caches validated certificates, at most [`VALIDATED_MAX`].
#[derive(Debug)]
pub struct Verifier {
    policy: TrustPolicy,
    chains: Chains,
}

/// The result of verifying a Data.
#[derive(Debug)]
pub enum Verdict<B: PacketOctets> {
    /// The Data is trusted.
    Verified(Verified<B>),
    /// A certificate is missing.
    NeedCertificate(NeedCertificate<B>),
    /// The Data is not trusted.
    Rejected(Rejection),
}

/// A Data that waits for a certificate.
#[derive(Debug)]
pub struct NeedCertificate<B> {
    /// The Data, returned to the caller.
    pub data: B,
    /// The KeyLocator to fetch: the name of a certificate, or the name of a key. Each Data below
    /// the name of a key is a certificate.
    pub certificate: Name,
}

impl Verifier {
    /// Creates a verifier with `policy`.
    pub fn new(policy: TrustPolicy) -> Self {
        Verifier { policy, chains: Chains::default() }
    }

    /// The policy.
    pub fn policy(&self) -> &TrustPolicy {
        &self.policy
    }

    /// Replaces the policy and drops the certificates validated under the old one.
    pub fn set_policy(&mut self, policy: TrustPolicy) {
        self.policy = policy;
        self.chains = Chains::default();
    }

    /// Verifies a Data at `now_ns` (ns since the Unix epoch).
    pub fn verify<B: PacketOctets>(&mut self, data: B, now_ns: u64) -> Verdict<B> {
        self.verify_prepared(Prepared::from(data), now_ns)
    }

    /// Verifies a Data that may be prepared in part (see [`Verifier::preparation`]).
    pub fn verify_prepared<B: PacketOctets>(&mut self, data: Prepared<B>, now_ns: u64) -> Verdict<B> {
        let (spans, outcome) = match DataView::parse(data.packet().as_ref()) {
            Ok(view) => (Spans::of(&view), self.verify_view(&view, data.done(), now_ns)),
            Err(e) => return Verdict::Rejected(Rejection::unreadable(e)),
        };
        let data = data.into_packet();
        match outcome {
            Ok(reason) => Verdict::Verified(Verified::new(data, spans, reason)),
            Err(VerifyFailure::Need(certificate)) => {
                Verdict::NeedCertificate(NeedCertificate { data, certificate })
            }
            Err(VerifyFailure::Rejected(rejection)) => {
                Verdict::Rejected(Rejection { digest: Some(Box::new(sha256(data.as_ref()))), ..*rejection })
            }
        }
    }

    /// Returns the preparation for Data that is expected to be trusted for the same `reason` as an
    /// earlier Data. `None` for a shared key and a manifest, and if nothing is checked.
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

    fn verify_view(
        &mut self,
        view: &DataView<'_>,
        done: &PreparedCheck,
        now_ns: u64,
    ) -> Result<TrustReason, VerifyFailure> {
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

    /// Verifies the signature and chain of a signed Interest. The caller checks its parameters
    /// digest and its age.
    pub(crate) fn verify_interest(
        &mut self,
        interest: &InterestView<'_>,
        info: SignatureInfoView<'_>,
        value: &[u8],
        now_ns: u64,
    ) -> Result<TrustReason, VerifyFailure> {
        let parts = [interest.signed_name(), interest.signed_parameters];
        let done = &PreparedCheck::Nothing;
        self.verify_packet(&SignedPacket { name: interest.name, info, parts: &parts, value, done }, now_ns)
    }

    fn verify_packet(
        &mut self,
        packet: &SignedPacket<'_>,
        now_ns: u64,
    ) -> Result<TrustReason, VerifyFailure> {
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

    /// Returns the validated certificate or trust anchor of that name.
    pub fn certificate(&self, name: NameRef<'_>) -> Option<&Certificate> {
        let anchor = || self.policy.anchors().iter().find(|anchor| anchor.name() == name);
        self.chains.validated(name).or_else(anchor)
    }

    /// Supplies a requested certificate, which is trusted only if its own chain leads to an anchor.
    /// If a Data has not led to its validation by then, the certificate is evicted when
    /// [`CANDIDATES_MAX`] others have been supplied after it.
    ///
    /// # Errors
    /// [`CertificateError`]: the octets are not a certificate, or its key cannot be used.
    pub fn supply(&mut self, certificate: &[u8]) -> Result<(), CertificateError> {
        self.supply_certificate(Certificate::parse(certificate)?);
        Ok(())
    }

    /// Supplies a certificate that need not be fetched, for example one from the key chain.
    pub fn supply_certificate(&mut self, certificate: Certificate) {
        self.chains.supply(certificate);
    }
}

/// The reason why a packet is not trusted, or not trusted yet.
#[derive(Debug)]
pub(crate) enum VerifyFailure {
    Need(Name),
    Rejected(Box<Rejection>),
}

impl From<Rejection> for VerifyFailure {
    fn from(rejection: Rejection) -> Self {
        VerifyFailure::Rejected(Box::new(rejection))
    }
}

impl Rejection {
    /// The rejection of a packet that could not be parsed.
    pub(crate) fn unreadable(e: DecodeError) -> Self {
        let why = RejectionReason::Malformed(e);
        Rejection { name: Name::new(), certificate: None, key: None, why, digest: None }
    }

    pub(crate) fn of(name: NameRef<'_>, why: RejectionReason) -> Self {
        Rejection { name: name.to_name(), certificate: None, key: None, why, digest: None }
    }
}

/// The signed parts and the signature of a Data or an Interest.
struct SignedPacket<'a> {
    name: NameRef<'a>,
    info: SignatureInfoView<'a>,
    parts: &'a [&'a [u8]],
    value: &'a [u8],
    done: &'a PreparedCheck,
}

impl SignedPacket<'_> {
    /// Returns the name of the signing key, for signatures that have one.
    fn locator(&self) -> Result<NameRef<'_>, Rejection> {
        match self.info.signature_type {
            typ @ (SignatureType::DigestSha256 | SignatureType::Null) => {
                Err(self.rejected(RejectionReason::NoOrigin(typ)))
            }
            SignatureType::Other(n) => Err(self.rejected(RejectionReason::UnknownSignatureType(n))),
            _ => self.info.key_name().ok_or_else(|| self.rejected(RejectionReason::NoKeyName)),
        }
    }

    fn check_digest_only(&self) -> Result<TrustReason, VerifyFailure> {
        if self.info.signature_type != SignatureType::DigestSha256 {
            return Err(self.rejected(RejectionReason::NotADigest(self.info.signature_type)).into());
        }
        let digest = self.done.digest(ManifestHash::Sha256).unwrap_or_else(|| sha256_of(self.parts));
        if !constant_time_eq(&digest, self.value) {
            return Err(self.rejected(RejectionReason::BadDigest).into());
        }
        Ok(TrustReason::Digest)
    }

    fn check_shared_key(
        &self,
        policy: &TrustPolicy,
        key_name: NameRef<'_>,
    ) -> Result<TrustReason, VerifyFailure> {
        let key = policy.shared_key(key_name).ok_or_else(|| self.rejected(RejectionReason::NoSharedKey))?;
        if !key.verify(self.parts, self.value) {
            return Err(self.rejected(RejectionReason::BadSignature).into());
        }
        Ok(TrustReason::SharedKey(key_name.to_name()))
    }

    fn check_signature(&self, policy: &TrustPolicy, signer: &Certificate) -> Result<(), Rejection> {
        // The policy allowed the key name in the KeyLocator, which the sender chose. The issuer
        // vouched for the key name in the certificate, so the policy must allow this one, too.
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

    /// A rejection of this packet itself.
    fn rejected(&self, why: RejectionReason) -> Rejection {
        Rejection { key: self.info.key_name().map(Name::from), ..Rejection::of(self.name, why) }
    }
}
