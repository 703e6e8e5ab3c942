//! A directory served by name: the ndn6-file-server protocol, with manifests (`docs/files.md`).
//!
//! Files are read when they are asked for, never whole. A file's version is its modification time;
//! a file that changes has a new version, and the old one is answered no longer: no object ever
//! mixes two states of a file.

mod indexes;
mod request;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_host::clock;
use namely_security::{CryptoError, ManifestHash, Signer, sign_data};
use namely_transport::announce::Announcer;
use namely_transport::connection::Outbox;
use namely_transport::publish::SegmentWriter;
use namely_transport::publish::{PACKET_OCTETS_DEFAULT, SEGMENT_OCTETS_DEFAULT, Signing};
use namely_transport::serve::Producer;
use namely_wire::rdr::{INDEX_FORMAT_1, LISTING_COMPONENT, Metadata, metadata_name};
use namely_wire::{
    ByteRange, ContentType, DataBuilder, InterestView, LpHeaders, NackReason, Name, NameRef,
    PACKET_OCTETS_MAX,
};

use self::indexes::Indexes;
pub(crate) use self::request::{Facet, Part, Request};
use crate::certificates::{Answer, Certificates, Vouched};
use crate::content::{Content, Mark, ReadError, time_ns};
use crate::pack::Pack;
use crate::published::{Packaging, PublishedObject, Unavailable};
use crate::root::{Denied, LISTING_OCTETS_MAX, Opened, Root};

/// Versions of files that are kept open; the one used longest ago is closed.
pub const OBJECTS_MAX: usize = 64;

/// Octets of content that are kept between hashing and sending, over all objects. One object may
/// exceed it by itself, by four groups of 240 segments at most.
pub const KEPT_OCTETS_MAX: usize = 32 << 20;

/// How a directory is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The name of the directory.
    pub prefix: Name,
    /// Octets of content in each segment but the last.
    pub segment_octets: usize,
    /// How segments are signed.
    pub signing: Signing,
    /// FreshnessPeriod of segments and manifests, ms.
    pub freshness_ms: u64,
    /// FreshnessPeriod of metadata, ms: for so long caches may not notice that a file changed.
    pub metadata_freshness_ms: u64,
    /// Whether symbolic links may lead out of the directory.
    pub links_lead_out: bool,
}

impl ServeOptions {
    /// The defaults, for the name `prefix`.
    pub fn new(prefix: Name) -> Self {
        ServeOptions {
            prefix,
            segment_octets: SEGMENT_OCTETS_DEFAULT,
            signing: Signing::Manifest(ManifestHash::Sha256),
            freshness_ms: 10_000,
            metadata_freshness_ms: 1_000,
            links_lead_out: false,
        }
    }
}

/// What a file server did, and why it did not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServeCounters {
    /// Interests that came.
    pub interests: u64,
    /// Segments sent.
    pub segments: u64,
    /// Octets of content in them.
    pub octets: u64,
    /// Manifests sent.
    pub manifests: u64,
    /// Metadata sent.
    pub metadata: u64,
    /// Certificates sent.
    pub certificates: u64,
    /// Answered with "there is no such object".
    pub not_found: u64,
    /// Refused by a Nack: the version that was asked for is gone, or never was.
    pub gone: u64,
    /// Refused by a Nack: a segment or manifest past the last. Or answered with "no such object": a
    /// byte range that begins behind the file's end.
    pub past_end: u64,
    /// Unanswered: the name is none of this protocol.
    pub unknown: u64,
    /// Refused by a Nack or answered with "no such object": the path leads out, or is no path.
    pub refused_paths: u64,
    /// Refused by a Nack or answered with "no such object": a byte range that is none.
    pub refused_ranges: u64,
    /// Unanswered: the system could not read the file.
    pub read_errors: u64,
    /// Unanswered: name and content do not fit a packet.
    pub too_large: u64,
    /// Unanswered: the key did not sign.
    pub signing_errors: u64,
    /// Pipes, sockets, devices, links that lead out and what cannot be read: things in directories
    /// whose indexes were sent that nobody can ask for.
    pub left_out: u64,
}

