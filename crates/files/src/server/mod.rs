//! A directory served by name: the ndn6-file-server protocol, with manifests (`docs/files.md`).
//!
//! Files are read on request. A file's version is its modification time, unless that would repeat a
//! version of another content (module `versions`). A changed file has a new version, and the old
//! one is no longer read, so no object mixes two states of a file.

mod indexes;
mod request;
#[cfg(test)]
mod tests;
mod version_store;
mod versions;

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use namely_host::clock;
use namely_security::{CryptoError, ManifestHash, Signer, sha256, sign_data};
use namely_transport::announce::Announcer;
use namely_transport::connection::Outbox;
use namely_transport::publish::SegmentWriter;
use namely_transport::publish::{PACKET_OCTETS_DEFAULT, SEGMENT_OCTETS_DEFAULT, Signing};
use namely_transport::serve::Producer;
use namely_wire::rdr::{Denial, INDEX_FORMAT_1, LISTING_COMPONENT, Metadata, metadata_name};
use namely_wire::{
    ByteRange, ContentType, DataBuilder, InterestView, LpHeaders, NackReason, Name, NameRef,
    PACKET_OCTETS_MAX,
};

use self::indexes::Indexes;
pub(crate) use self::request::{Facet, Part, Request};
use self::version_store::VersionStore;
use self::versions::{VERSIONS_MAX, Version, Versions};
use crate::certificates::{Answer, Certificates, IssuedCertificate};
use crate::content::{Content, FileStamp, FileTime, ReadError};
use crate::get::reason;
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

/// Octets of a changing file of which a version is copied to memory.
///
/// A log that is appended to, or a file that a program rewrites again and again, would otherwise
/// change during each fetch.
///
/// # Limit
/// A version of a larger file ends with the file's next change, and its clients request the next.
/// - Tests: `a_version_of_a_changing_file_stays`
pub const SNAPSHOT_OCTETS_MAX: u64 = 4 << 20;

/// Octets of listings and of copied versions in memory.
///
/// The newest of them is not counted.
///
/// # Limit
/// The least recently used one is dropped, and its clients request a new version.
/// - Counter: `gone`
/// - Tests: `copied_versions_are_limited`
pub const COPIED_OCTETS_MAX: usize = 32 << 20;

/// The time after a change for which a file that has changed before counts as changing. A busy
/// machine may stall a test for longer.
const CHANGING_NS: u64 = if cfg!(test) { u64::MAX } else { 10_000_000_000 };

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
    /// The folder in which the versions of files survive the server, so that no later server of the
    /// same prefix repeats one of them. None: they are forgotten.
    pub versions: Option<PathBuf>,
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
            versions: None,
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
    /// Refused by a Nack, or answered with "the served directory is missing".
    pub source_missing: u64,
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
    versions: Versions,
    /// Whether the served directory is missing, which was logged.
    is_source_missing: bool,
    uses: u64,
    counters: ServeCounters,
}

#[derive(Debug)]
struct Entry {
    object: PublishedObject,
    used: u64,
}

impl Entry {
    /// Octets of memory that its content takes by itself.
    fn copied_octets(&self) -> usize {
        self.object.content().memory_octets()
    }
}

