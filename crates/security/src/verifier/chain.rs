//! Chains of certificates: from the key that signed a packet up to a trust anchor.
//!
//! The verifier first follows a chain upwards by name, and requests missing certificates. Then it
//! checks the signatures downwards from the anchor. So each signature is checked with a key that is
//! already trusted. A forged certificate is detected and dropped, and a forged packet never
//! displaces a valid certificate.

use std::collections::VecDeque;
use std::sync::Arc;

use namely_wire::{DataView, Name, NameRef, ValidityPeriod, key_name_of_locator};

use super::{SignedPacket, VerifyFailure};
use crate::certificate::Certificate;
use crate::prepared::PreparedCheck;
use crate::trust::{Rejection, RejectionReason, TrustPolicy};
use crate::validity::seconds;
use crate::verified::Chain;

/// Cached certificates that were supplied and are not validated.
///
/// # Limit
/// The oldest certificate is removed, and fetched again if it is needed.
/// - Tests: `the_newest_candidate_certificates_stay`
pub const CANDIDATES_MAX: usize = 64;

/// Cached validated certificates.
///
/// # Limit
/// The oldest certificate is removed, and fetched again if it is needed.
/// - Tests: `the_newest_validated_certificates_stay`
pub const VALIDATED_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Chains {
    candidates: VecDeque<Certificate>,
    validated: VecDeque<TrustedCertificate>,
}

/// A trusted certificate.
#[derive(Clone, Debug)]
pub(super) struct TrustedCertificate {
    certificate: Certificate,
    /// The period in which the certificate and all certificates above it are valid.
    validity: ValidityPeriod,
    /// The names from `certificate` up to the anchor.
    chain: Arc<Chain>,
}

impl TrustedCertificate {
    fn anchor(certificate: &Certificate) -> Self {
        let chain =
            Chain { key: certificate.key_name().to_name(), certificates: vec![certificate.name().to_name()] };
        TrustedCertificate {
            certificate: certificate.clone(),
            validity: certificate.validity(),
            chain: Arc::new(chain),
        }
    }

    /// Extends the chain by `certificate`, whose signature by `self` was checked.
    fn extend(&self, certificate: &Certificate) -> Self {
        let mut certificates = vec![certificate.name().to_name()];
        certificates.extend_from_slice(&self.chain.certificates);
        TrustedCertificate {
            certificate: certificate.clone(),
            validity: self.validity.intersect(&certificate.validity()),
            chain: Arc::new(Chain { key: certificate.key_name().to_name(), certificates }),
        }
    }

    pub(super) fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    pub(super) fn chain(&self) -> Arc<Chain> {
        Arc::clone(&self.chain)
    }

    /// Number of certificates in the chain, the anchor not counted.
    fn depth(&self) -> usize {
        self.chain.certificates.len() - 1
    }
}

impl Chains {
    pub(super) fn supply(&mut self, certificate: Certificate) {
        self.candidates.retain(|known| known.name() != certificate.name());
        if self.candidates.len() >= CANDIDATES_MAX {
            self.candidates.pop_front();
        }
        self.candidates.push_back(certificate);
    }

    /// Returns the validated certificate of that name.
    pub(super) fn validated(&self, name: NameRef<'_>) -> Option<&Certificate> {
        self.validated
            .iter()
            .map(TrustedCertificate::certificate)
            .find(|certificate| certificate.name() == name)
    }

    /// Returns the trusted certificate that `locator`, the KeyLocator of `packet`, names.
    pub(super) fn trusted(
        &mut self,
        policy: &TrustPolicy,
        packet: &SignedPacket<'_>,
        locator: NameRef<'_>,
        now_ns: u64,
    ) -> Result<TrustedCertificate, VerifyFailure> {
        let mut upward: Vec<Certificate> = Vec::new();
        let mut locator = locator.to_name();
        let top = loop {
            if let Some(found) = self.known(policy, locator.as_name(), now_ns) {
                let found = found.map_err(|(certificate, why)| at(packet, &certificate, why))?;
                break found;
            }
            let candidate = self.candidate(locator.as_name(), now_ns).ok_or(VerifyFailure::Need(locator))?;
            if upward.len() >= policy.depth_max() {
                return Err(at(packet, &candidate, RejectionReason::TooDeep(policy.depth_max())).into());
            }
            locator = self.step_up(policy, packet, &upward, &candidate, now_ns)?;
            upward.push(candidate);
        };
        if top.depth() + upward.len() > policy.depth_max() {
            let lowest = upward.first().unwrap_or(&top.certificate);
            return Err(at(packet, lowest, RejectionReason::TooDeep(policy.depth_max())).into());
        }
        self.check_downward(policy, packet, top, &upward)
    }

