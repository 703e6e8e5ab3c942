//! Finds an object: its newest version by RDR metadata, or an object by its prefix. Verifies single
//! packets, and fetches the required certificates.

use std::time::Duration;

use namely_host::clock::unix_ns;
use namely_security::{
    MANIFEST_ENTRIES, MANIFEST_KEYWORD, Manifest, TrustPolicy, Verdict, Verified, Verifier, manifest_name,
};
use namely_wire::rdr::{Denial, METADATA_COMPONENT, Metadata, discovery_name};
use namely_wire::{
    CertificateName, Component, ContentType, DataView, InterestBuilder, NackReason, Name, NameRef,
    SignatureType, types,
};

use crate::publish::{MANIFEST_ENTRIES_MIN, SHORT_MANIFEST_OCTETS_MAX};

use super::descriptor::{Object, PAUSES_MAX, ReadOptions, SignatureMode, again_after_ns};
use super::{ObjectError, report_refused};
use crate::connection::{Answer, Connection, ConnectionError};

/// Maximum number of certificates fetched for one packet: a chain, and a few unsuitable ones.
const CERTIFICATES_MAX: usize = 16;

/// Number of requests for metadata before the object is searched without metadata. A producer
/// without metadata does not answer, so each attempt costs a lifetime.
const DISCOVERY_ATTEMPTS: u32 = 2;

const MANIFEST_COMPONENT: Component<'static> =
    Component { typ: types::KEYWORD_COMPONENT, value: MANIFEST_KEYWORD };

/// Requests one packet at a time.
pub trait Express {
    /// Sends `interest`, and retransmits it for `attempts` times its lifetime; see
    /// [`Connection::express_retrying`].
    ///
    /// # Errors
    /// The router is gone, or `interest` is not one.
    fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError>;

    /// Waits before the next request.
    fn pause(&mut self, pause: Duration) {
        std::thread::sleep(pause);
    }
}

impl Express for Connection {
    fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError> {
        Connection::express_retrying(self, interest, attempts)
    }
}

/// Finds objects and single packets that a verifier accepts.
pub struct Discovery<'a> {
    express: &'a mut dyn Express,
    verifier: &'a mut Verifier,
    options: ReadOptions,
}

impl<'a> Discovery<'a> {
    /// Sends its requests by `express`.
    pub fn new(express: &'a mut dyn Express, verifier: &'a mut Verifier, options: ReadOptions) -> Self {
        Discovery { express, verifier, options }
    }

    /// Requests one packet, waits up to [`ReadOptions::attempts`] lifetimes for it, and verifies
    /// it.
    ///
    /// # Errors
    /// There is no answer, the router refuses, or the packet fails verification.
    pub fn packet(&mut self, interest: &InterestBuilder, name: NameRef<'_>) -> Result<Verified, ObjectError> {
        let wire = self.answer(interest, name)?;
        self.verified(wire)
    }

    /// Verifies a packet, and fetches the required certificates.
    ///
    /// # Errors
    /// The packet fails verification, or a certificate is missing.
    pub fn verified(&mut self, wire: Vec<u8>) -> Result<Verified, ObjectError> {
        let mut wire = wire;
        for _ in 0..CERTIFICATES_MAX {
            match self.verifier.verify(wire, unix_ns()) {
                Verdict::Verified(verified) => return Ok(verified),
                Verdict::Rejected(rejection) => {
                    let error = ObjectError::Untrusted(rejection);
                    // The router then removes its copy, so that the next attempt may find a valid
                    // one.
                    if let Some(refused) = error.refused_data() {
                        report_refused(self.express, &refused);
                    }
                    return Err(error);
                }
                Verdict::NeedCertificate(needed) => {
                    wire = needed.data;
                    self.supply(&needed.certificate, &name_of(&wire))?;
                }
            }
        }
        let name = name_of(&wire);
        Err(ObjectError::NoCertificate { certificate: name.clone(), name, fault: None })
    }

