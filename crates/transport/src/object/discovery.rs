//! Finds an object: its newest version by RDR metadata, or what answers to its prefix; and verifies
//! single packets, with the certificates that they take.

use std::time::Duration;

use namely_host::clock::unix_ns;
use namely_security::{
    MANIFEST_ENTRIES, MANIFEST_KEYWORD, Manifest, TrustPolicy, Verdict, Verified, Verifier, manifest_name,
};
use namely_wire::rdr::{METADATA_COMPONENT, Metadata, discovery_name};
use namely_wire::{
    CertificateName, Component, ContentType, DataView, InterestBuilder, Name, NameRef, SignatureType, types,
};

use crate::publish::{MANIFEST_ENTRIES_MIN, SHORT_MANIFEST_OCTETS_MAX};

use super::descriptor::{Object, PAUSES_MAX, ReadOptions, SignatureMode, again_after_ns};
use super::{ObjectError, report_refused};
use crate::connection::{Answer, Connection, ConnectionError};

/// Certificates fetched for one packet at most: a chain, and a few that turned out to be others.
const CERTIFICATES_MAX: usize = 16;

/// How often metadata is asked for before the object is looked for without. A producer that has
/// none stays silent, so each attempt costs a lifetime.
const DISCOVERY_ATTEMPTS: u32 = 2;

const MANIFEST_COMPONENT: Component<'static> =
    Component { typ: types::KEYWORD_COMPONENT, value: MANIFEST_KEYWORD };

/// Requests one packet at a time.
pub trait Express {
    /// Sends `interest`, again and again for `attempts` times its lifetime; see
    /// [`Connection::express_retrying`].
    ///
    /// # Errors
    /// The router is gone, or `interest` is not one.
    fn express_retrying(
        &mut self,
        interest: &InterestBuilder,
        attempts: u32,
    ) -> Result<Answer, ConnectionError>;

    /// Waits before the next one.
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

/// Finds objects and single packets, as far as a verifier believes them.
pub struct Discovery<'a> {
    express: &'a mut dyn Express,
    verifier: &'a mut Verifier,
    options: ReadOptions,
}

impl<'a> Discovery<'a> {
    /// Finds by way of `express`.
    pub fn new(express: &'a mut dyn Express, verifier: &'a mut Verifier, options: ReadOptions) -> Self {
        Discovery { express, verifier, options }
    }

    /// Requests one packet, [`ReadOptions::attempts`] times, and verifies it.
    ///
    /// # Errors
    /// Nobody answers, the router refuses, or the packet is not believed.
    pub fn packet(&mut self, interest: &InterestBuilder, name: NameRef<'_>) -> Result<Verified, ObjectError> {
        let wire = self.answer(interest, name)?;
        self.verified(wire)
    }

