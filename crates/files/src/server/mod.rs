//! A directory served by name: the ndn6-file-server protocol, with manifests (`docs/files.md`).
//!
//! Files are read on request, never whole. A file's version is its modification time. A changed
//! file has a new version, and the old one is no longer served, so no object mixes two states of a
//! file.

mod indexes;
mod request;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
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
use crate::certificates::{Answer, Certificates, IssuedCertificate};
use crate::content::{Content, FileStamp, ReadError, time_ns};
use crate::pack::Pack;
use crate::published::{Packaging, PublishedObject, Unavailable};
use crate::root::{LISTING_OCTETS_MAX, Opened, PathError, Root};

/// File versions that a file server keeps open.
///
/// # Limit
/// The least recently used file is closed.
/// - Tests: `the_least_recently_used_file_is_closed`
pub const OBJECTS_MAX: usize = 64;

/// Octets of content held between hashing and sending, over all objects.
///
/// A single object may exceed the limit, by at most four groups of 240 segments.
///
/// # Limit
/// The content of the least recently used object is dropped, and read again.
/// - Tests: `the_least_recently_used_content_is_evicted`
pub const KEPT_OCTETS_MAX: usize = 32 << 20;

/// Options of serving a directory.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The name of the directory.
    pub prefix: Name,
    /// Octets of content in each segment but the last.
    pub segment_octets: usize,
    /// The signing of segments.
    pub signing: Signing,
    /// FreshnessPeriod of segments and manifests, ms.
    pub freshness_ms: u64,
    /// FreshnessPeriod of metadata, ms: the time for which caches may miss a change of a file.
    pub metadata_freshness_ms: u64,
    /// Whether symbolic links may lead out of the directory.
    pub links_lead_out: bool,
}

impl ServeOptions {
    /// Creates the default options for the name `prefix`.
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

/// Counters of a file server, including the reasons for Interests without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServeCounters {
    /// Interests received.
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
    /// Answered with "there is no such object": the path does not exist.
    pub not_found: u64,
    /// Refused by a Nack: the requested version no longer exists, or never did.
    pub gone: u64,
    /// Refused by a Nack: a segment or manifest past the last; or answered with "no such object": a
    /// byte range that begins after the file's end.
    pub past_end: u64,
    /// Unanswered: the name is not one of this protocol.
    pub unknown: u64,
    /// Refused by a Nack or answered with "no such object": the path is invalid or leads out.
    pub refused_paths: u64,
    /// Refused by a Nack or answered with "no such object": the byte range is invalid.
    pub refused_ranges: u64,
    /// Unanswered: the system could not read the file.
    pub read_errors: u64,
    /// Unanswered: name and content do not fit a packet or a listing.
    pub too_large: u64,
    /// Unanswered: the key failed to sign.
    pub signing_errors: u64,
    /// Entries of indexed directories that cannot be requested: pipes, sockets, devices, links that
    /// lead out, and unreadable files.
    pub left_out: u64,
}