    /// Fetches `certificate`, which `name` requires, and passes it to the verifier.
    ///
    /// # Errors
    /// [`ObjectError::NoCertificate`] if there is no answer, or the answer is no certificate.
    pub fn supply(&mut self, certificate: &Name, name: &Name) -> Result<(), ObjectError> {
        let mut interest =
            InterestBuilder::new(certificate.clone()).can_be_prefix().lifetime_ms(self.options.lifetime_ms);
        if CertificateName::parse(certificate.as_name()).is_err() {
            // Any current certificate of the key suffices. An old one in a cache may have expired.
            interest = interest.must_be_fresh();
        }
        let missing = |fault| ObjectError::NoCertificate {
            name: name.clone(),
            certificate: certificate.clone(),
            fault,
        };
        match self.express.express_retrying(&interest, self.options.attempts)? {
            Answer::Data(reply) => self.verifier.supply(&reply.wire).map_err(|fault| missing(Some(fault))),
            Answer::Nack(_) | Answer::Timeout => Err(missing(None)),
        }
    }

    /// Finds `name`, or its newest version if the name has none.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] or [`ObjectError::SourceMissing`] if the producer denies the
    /// object; otherwise as [`Discovery::packet`], or the metadata is invalid. If the producer is
    /// not reached, cached metadata may take the place of its answer: [`ReadOptions::stale_s`].
    pub fn find(&mut self, name: NameRef<'_>) -> Result<Object, ObjectError> {
        match name.last() {
            // A versioned name identifies the object, so no metadata is needed.
            Some(last) if last.version().is_some() => return self.find_by_first_segment(name),
            Some(last) if last.segment().is_some() => return self.find_by_prefix(name),
            _ => {}
        }
        let interest = self.interest(discovery_name(name)).can_be_prefix().must_be_fresh();
        match self.express.express_retrying(&interest, DISCOVERY_ATTEMPTS)? {
            Answer::Data(reply) => self.believed_metadata(&interest, reply.wire, name),
            Answer::Nack(reason) => {
                let refused = ObjectError::Refused { name: name.to_name(), reason };
                // Congestion means that the producer is there.
                let stale = if reason == NackReason::NoRoute { self.find_stale(name)? } else { None };
                stale.ok_or(refused)
            }
            Answer::Timeout => match self.find_stale(name)? {
                Some(object) => Ok(object),
                None => self.find_by_prefix(name),
            },
        }
    }

    /// Finds the newest version that a cache knows, if [`ReadOptions::stale_s`] permits its age.
    /// `None` if there is no such metadata: the error of the fresh request is the one to report.
    fn find_stale(&mut self, name: NameRef<'_>) -> Result<Option<Object>, ObjectError> {
        let stale_ns = self.options.stale_s.saturating_mul(1_000_000_000);
        if stale_ns == 0 {
            return Ok(None);
        }
        let interest = self.interest(discovery_name(name)).can_be_prefix();
        let Answer::Data(reply) = self.express.express_retrying(&interest, 1)? else { return Ok(None) };
        // A cached denial does not prove that the object is still missing, so it is ignored, too.
        let Ok(object) = self.object_of_metadata(reply.wire, name) else { return Ok(None) };
        // The age of metadata without a time is unknown.
        let age_ns = object.as_of_ns.map(|as_of_ns| unix_ns().saturating_sub(as_of_ns));
        Ok(age_ns.is_some_and(|age_ns| age_ns <= stale_ns).then_some(object))
    }

    /// Returns the object that the metadata in `wire` describes. If another signer's metadata is
    /// received, it may come from a cache. The request is then repeated with growing pauses, until
    /// the cached copy is no longer fresh. A different packet of that signer is not the cached
    /// copy, so it is rejected at once.
    fn believed_metadata(
        &mut self,
        interest: &InterestBuilder,
        wire: Vec<u8>,
        name: NameRef<'_>,
    ) -> Result<Object, ObjectError> {
        let mut wire = wire;
        let mut pauses = 0;
        loop {
            let key = signer_of(&wire);
            // The verifier consumes the packet, and the next answer is compared with it.
            let copy = wire.clone();
            let error = match self.object_of_metadata(wire, name) {
                Err(ObjectError::Untrusted(rejection)) if rejection.may_be_anothers() => rejection,
                other => return other,
            };
            // If the policy lets no key sign the name, no other answer can be valid.
            if pauses == PAUSES_MAX || !self.verifier.policy().may_vouch_for(name) {
                return Err(ObjectError::Untrusted(error));
            }
            self.express.pause(Duration::from_nanos(again_after_ns(pauses)));
            pauses += 1;
            wire = match self.express.express_retrying(interest, 1)? {
                Answer::Data(reply) if reply.wire != copy && signer_of(&reply.wire) == key => {
                    return Err(ObjectError::Untrusted(error));
                }
                Answer::Data(reply) => reply.wire,
                // The copy is checked again, so that the final error is about the packet and not
                // the silence.
                Answer::Nack(_) | Answer::Timeout => copy,
            };
        }
    }