/// Answers for a directory.
#[derive(Debug)]
pub struct FileServer {
    root: Arc<Root>,
    prefix: Name,
    packaging: Packaging,
    metadata_freshness_ms: u64,
    certificates: Certificates,
    announcer: Option<Announcer>,
    /// By the octets of the versioned name.
    objects: HashMap<Vec<u8>, Entry>,
    indexes: Indexes,
    uses: u64,
    counters: ServeCounters,
}

#[derive(Debug)]
struct Entry {
    object: PublishedObject,
    used: u64,
}

/// Why an Interest is not answered with what it asks for.
#[derive(Debug)]
enum Refusal {
    /// There is nothing of this name.
    Absent,
    /// The path is none, or leads out.
    BadPath,
    /// What should be a byte range is none, or not written as one is.
    BadRange,
    /// It is another version.
    Gone,
    /// The system does not read it.
    Unreadable(#[allow(dead_code, reason = "shown in the log")] rustix::io::Errno),
    /// The object is there, the packet is not.
    Unavailable(Unavailable),
}

impl Refusal {
    /// Returns true if it would be the same if it were asked again.
    fn is_final(&self) -> bool {
        match self {
            Refusal::Absent | Refusal::BadPath | Refusal::BadRange | Refusal::Gone => true,
            Refusal::Unavailable(unavailable) => {
                matches!(unavailable, Unavailable::PastEnd | Unavailable::Content(ReadError::Changed))
            }
            Refusal::Unreadable(_) => false,
        }
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        match denied {
            Denied::Absent => Refusal::Absent,
            Denied::BadPath => Refusal::BadPath,
            Denied::System(errno) => Refusal::Unreadable(errno),
        }
    }
}

impl From<Unavailable> for Refusal {
    fn from(unavailable: Unavailable) -> Self {
        Refusal::Unavailable(unavailable)
    }
}

impl FileServer {
    /// Serves `directory`; `signer` signs metadata, and manifests or segments.
    ///
    /// # Errors
    /// The directory cannot be opened, or the segments would not fit a packet.
    pub fn new(directory: &Path, options: ServeOptions, signer: Signer) -> Result<Self, ServeError> {
        let root = Root::open(directory, options.links_lead_out)
            .map_err(|error| ServeError::Root { path: directory.to_owned(), error })?;
        let octets_max = segment_octets_max(&options.prefix);
        if options.segment_octets == 0 || options.segment_octets > octets_max {
            return Err(ServeError::SegmentSize { octets: options.segment_octets, octets_max });
        }
        Ok(FileServer {
            root: Arc::new(root),
            prefix: options.prefix,
            packaging: Packaging {
                segment_octets: options.segment_octets,
                freshness_ms: options.freshness_ms,
                signing: options.signing,
                signer,
            },
            metadata_freshness_ms: options.metadata_freshness_ms.max(1),
            certificates: Certificates::default(),
            announcer: None,
            objects: HashMap::new(),
            indexes: Indexes::default(),
            uses: 0,
            counters: ServeCounters::default(),
        })
    }

    /// Answers for `certificates` too, so that clients find the key that signed what they fetch.
    pub fn with_certificates(mut self, certificates: Vec<Vouched>) -> Self {
        self.certificates.set(certificates);
        self
    }

    /// Announces the directory's name with what consumers ask for first, so that routers which
    /// learn their routes learn it as a whole.
    pub fn with_announcements(mut self) -> Self {
        let signer = self.packaging.signer.clone();
        self.announcer = Some(Announcer::new(self.prefix.clone(), signer));
        self
    }

    /// Answers for `certificates` instead, the first of each key that is asked for by its key's
    /// name.
    pub fn set_certificates(&mut self, certificates: Vec<Vouched>) {
        self.certificates.set(certificates);
    }