    /// Verifies a packet; fetches the certificates that this takes.
    ///
    /// # Errors
    /// The packet is not believed, or a certificate is missing.
    pub fn verified(&mut self, wire: Vec<u8>) -> Result<Verified, ObjectError> {
        let mut wire = wire;
        for _ in 0..CERTIFICATES_MAX {
            match self.verifier.verify(wire, unix_ns()) {
                Verdict::Verified(verified) => return Ok(verified),
                Verdict::Rejected(rejection) => {
                    let error = ObjectError::Untrusted(rejection);
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

    /// Fetches `certificate`, which `name` needs, and hands it to the verifier.
    ///
    /// # Errors
    /// [`ObjectError::NoCertificate`] if nobody answers, or what comes is no certificate.
    pub fn supply(&mut self, certificate: &Name, name: &Name) -> Result<(), ObjectError> {
        let mut interest =
            InterestBuilder::new(certificate.clone()).can_be_prefix().lifetime_ms(self.options.lifetime_ms);
        if CertificateName::parse(certificate.as_name()).is_err() {
            // Whatever certificate the key has now: an old one in a cache may have ended.
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

    /// Finds `name`: its newest version if it names none.
    ///
    /// # Errors
    /// [`ObjectError::NotFound`] if the producer says that there is no such object; otherwise as
    /// [`Discovery::packet`], or the metadata makes no sense.
    pub fn find(&mut self, name: NameRef<'_>) -> Result<Object, ObjectError> {
        match name.last() {
            Some(last) if last.version().is_some() => return self.find_by_first_segment(name),
            Some(last) if last.segment().is_some() => return self.find_by_prefix(name),
            _ => {}
        }
        let interest = self.interest(discovery_name(name)).can_be_prefix().must_be_fresh();
        match self.express.express_retrying(&interest, DISCOVERY_ATTEMPTS)? {
            Answer::Data(reply) => self.believed_metadata(&interest, reply.wire, name),
            Answer::Nack(reason) => Err(ObjectError::Refused { name: name.to_name(), reason }),
            Answer::Timeout => self.find_by_prefix(name),
        }
    }

    /// The object that the metadata in `wire` tells. What somebody else signed may lie in a cache:
    /// it is asked for again, with growing pauses, until the copy there is no longer fresh. Whoever
    /// signs anew with that key is no copy.
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
            let copy = wire.clone();
            let error = match self.object_of_metadata(wire, name) {
                Err(ObjectError::Untrusted(rejection)) if rejection.may_be_anothers() => rejection,
                other => return other,
            };
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
                Answer::Nack(_) | Answer::Timeout => copy,
            };
        }
    }

    /// Finds what answers to `name` as a prefix: an object without metadata, or a dataset of a
    /// router.
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

    /// Finds the object whose segments are `<object>/seg=<n>`.
    fn find_by_first_segment(&mut self, object: NameRef<'_>) -> Result<Object, ObjectError> {
        let first = object.to_name().join_segment(0);
        let wire = self.answer(&self.interest(first), object)?;
        Ok(self.object_of_segment(&parsed(&wire, object)?))
    }

    /// The object that `data` is a segment of. Nothing of the packet is believed yet but its place:
    /// it is fetched again, and verified then.
    fn object_of_segment(&mut self, data: &DataView<'_>) -> Object {
        let last = data.final_block_id.and_then(|last| last.segment());
        let object = unknown(data.name.without_last(1).to_name());
        match last {
            // Where origins count, a segment that no key signed can only be vouched for by a
            // manifest.
            Some(last) if self.verifier.policy().is_authenticating() && self.has_manifests(data) => {
                let segments = Some(last.saturating_add(1));
                let manifest_entries = self.entries_of_manifests(data, last);
                Object { segments, signature_mode: SignatureMode::Manifests, manifest_entries, ..object }
            }
            _ => object,
        }
    }

    /// How many segments each manifest covers of an object without metadata, whose segment `data`
    /// is: as many as its first one, which is believed or not when its turn comes. Where packets
    /// are long, or one manifest is enough, nobody has to be asked.
    fn entries_of_manifests(&mut self, data: &DataView<'_>, last: u64) -> u64 {
        let octets = data.content.len() + data.name.encoded_octets();
        if octets > SHORT_MANIFEST_OCTETS_MAX || last < MANIFEST_ENTRIES_MIN {
            return MANIFEST_ENTRIES;
        }
        let object = data.name.without_last(1);
        let interest = self.interest(manifest_name(object, 0));
        let Ok(wire) = self.answer(&interest, object) else { return MANIFEST_ENTRIES };
        let first = DataView::parse(&wire).ok();
        let first = first.and_then(|first| Manifest::decode(first.content, object, 0).ok());
        let entries = first.map_or(MANIFEST_ENTRIES, |manifest| manifest.segments().end);
        if entries > last { MANIFEST_ENTRIES } else { entries.max(1) }
    }

    /// Returns true if manifests vouch for the object that `data` is a segment of: taken for
    /// granted of a digest; a segment without any signature may as well be of an object that nobody
    /// vouches for.
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

    fn object_of_metadata(&mut self, wire: Vec<u8>, asked: NameRef<'_>) -> Result<Object, ObjectError> {
        let is_nack = parsed(&wire, asked)?.content_type == ContentType::Nack;
        let data = self.verified_metadata(wire)?;
        if is_nack {
            return Err(ObjectError::NotFound { name: asked.to_name() });
        }
        let metadata = Metadata::decode(data.content())
            .map_err(|error| ObjectError::Malformed { name: data.name().to_name(), error })?;
        if !asked.is_prefix_of(metadata.name.as_name()) {
            return Err(ObjectError::Stray { asked: asked.to_name(), led_to: metadata.name });
        }
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

    /// Metadata is signed with a key even where only digests of segments are to be checked: then it
    /// is taken as it is, like everything else of which nobody checks the origin.
    fn verified_metadata(&mut self, wire: Vec<u8>) -> Result<Verified, ObjectError> {
        if self.verifier.policy().is_authenticating() {
            return self.verified(wire);
        }
        match Verifier::new(TrustPolicy::insecure_accept_all()).verify(wire, 0) {
            Verdict::Verified(data) => Ok(data),
            Verdict::Rejected(rejection) => Err(ObjectError::Untrusted(rejection)),
            Verdict::NeedCertificate(needed) => self.verified(needed.data),
        }
    }
}

/// The name of the key that `wire` says it is signed by, if it says so.
fn signer_of(wire: &[u8]) -> Option<Name> {
    Some(DataView::parse(wire).ok()?.signature_info().ok()?.key_name()?.to_name())
}

fn parsed<'a>(wire: &'a [u8], asked: NameRef<'_>) -> Result<DataView<'a>, ObjectError> {
    DataView::parse(wire).map_err(|error| ObjectError::Malformed { name: asked.to_name(), error })
}

/// When metadata was made, as the version in its name says: a time in s, ms, us or ns, which tell
/// themselves apart from 1973 on.
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