    /// Finds an object by `name` as a prefix: an object without metadata, or a dataset of a router.
    ///
    /// # Errors
    /// As [`Discovery::find`].
    pub fn find_by_prefix(&mut self, name: NameRef<'_>) -> Result<Object, ObjectError> {
        let interest = self.interest(name.to_name()).can_be_prefix().must_be_fresh();
        let wire = self.answer(&interest, name)?;
        let data = parsed(&wire, name)?;
        let found = data.name;
        if found.component(name.len()) == Some(METADATA_COMPONENT) {
            return self.object_of_metadata(wire, name);
        }
        if found.len() > name.len() + 1 && found.without_last(1).last() == Some(MANIFEST_COMPONENT) {
            return self.find_by_first_segment(found.without_last(2));
        }
        if found.len() > name.len() && found.last().is_some_and(|last| last.segment().is_some()) {
            return Ok(self.object_of_segment(&data));
        }
        let found = found.to_name();
        let whole = self.verified(wire)?;
        if whole.content_type() == ContentType::Nack {
            return Err(ObjectError::NotFound { name: name.to_name() });
        }
        Ok(Object { whole: Some(whole), segments: Some(1), ..unknown(found) })
    }

    /// Finds an object with segments `<object>/seg=<n>`.
    fn find_by_first_segment(&mut self, object: NameRef<'_>) -> Result<Object, ObjectError> {
        let first = object.to_name().join_segment(0);
        let wire = self.answer(&self.interest(first), object)?;
        Ok(self.object_of_segment(&parsed(&wire, object)?))
    }

    /// Returns the object of the segment `data`. Only its name, FinalBlockId, length and signature
    /// type are used, unverified. The segment is fetched again and verified later.
    fn object_of_segment(&mut self, data: &DataView<'_>) -> Object {
        let last = data.final_block_id.and_then(|last| last.segment());
        let object = unknown(data.name.without_last(1).to_name());
        match last {
            // If origins are verified, only a manifest can authenticate a segment that no key
            // signed.
            Some(last) if self.verifier.policy().is_authenticating() && self.has_manifests(data) => {
                let segments = Some(last.saturating_add(1));
                let manifest_entries = self.entries_of_manifests(data, last);
                Object { segments, signature_mode: SignatureMode::Manifests, manifest_entries, ..object }
            }
            _ => object,
        }
    }

    /// Returns the number of segments per manifest for an object without metadata that contains the
    /// segment `data`. It is taken from the first manifest, which is verified later. If packets are
    /// long, or one manifest suffices, no request is necessary.
    fn entries_of_manifests(&mut self, data: &DataView<'_>, last: u64) -> u64 {
        let octets = data.content.len() + data.name.encoded_octets();
        if octets > SHORT_MANIFEST_OCTETS_MAX || last < MANIFEST_ENTRIES_MIN {
            return MANIFEST_ENTRIES;
        }
        let object = data.name.without_last(1);
        let interest = self.interest(manifest_name(object, 0));
        // The number is only a guess, which verification checks, so a missing manifest is no error
        // here.
        let Ok(wire) = self.answer(&interest, object) else { return MANIFEST_ENTRIES };
        let first = DataView::parse(&wire).ok();
        let first = first.and_then(|first| Manifest::decode(first.content, object, 0).ok());
        let entries = first.map_or(MANIFEST_ENTRIES, |manifest| manifest.segments().end);
        // A manifest that lists the whole object does not show how many entries a full one has.
        if entries > last { MANIFEST_ENTRIES } else { entries.max(1) }
    }

    /// Returns true if manifests authenticate the object of the segment `data`. A segment with a
    /// digest signature is taken as a sign of manifests. A segment without any signature may belong
    /// to an object without any authentication.
    fn has_manifests(&mut self, data: &DataView<'_>) -> bool {
        match data.signature_type {
            SignatureType::DigestSha256 => true,
            SignatureType::Null => {
                let first = manifest_name(data.name.without_last(1), 0);
                self.answer(&self.interest(first), data.name).is_ok()
            }
            _ => false,
        }
    }

    fn interest(&self, name: Name) -> InterestBuilder {
        InterestBuilder::new(name).lifetime_ms(self.options.lifetime_ms)
    }