/// The present state of a file or directory.
#[derive(Debug)]
struct Present {
    version: Version,
    /// Last change of the inode.
    changed: FileTime,
    /// The listing of a directory, if its metadata or listing is requested and it is not too long.
    listing: Option<Vec<u8>>,
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
    /// The served directory is missing.
    SourceMissing,
    /// The system's error prevents reading the file.
    Unreadable(#[allow(dead_code, reason = "shown in the log")] rustix::io::Errno),
    /// The object exists, but the packet does not.
    Unavailable(Unavailable),
}

impl Refusal {
    /// Returns true if a repeated request would have the same result.
    fn is_final(&self) -> bool {
        match self {
            Refusal::Absent
            | Refusal::BadPath
            | Refusal::BadRange
            | Refusal::Gone
            | Refusal::SourceMissing => true,
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
        let versions = match &options.versions {
            Some(folder) => stored_versions(folder, options.prefix.as_name()),
            None => Versions::new(VERSIONS_MAX),
        };
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
            versions,
            is_source_missing: false,
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
            self.look_at_source()?;
            match request.facet() {
                Facet::Index | Facet::Pack => self.publish_of_index(request, *version)?,
                Facet::Plain | Facet::Listing | Facet::Range => {
                    let opened = self.root.find(request.path())?;
                    // A request may have any version. A wrong one must not cost a listing.
                    let stamp = FileStamp::of(&opened.stat);
                    if opened.is_directory() && self.versions.is_other(request.path_name(), &stamp, *version)
                    {
                        return Err(Refusal::Gone);
                    }
                    let present = self.present(request, &opened)?;
                    if present.version.number != *version {
                        return Err(Refusal::Gone);
                    }
                    self.publish(request, opened, present)?
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

    /// Continues with the directory that is now at the served path, if it was replaced. A missing
    /// directory is an error of this server, and not an empty directory.
    fn look_at_source(&mut self) -> Result<(), Refusal> {
        match self.root.replacement() {
            Ok(None) => {}
            Ok(Some(now)) => {
                tracing::info!("{} is another directory now", now.path().display());
                self.root = Arc::new(now);
                self.indexes.clear();
            }
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                // The process may have no descriptor left, for example.
                let errno = rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO);
                return Err(Refusal::Unreadable(errno));
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_source_missing, true) {
                    tracing::error!("cannot serve {} any more: {error}", self.root.path().display());
                }
                return Err(Refusal::SourceMissing);
            }
        }
        if std::mem::take(&mut self.is_source_missing) {
            tracing::info!("{} is served again", self.root.path().display());
        }
        Ok(())
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

    /// Returns the present state of the opened file or directory.
    fn present(&mut self, request: &Request<'_>, opened: &Opened) -> Result<Present, Refusal> {
        let mut stamp = FileStamp::of(&opened.stat);
        let mut listing = None;
        if matches!(request.facet(), Facet::Index | Facet::Pack) {
            // An index has a version of its own.
            let version = Version { number: 0, is_changing: false };
            return Ok(Present { version, changed: stamp.ctime, listing });
        }
        if opened.is_directory() {
            listing = self.root.listing(opened, request.path(), LISTING_OCTETS_MAX)?;
            // A listing also depends on the targets of links. So its digest distinguishes two
            // states of a directory, instead of the octets that the directory takes.
            let digest = sha256(listing.as_deref().unwrap_or_default());
            stamp.size = digest.iter().take(8).fold(0, |number, octet| number << 8 | u64::from(*octet));
        }
        let version = self.versions.of(request.path_name(), &stamp);
        Ok(Present { version, changed: stamp.ctime, listing })
    }

    /// Prepares the object for `request` from the opened file. Returns its versioned name.
    fn publish(&mut self, request: &Request<'_>, opened: Opened, present: Present) -> Result<Name, Refusal> {
        let Present { version, changed, listing } = present;
        let object = self.object_name(request).join_version(version.number);
        if self.objects.contains_key(object.as_bytes()) {
            // The content of this version, and the memory that it takes, are there already.
            return Ok(object);
        }
        let content = match (request.facet(), opened.is_directory()) {
            (Facet::Listing, true) => {
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
        let is_changing = version.is_changing && age_ns(changed) < CHANGING_NS;
        let content = if is_changing { content.into_snapshot(SNAPSHOT_OCTETS_MAX) } else { content };
        self.keep(object, content)
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
        self.drop_copies(name.as_bytes());
        Ok(name)
    }

    /// Drops the least recently used objects in memory while the limit is exceeded, except the one
    /// named `newest`.
    fn drop_copies(&mut self, newest: &[u8]) {
        let others = self.objects.iter().filter(|(name, _)| name.as_slice() != newest);
        let mut others: Vec<_> = others.filter(|(_, entry)| entry.copied_octets() > 0).collect();
        others.sort_unstable_by_key(|(_, entry)| entry.used);
        let mut octets: usize = others.iter().map(|(_, entry)| entry.copied_octets()).sum();
        let mut dropped = Vec::new();
        for (name, entry) in others {
            if octets <= COPIED_OCTETS_MAX {
                break;
            }
            octets -= entry.copied_octets();
            dropped.push(name.clone());
        }
        for name in dropped {
            self.objects.remove(&name);
        }
    }

    fn answer_discovery(
        &mut self,
        request: &Request<'_>,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Refusal> {
        self.look_at_source()?;
        let opened = self.root.find(request.path())?;
        let (stat, stamp) = (opened.stat, FileStamp::of(&opened.stat));
        let present = self.present(request, &opened)?;
        let mut metadata = Metadata {
            mode: Some(u64::from(stat.st_mode)),
            atime_ns: FileTime { seconds: stat.st_atime, nanoseconds: stat.st_atime_nsec }.ns(),
            ctime_ns: stamp.ctime.ns(),
            mtime_ns: stamp.mtime_ns(),
            ..Metadata::default()
        };
        if opened.is_directory() && request.facet() == Facet::Plain {
            // The listing's name, as in ndn6-file-server: clients continue with it without a
            // request for `32=ls`.
            let mut name = self.prefix.join_name(request.path_name());
            name.push(LISTING_COMPONENT);
            metadata.name = name.join_version(present.version.number);
            metadata.index_format = Some(INDEX_FORMAT_1);
        } else {
            metadata.name = self.publish(request, opened, present)?;
            if let Some(entry) = self.objects.get(metadata.name.as_bytes()) {
                metadata.last_segment = Some(entry.object.last_segment());
                metadata.size_octets = Some(entry.object.content().octets());
                metadata.segment_size_octets = Some(self.packaging.segment_octets as u64);
                metadata.manifest_entries = self.packaging.signing.manifest_entries();
            }
        }
        // A file that changed a moment ago may change again as soon. An index has its own time.
        let age_ms = if request.facet() == Facet::Index { u64::MAX } else { age_ns(stamp.ctime) / 1_000_000 };
        let freshness_ms = age_ms.clamp(1, self.metadata_freshness_ms);
        let as_of_ns = match request.facet() {
            Facet::Index => self.indexes.as_of_ns(request.path_name()),
            _ => None,
        };
        let as_of_ns = as_of_ns.unwrap_or_else(clock::unix_ns);
        let content = metadata.to_vec();
        let wire = self.metadata_packet(request, ContentType::Blob, &content, as_of_ns, freshness_ms)?;
        self.send_metadata(&wire, headers, outbox)?;
        self.counters.metadata += 1;
        Ok(())
    }

    /// Makes the metadata packet that answers `request`.
    fn metadata_packet(
        &self,
        request: &Request<'_>,
        content_type: ContentType,
        content: &[u8],
        as_of_ns: u64,
        freshness_ms: u64,
    ) -> Result<Vec<u8>, Unavailable> {
        let object = self.object_name(request);
        let name = metadata_name(object.as_name(), as_of_ns);
        let last = Name::new().join_segment(0);
        let mut builder =
            DataBuilder::new(name.as_name()).content_type(content_type).freshness_ms(freshness_ms);
        if let Some(component) = last.as_name().last() {
            builder = builder.final_block_id(component);
        }
        Ok(sign_data(&builder, content, &self.packaging.signer)?)
    }

    /// Answers a discovery with the statement that the object is not there, and its reason.
    fn deny(
        &mut self,
        request: &Request<'_>,
        denial: Denial,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Unavailable> {
        let freshness_ms = self.metadata_freshness_ms;
        let (content, as_of_ns) = (denial.to_vec(), clock::unix_ns());
        let wire = self.metadata_packet(request, ContentType::Nack, &content, as_of_ns, freshness_ms)?;
        self.send_metadata(&wire, headers, outbox)
    }

    /// Queues a metadata packet.
    fn send_metadata(
        &mut self,
        wire: &[u8],
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Unavailable> {
        if wire.len() > PACKET_OCTETS_MAX {
            return Err(Unavailable::TooLarge);
        }
        match &mut self.announcer {
            Some(announcer) => outbox.send_announced(headers, wire, announcer.announcement()?),
            None => outbox.send(headers, wire),
        }
        Ok(())
    }

    fn count(&mut self, refusal: &Refusal) {
        let counter = match refusal {
            Refusal::Absent | Refusal::Gone => &mut self.counters.gone,
            Refusal::BadPath => &mut self.counters.refused_paths,
            Refusal::BadRange => &mut self.counters.refused_ranges,
            Refusal::SourceMissing => &mut self.counters.source_missing,
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
            let denial = match refusal {
                Refusal::SourceMissing => Denial::SourceMissing,
                _ => Denial::Absent,
            };
            match self.deny(&request, denial, headers, outbox) {
                Ok(()) if denial == Denial::Absent => self.counters.not_found += 1,
                Ok(()) => {}
                Err(unavailable) => self.count(&unavailable.into()),
            }
        }
    }
}

/// The table of versions that is stored in `folder`. If that cannot be used, the table is in memory
/// alone.
fn stored_versions(folder: &Path, prefix: NameRef<'_>) -> Versions {
    match VersionStore::open(folder, prefix) {
        Ok((store, table)) => Versions::stored(VERSIONS_MAX, store, table),
        Err(error) => {
            let folder = folder.display();
            tracing::warn!(%error, %folder, "the versions of served files are forgotten at the end");
            Versions::new(VERSIONS_MAX)
        }
    }
}

/// The time since `time`, ns; 0 if that is unknown or to come.
fn age_ns(time: FileTime) -> u64 {
    clock::unix_ns().saturating_sub(time.ns().unwrap_or(u64::MAX))
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
    #[error("cannot serve {}: {}; name a directory that can be read", .path.display(), reason(.error))]
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