    /// The name of the directory.
    pub fn prefix(&self) -> NameRef<'_> {
        self.prefix.as_name()
    }

    /// The directory.
    pub fn directory(&self) -> &Path {
        self.root.path()
    }

    /// What was answered, and what was not and why.
    pub fn counters(&self) -> ServeCounters {
        ServeCounters { left_out: self.indexes.left_out(), ..self.counters }
    }

    fn answer_request(
        &mut self,
        request: &Request<'_>,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Refusal> {
        let Request::Packet { object, version, part, .. } = request else {
            return self.answer_discovery(request, headers, outbox);
        };
        if !self.objects.contains_key(object.as_bytes()) {
            match request.facet() {
                Facet::Index | Facet::Pack => self.publish_of_index(request, *version)?,
                Facet::Plain | Facet::Listing | Facet::Range => {
                    let opened = self.root.find(request.path())?;
                    if Mark::of(&opened.stat).mtime_ns != *version {
                        return Err(Refusal::Gone);
                    }
                    self.publish(request, opened)?
                }
            };
        }
        self.uses += 1;
        let Some(entry) = self.objects.get_mut(object.as_bytes()) else { return Err(Refusal::Gone) };
        entry.used = self.uses;
        let sent = match part {
            Part::Segment(segment) => entry.object.send_segment(*segment, &self.packaging, headers, outbox),
            Part::Manifest(index) => {
                entry.object.send_manifest(*index, &self.packaging, headers, outbox).map(|()| 0)
            }
        };
        match (sent, part) {
            (Ok(octets), Part::Segment(_)) => {
                self.counters.segments += 1;
                self.counters.octets += octets as u64;
                Ok(())
            }
            (Ok(_), Part::Manifest(_)) => {
                self.counters.manifests += 1;
                self.keep_within_bounds(object.as_bytes());
                Ok(())
            }
            (Err(unavailable), _) => {
                if matches!(unavailable, Unavailable::Content(_)) {
                    self.objects.remove(object.as_bytes());
                }
                Err(unavailable.into())
            }
        }
    }

    /// Makes the objects used longest ago forget what they keep beyond the limit; not the one in
    /// use.
    fn keep_within_bounds(&mut self, in_use: &[u8]) {
        let mut kept: usize = self.objects.values().map(|entry| entry.object.octets_kept()).sum();
        while kept > KEPT_OCTETS_MAX {
            let others = self.objects.iter_mut().filter(|(name, _)| name.as_slice() != in_use);
            let holding = others.filter(|(_, entry)| entry.object.octets_kept() > 0);
            let Some((_, oldest)) = holding.min_by_key(|(_, entry)| entry.used) else { return };
            kept -= oldest.object.octets_kept();
            oldest.object.release();
        }
    }

    /// Makes the object of what was opened for `request` ready to be sent. Its versioned name.
    fn publish(&mut self, request: &Request<'_>, opened: Opened) -> Result<Name, Refusal> {
        let version = Mark::of(&opened.stat).mtime_ns;
        let content = match (request.facet(), opened.is_directory()) {
            (Facet::Listing, true) => {
                let listing = self.root.listing(&opened, request.path(), LISTING_OCTETS_MAX)?;
                Content::Memory(listing.ok_or(Refusal::Unavailable(Unavailable::TooLarge))?)
            }
            (Facet::Plain, false) => Content::file(opened.fd, &opened.stat),
            (Facet::Range, false) => {
                let range = request.range().map(ByteRange::from_component);
                let range = range.and_then(Result::ok).ok_or(Refusal::BadRange)?;
                Content::range(opened.fd, &opened.stat, range)
                    .ok_or(Refusal::Unavailable(Unavailable::PastEnd))?
            }
            (Facet::Index, true) => {
                let found = self.indexes.find_or_build(&self.root, request.path_name(), &opened)?;
                let version = found.ok_or(Refusal::Unavailable(Unavailable::TooLarge))?;
                return self.publish_of_index(request, version);
            }
            _ => return Err(Refusal::Absent),
        };
        self.keep(self.object_name(request).join_version(version), content)
    }