    fn answer(&mut self, interest: &InterestBuilder, name: NameRef<'_>) -> Result<Vec<u8>, ObjectError> {
        match self.express.express_retrying(interest, self.options.attempts)? {
            Answer::Data(reply) => Ok(reply.wire),
            Answer::Nack(reason) => Err(ObjectError::Refused { name: name.to_name(), reason }),
            Answer::Timeout => Err(ObjectError::NoAnswer { name: name.to_name() }),
        }
    }

    fn object_of_metadata(&mut self, wire: Vec<u8>, requested: NameRef<'_>) -> Result<Object, ObjectError> {
        let is_nack = parsed(&wire, requested)?.content_type == ContentType::Nack;
        // A Nack is verified, too, because a forged one must not hide an object.
        let data = self.verified_metadata(wire)?;
        if is_nack {
            let name = requested.to_name();
            return Err(match Denial::decode(data.content()) {
                Denial::Absent => ObjectError::NotFound { name },
                Denial::SourceMissing => ObjectError::SourceMissing { name },
            });
        }
        let metadata = Metadata::decode(data.content())
            .map_err(|error| ObjectError::Malformed { name: data.name().to_name(), error })?;
        // Otherwise a producer could present another object under the requested name.
        if !requested.is_prefix_of(metadata.name.as_name()) {
            return Err(ObjectError::Stray { asked: requested.to_name(), led_to: metadata.name });
        }
        // The layout divides by this number, so it must not be 0. The verifier refuses longer
        // manifests.
        let entries = metadata.manifest_entries.filter(|entries| (1..=MANIFEST_ENTRIES).contains(entries));
        let authenticating = self.verifier.policy().is_authenticating();
        let signature_mode = match entries.is_some() && authenticating && metadata.last_segment.is_some() {
            true => SignatureMode::Manifests,
            false => SignatureMode::Segments,
        };
        Ok(Object {
            segments: metadata.last_segment.map(|last| last.saturating_add(1)),
            signature_mode,
            manifest_entries: entries.unwrap_or(MANIFEST_ENTRIES),
            as_of_ns: made_at_ns(data.name()),
            reason: Some(data.reason().clone()),
            metadata: Some(metadata.clone()),
            ..unknown(metadata.name)
        })
    }

    /// Verifies metadata. Metadata is signed with a key even if the policy checks only digests of
    /// segments. Under such a policy it is accepted unverified, because no origin is checked.
    fn verified_metadata(&mut self, wire: Vec<u8>) -> Result<Verified, ObjectError> {
        if self.verifier.policy().is_authenticating() {
            return self.verified(wire);
        }
        // The time is irrelevant, because this policy checks no validity.
        match Verifier::new(TrustPolicy::insecure_accept_all()).verify(wire, 0) {
            Verdict::Verified(data) => Ok(data),
            Verdict::Rejected(rejection) => Err(ObjectError::Untrusted(rejection)),
            Verdict::NeedCertificate(needed) => self.verified(needed.data),
        }
    }
}

/// Returns the name of the key in the KeyLocator of `wire`, if there is one.
fn signer_of(wire: &[u8]) -> Option<Name> {
    Some(DataView::parse(wire).ok()?.signature_info().ok()?.key_name()?.to_name())
}

fn parsed<'a>(wire: &'a [u8], requested: NameRef<'_>) -> Result<DataView<'a>, ObjectError> {
    DataView::parse(wire).map_err(|error| ObjectError::Malformed { name: requested.to_name(), error })
}

/// Returns the creation time of metadata from the version in its name: a time in s, ms, us or ns.
/// From 1973 on the magnitude determines the unit.
fn made_at_ns(name: NameRef<'_>) -> Option<u64> {
    let keyword = name.components().position(|component| component == METADATA_COMPONENT)?;
    let version = name.component(keyword + 1)?.version()?;
    match version {
        0..100_000_000 => None,
        100_000_000..100_000_000_000 => Some(version * 1_000_000_000),
        100_000_000_000..100_000_000_000_000 => Some(version * 1_000_000),
        100_000_000_000_000..100_000_000_000_000_000 => Some(version * 1_000),
        _ => Some(version),
    }
}

fn unknown(name: Name) -> Object {
    Object {
        name,
        segments: None,
        signature_mode: SignatureMode::Segments,
        manifest_entries: MANIFEST_ENTRIES,
        metadata: None,
        as_of_ns: None,
        reason: None,
        whole: None,
    }
}

fn name_of(wire: &[u8]) -> Name {
    DataView::parse(wire).map(|data| data.name.to_name()).unwrap_or_default()
}