    /// Returns a validated certificate or anchor that `locator` names; `None` if there is none. If
    /// `locator` names only unusable anchors, returns the first of them and the reason.
    fn known(
        &mut self,
        policy: &TrustPolicy,
        locator: NameRef<'_>,
        now_ns: u64,
    ) -> Option<Result<TrustedCertificate, (Certificate, RejectionReason)>> {
        let now_s = seconds(now_ns);
        self.validated.retain(|trusted| trusted.validity.not_after_s >= now_s);
        let validated =
            self.validated.iter().find(|t| t.certificate.answers_to(locator) && t.validity.contains(now_s));
        if let Some(trusted) = validated {
            return Some(Ok(trusted.clone()));
        }
        let mut anchors = policy.anchors().iter().filter(|anchor| anchor.answers_to(locator)).peekable();
        let first = (*anchors.peek()?).clone();
        match anchors.find(|anchor| check_usable(policy, anchor, now_ns).is_ok()) {
            Some(anchor) => Some(Ok(TrustedCertificate::anchor(anchor))),
            None => check_usable(policy, &first, now_ns).err().map(|why| Err((first, why))),
        }
    }

    /// Returns the newest candidate that `locator` names. Presently valid candidates are preferred.
    fn candidate(&self, locator: NameRef<'_>, now_ns: u64) -> Option<Certificate> {
        let meant = || self.candidates.iter().rev().filter(|c| c.answers_to(locator));
        meant().find(|c| c.validity().contains(seconds(now_ns))).or_else(|| meant().next()).cloned()
    }

    /// Checks `candidate` as far as possible without its signer. Returns the signer's name.
    fn step_up(
        &mut self,
        policy: &TrustPolicy,
        packet: &SignedPacket<'_>,
        upward: &[Certificate],
        candidate: &Certificate,
        now_ns: u64,
    ) -> Result<Name, Rejection> {
        let checked = check_usable(policy, candidate, now_ns).and_then(|()| {
            let signer = candidate.signer_name().ok_or(RejectionReason::NoKeyName)?;
            let key_name = key_name_of_locator(signer).map_err(|_| RejectionReason::NoKeyName)?;
            if candidate.is_self_signed() {
                Err(RejectionReason::UntrustedRoot)
            } else if upward.iter().any(|below| below.answers_to(signer)) {
                Err(RejectionReason::Loop)
            } else if !policy.allows(candidate.name(), key_name) {
                Err(RejectionReason::NotAllowed)
            } else {
                Ok(signer.to_name())
            }
        });
        checked.map_err(|why| {
            // The candidate is dropped, because it could hide another certificate of the same key.
            self.remove_candidate(candidate);
            at(packet, candidate, why)
        })
    }

    /// Checks the signatures of `upward`, last first, and caches the valid certificates.
    fn check_downward(
        &mut self,
        policy: &TrustPolicy,
        packet: &SignedPacket<'_>,
        top: TrustedCertificate,
        upward: &[Certificate],
    ) -> Result<TrustedCertificate, VerifyFailure> {
        let mut trusted = top;
        for certificate in upward.iter().rev() {
            // With either result of the check, the certificate is no candidate any more.
            self.remove_candidate(certificate);
            check_certificate(policy, certificate, &trusted.certificate)
                .map_err(|why| at(packet, certificate, why))?;
            trusted = trusted.extend(certificate);
            if self.validated.len() >= VALIDATED_MAX {
                self.validated.pop_front();
            }
            self.validated.push_back(trusted.clone());
        }
        Ok(trusted)
    }

    fn remove_candidate(&mut self, certificate: &Certificate) {
        self.candidates.retain(|known| known != certificate);
    }
}

fn check_usable(policy: &TrustPolicy, certificate: &Certificate, now_ns: u64) -> Result<(), RejectionReason> {
    let (validity, now_s) = (certificate.validity(), seconds(now_ns));
    if policy.has_revoked(certificate) {
        Err(RejectionReason::Revoked)
    } else if validity.not_after_s < now_s {
        Err(RejectionReason::Expired { not_after_s: validity.not_after_s })
    } else if validity.not_before_s > now_s {
        Err(RejectionReason::NotYetValid { not_before_s: validity.not_before_s })
    } else {
        Ok(())
    }
}

fn check_certificate(
    policy: &TrustPolicy,
    certificate: &Certificate,
    signer: &Certificate,
) -> Result<(), RejectionReason> {
    let data = DataView::parse(certificate.wire()).map_err(RejectionReason::Malformed)?;
    let info = data.signature_info().map_err(RejectionReason::Malformed)?;
    let parts = [data.signed_portion];
    let (value, done) = (data.signature_value, &PreparedCheck::Nothing);
    let packet = SignedPacket { name: data.name, info, parts: &parts, value, done };
    packet.check_signature(policy, signer).map_err(|rejection| rejection.why)
}

/// A rejection of `packet` because of a certificate in its chain.
fn at(packet: &SignedPacket<'_>, certificate: &Certificate, why: RejectionReason) -> Rejection {
    Rejection {
        name: packet.name.to_name(),
        certificate: Some(certificate.name().to_name()),
        key: certificate.signer_name().map(Name::from),
        why,
        digest: None,
    }
}