    /// Makes the index or pack of version `version` ready to be sent, if that is known still.
    fn publish_of_index(&mut self, request: &Request<'_>, version: u64) -> Result<Name, Refusal> {
        let index = self.indexes.find(request.path_name(), version).ok_or(Refusal::Gone)?;
        let content = match request.facet() {
            Facet::Pack => Content::Pack(Pack::new(self.root.clone(), index)),
            _ => Content::Index(index),
        };
        self.keep(self.object_name(request).join_version(version), content)
    }

    /// The name of what is asked for, without version.
    fn object_name(&self, request: &Request<'_>) -> Name {
        let mut name = self.prefix.join_name(request.path_name());
        if let Some(component) = request.facet().component() {
            name.push(component);
        }
        if let Some(range) = request.range() {
            name.push(range);
        }
        name
    }

    /// Keeps an object, in the place of the one used longest ago if there are many.
    fn keep(&mut self, name: Name, content: Content) -> Result<Name, Refusal> {
        let object = PublishedObject::new(name.clone(), content, &self.packaging);
        if !object.fits() {
            return Err(Refusal::Unavailable(Unavailable::TooLarge));
        }
        if self.objects.len() >= OBJECTS_MAX
            && let Some(oldest) = self.objects.iter().min_by_key(|(_, entry)| entry.used)
        {
            let oldest = oldest.0.clone();
            self.objects.remove(&oldest);
        }
        self.uses += 1;
        self.objects.insert(name.as_bytes().to_vec(), Entry { object, used: self.uses });
        Ok(name)
    }

    fn answer_discovery(
        &mut self,
        request: &Request<'_>,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Refusal> {
        let opened = self.root.find(request.path())?;
        let stat = opened.stat;
        let mut metadata = Metadata {
            mode: Some(u64::from(stat.st_mode)),
            atime_ns: Some(time_ns(stat.st_atime, stat.st_atime_nsec)),
            ctime_ns: Some(time_ns(stat.st_ctime, stat.st_ctime_nsec)),
            mtime_ns: Some(Mark::of(&stat).mtime_ns),
            ..Metadata::default()
        };
        if opened.is_directory() && request.facet() == Facet::Plain {
            // The listing's name, as in ndn6-file-server: clients go on with it without asking for
            // `32=ls`.
            let mut name = self.prefix.join_name(request.path_name());
            name.push(LISTING_COMPONENT);
            metadata.name = name.join_version(Mark::of(&stat).mtime_ns);
            metadata.index_format = Some(INDEX_FORMAT_1);
        } else {
            metadata.name = self.publish(request, opened)?;
            if let Some(entry) = self.objects.get(metadata.name.as_bytes()) {
                metadata.last_segment = Some(entry.object.last_segment());
                metadata.size_octets = Some(entry.object.content().octets());
                metadata.segment_size_octets = Some(self.packaging.segment_octets as u64);
                metadata.manifest_entries = self.packaging.signing.manifest_entries();
            }
        }
        self.send_metadata(request, ContentType::Blob, &metadata.to_vec(), headers, outbox)?;
        self.counters.metadata += 1;
        Ok(())
    }