/// A server of one directory.
#[derive(Debug)]
pub struct FileServer {
    root: Arc<Root>,
    prefix: Name,
    packaging: Packaging,
    metadata_freshness_ms: u64,
    certificates: Certificates,
    announcer: Option<Announcer>,
    /// Objects by the octets of the versioned name.
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

/// The reason why an Interest is refused.
#[derive(Debug)]
enum Refusal {
    /// The name does not exist.
    Absent,
    /// The path is invalid or leads out.
    BadPath,
    /// The byte range is invalid or not in canonical form.
    BadRange,
    /// The version has changed.
    Gone,
    /// The system's error prevents reading the file.
    Unreadable(#[allow(dead_code, reason = "shown in the log")] rustix::io::Errno),
    /// The object exists, but the packet does not.
    Unavailable(Unavailable),
}

impl Refusal {
    /// Returns true if a repeated request would have the same result.
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

impl From<PathError> for Refusal {
    fn from(denied: PathError) -> Self {
        match denied {
            PathError::Absent => Refusal::Absent,
            PathError::BadPath => Refusal::BadPath,
            PathError::System(errno) => Refusal::Unreadable(errno),
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

    /// Serves `certificates`, too, so that clients find the key that signed the Data they fetch.
    pub fn with_certificates(mut self, certificates: Vec<IssuedCertificate>) -> Self {
        self.certificates.set(certificates);
        self
    }

    /// Announces the directory's prefix with the metadata that consumers request first, so that
    /// self-learning routers learn the whole prefix.
    pub fn with_announcements(mut self) -> Self {
        let signer = self.packaging.signer.clone();
        self.announcer = Some(Announcer::new(self.prefix.clone(), signer));
        self
    }

    /// Replaces the certificates. An Interest for a key's name is answered with the first
    /// certificate of that key.
    pub fn set_certificates(&mut self, certificates: Vec<IssuedCertificate>) {
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

    /// Returns the counters of answered and unanswered Interests.
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
                    if FileStamp::of(&opened.stat).mtime_ns != *version {
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

    /// Releases memory of the least recently used objects while the limit is exceeded; the object
    /// in use is spared.
    fn keep_within_bounds(&mut self, in_use: &[u8]) {
        let mut kept: usize = self.objects.values().map(|entry| entry.object.memory_octets()).sum();
        while kept > KEPT_OCTETS_MAX {
            let others = self.objects.iter_mut().filter(|(name, _)| name.as_slice() != in_use);
            let holding = others.filter(|(_, entry)| entry.object.memory_octets() > 0);
            let Some((_, oldest)) = holding.min_by_key(|(_, entry)| entry.used) else { return };
            kept -= oldest.object.memory_octets();
            oldest.object.release();
        }
    }

    /// Prepares the object for `request` from the opened file. Returns its versioned name.
    fn publish(&mut self, request: &Request<'_>, opened: Opened) -> Result<Name, Refusal> {
        let version = FileStamp::of(&opened.stat).mtime_ns;
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

    /// Prepares version `version` of an index or pack, if that version is still cached.
    fn publish_of_index(&mut self, request: &Request<'_>, version: u64) -> Result<Name, Refusal> {
        let index = self.indexes.find(request.path_name(), version).ok_or(Refusal::Gone)?;
        let content = match request.facet() {
            Facet::Pack => Content::Pack(Pack::new(self.root.clone(), index)),
            _ => Content::Index(index),
        };
        self.keep(self.object_name(request).join_version(version), content)
    }

    /// Returns the name of the requested object, without version.
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

    /// Inserts an object. The object replaces the least recently used one if the limit is reached.
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
            mtime_ns: Some(FileStamp::of(&stat).mtime_ns),
            ..Metadata::default()
        };
        if opened.is_directory() && request.facet() == Facet::Plain {
            // The listing's name, as in ndn6-file-server: clients continue with it without a
            // request for `32=ls`.
            let mut name = self.prefix.join_name(request.path_name());
            name.push(LISTING_COMPONENT);
            metadata.name = name.join_version(FileStamp::of(&stat).mtime_ns);
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
        // A discovery of a missing object is answered with signed Data. For a packet of a missing
        // object a signature would cost too much, so it is answered with a Nack.
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

/// Maximum content octets of a segment whose name is that of a file directly below `prefix`, with a
/// few octets for the file's own name. Files with longer names may need smaller segments.
pub fn segment_octets_max(prefix: &Name) -> usize {
    let name = prefix.join_generic([0; 32]).join_version(u64::MAX);
    let writer = SegmentWriter::new(name.as_name(), Some(u64::MAX), u64::MAX, ManifestHash::Sha256);
    writer.content_octets_max(u64::MAX, PACKET_OCTETS_DEFAULT).unwrap_or(0)
}

/// An error of serving a directory.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The caller's or the environment's: it is not a directory, or cannot be opened.
    #[error("cannot serve {}: {error}; name a directory that can be read", .path.display())]
    Root {
        /// The path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// The caller's: segments of this size do not fit a packet, or are empty.
    #[error("segments of {octets} octets: use 1 to {octets_max} under this prefix")]
    SegmentSize {
        /// The requested size.
        octets: usize,
        /// The largest size under this prefix.
        octets_max: usize,
    },
    /// The environment's: the key fails to sign.
    #[error("cannot sign: {0}")]
    Signing(#[source] CryptoError),
}
