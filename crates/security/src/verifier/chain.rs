//! Chains of certificates: from the key that signed a packet up to a trust anchor.
//!
//! A chain is first walked upwards by name, which requests missing certificates; then its
//! signatures are checked downwards from the anchor. So a forged certificate is found out by a key
//! that is trusted already, and is forgotten, and a forged packet never displaces a good
//! certificate.

use std::collections::VecDeque;
use std::sync::Arc;

use namely_wire::{DataView, Name, NameRef, ValidityPeriod, key_name_of_locator};

use super::{NotYet, SignedPacket};
use crate::certificate::Certificate;
use crate::prepared::Done;
use crate::trust::{Rejection, RejectionReason, TrustPolicy};
use crate::validity::seconds;
use crate::verified::Chain;

/// Maximum number of certificates kept that were supplied and are not validated; the oldest is
/// removed.
pub const CANDIDATES_MAX: usize = 64;

/// Maximum number of validated certificates kept; the oldest is removed, and is fetched again if it
/// is needed.
pub const VALIDATED_MAX: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Chains {
    candidates: VecDeque<Certificate>,
    validated: VecDeque<Trusted>,
}

/// A certificate that is believed.
#[derive(Clone, Debug)]
pub(super) struct Trusted {
    certificate: Certificate,
    /// When it and all above it are valid.
    validity: ValidityPeriod,
    /// The names from `certificate` up to the anchor.
    chain: Arc<Chain>,
}

impl Trusted {
    fn anchor(certificate: &Certificate) -> Self {
        let chain =
            Chain { key: certificate.key_name().to_name(), certificates: vec![certificate.name().to_name()] };
        Trusted { certificate: certificate.clone(), validity: certificate.validity(), chain: Arc::new(chain) }
    }

    /// `certificate`, whose signature by `self` was checked.
    fn extend(&self, certificate: &Certificate) -> Self {
        let mut certificates = vec![certificate.name().to_name()];
        certificates.extend_from_slice(&self.chain.certificates);
        Trusted {
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

    /// Certificates between it and the anchor, its own included.
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

    /// The validated certificate of that name.
    pub(super) fn validated(&self, name: NameRef<'_>) -> Option<&Certificate> {
        self.validated.iter().map(Trusted::certificate).find(|certificate| certificate.name() == name)
    }

    /// The believed certificate that `locator`, the KeyLocator of `packet`, means.
    pub(super) fn trusted(
        &mut self,
        policy: &TrustPolicy,
        packet: &SignedPacket<'_>,
        locator: NameRef<'_>,
        now_ns: u64,
    ) -> Result<Trusted, NotYet> {
        let mut upward: Vec<Certificate> = Vec::new();
        let mut locator = locator.to_name();
        let top = loop {
            if let Some(found) = self.known(policy, locator.as_name(), now_ns) {
                let found = found.map_err(|(certificate, why)| at(packet, &certificate, why))?;
                break found;
            }
            let candidate = self.candidate(locator.as_name(), now_ns).ok_or(NotYet::Need(locator))?;
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

    /// An anchor or validated certificate that `locator` means; if those there are have expired,
    /// why.
    fn known(
        &mut self,
        policy: &TrustPolicy,
        locator: NameRef<'_>,
        now_ns: u64,
    ) -> Option<Result<Trusted, (Certificate, RejectionReason)>> {
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
            Some(anchor) => Some(Ok(Trusted::anchor(anchor))),
            None => check_usable(policy, &first, now_ns).err().map(|why| Err((first, why))),
        }
    }

    /// The newest candidate that `locator` means, one that is valid now before one that is not.
    fn candidate(&self, locator: NameRef<'_>, now_ns: u64) -> Option<Certificate> {
        let meant = || self.candidates.iter().rev().filter(|c| c.answers_to(locator));
        meant().find(|c| c.validity().contains(seconds(now_ns))).or_else(|| meant().next()).cloned()
    }

    /// Checks what can be known of `candidate` without its signer; returns whom to look for next.
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
            // Another certificate of the same key may come: this one must not stand in its way.
            self.forget(candidate);
            at(packet, candidate, why)
        })
    }

    /// Checks the signatures of `upward`, last first, and remembers what is good.
    fn check_downward(
        &mut self,
        policy: &TrustPolicy,
        packet: &SignedPacket<'_>,
        top: Trusted,
        upward: &[Certificate],
    ) -> Result<Trusted, NotYet> {
        let mut trusted = top;
        for certificate in upward.iter().rev() {
            self.forget(certificate);
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

    fn forget(&mut self, certificate: &Certificate) {
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
    let (value, done) = (data.signature_value, &Done::Nothing);
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