    /// Queues the metadata packet that answers `request`.
    fn send_metadata(
        &mut self,
        request: &Request<'_>,
        content_type: ContentType,
        content: &[u8],
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Unavailable> {
        let object = self.object_name(request);
        let name = metadata_name(object.as_name(), clock::unix_ns());
        let last = Name::new().join_segment(0);
        let mut builder = DataBuilder::new(name.as_name())
            .content_type(content_type)
            .freshness_ms(self.metadata_freshness_ms);
        if let Some(component) = last.as_name().last() {
            builder = builder.final_block_id(component);
        }
        let wire = sign_data(&builder, content, &self.packaging.signer)?;
        if wire.len() > PACKET_OCTETS_MAX {
            return Err(Unavailable::TooLarge);
        }
        match &mut self.announcer {
            Some(announcer) => outbox.send_announced(headers, &wire, announcer.announcement()?),
            None => outbox.send(headers, &wire),
        }
        Ok(())
    }

    fn count(&mut self, refusal: &Refusal) {
        let counter = match refusal {
            Refusal::Absent | Refusal::Gone => &mut self.counters.gone,
            Refusal::BadPath => &mut self.counters.refused_paths,
            Refusal::BadRange => &mut self.counters.refused_ranges,
            Refusal::Unreadable(_) => &mut self.counters.read_errors,
            Refusal::Unavailable(unavailable) => return self.counters.count(unavailable),
        };
        *counter += 1;
    }
}

impl ServeCounters {
    pub(crate) fn count(&mut self, unavailable: &Unavailable) {
        let counter = match unavailable {
            Unavailable::PastEnd => &mut self.past_end,
            Unavailable::Content(ReadError::Changed) => &mut self.gone,
            Unavailable::Content(ReadError::System(_)) => &mut self.read_errors,
            Unavailable::TooLarge => &mut self.too_large,
            Unavailable::Signing(_) => &mut self.signing_errors,
        };
        *counter += 1;
    }
}

impl Producer for FileServer {
    fn prefixes(&self) -> Vec<Name> {
        self.certificates.prefixes(&self.prefix)
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        self.counters.interests += 1;
        match self.certificates.answer(interest, headers, outbox) {
            Answer::Other => {}
            Answer::Sent => return self.counters.certificates += 1,
            Answer::NotKnown => return self.counters.unknown += 1,
        }
        let Some(request) = Request::parse(interest, self.prefix.as_name()) else {
            self.counters.unknown += 1;
            return;
        };
        let Err(refusal) = self.answer_request(&request, headers, outbox) else { return };
        tracing::debug!(name = %interest.name, ?refusal, "not answered");
        self.count(&refusal);
        // Who looks for something learns that it is not there, signed. For a packet of an object
        // that is none a signature would cost too much: a Nack says that it is not here.
        if matches!(request, Request::Packet { .. }) && refusal.is_final() {
            outbox.send(&LpHeaders { nack: Some(NackReason::NoRoute), ..*headers }, interest.wire);
            return;
        }
        if matches!(request, Request::Discovery { .. }) && !matches!(refusal, Refusal::Gone) {
            match self.send_metadata(&request, ContentType::Nack, &[], headers, outbox) {
                Ok(()) => self.counters.not_found += 1,
                Err(unavailable) => self.count(&unavailable.into()),
            }
        }
    }
}

/// The most content of a segment whose name is that of a file right below `prefix`, with a few
/// octets for its own name. Files with longer names may need smaller segments.
pub fn segment_octets_max(prefix: &Name) -> usize {
    let name = prefix.join_generic([0; 32]).join_version(u64::MAX);
    let writer = SegmentWriter::new(name.as_name(), Some(u64::MAX), u64::MAX, ManifestHash::Sha256);
    writer.content_octets_max(u64::MAX, PACKET_OCTETS_DEFAULT).unwrap_or(0)
}

/// Why a directory cannot be served.
#[derive(Debug)]
pub enum ServeError {
    /// The caller's or the environment's: it is no directory, or cannot be opened.
    Root {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        error: io::Error,
    },
    /// The caller's: segments of this size do not fit a packet, or are empty.
    SegmentSize {
        /// The size asked for.
        octets: usize,
        /// The largest size under this prefix.
        octets_max: usize,
    },
    /// The environment's: the key does not sign.
    Signing(CryptoError),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Root { path, error } => {
                write!(f, "cannot serve {}: {error}; name a directory that can be read", path.display())
            }
            ServeError::SegmentSize { octets, octets_max } => {
                write!(f, "segments of {octets} octets: use 1 to {octets_max} under this prefix")
            }
            ServeError::Signing(error) => write!(f, "cannot sign: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}
