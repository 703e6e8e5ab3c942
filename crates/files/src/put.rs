//! Publishes one object from a stream of octets, such as standard input: from memory if it is
//! small, else from an unnamed temporary file.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use namely_host::disk::Folder;
use namely_security::{ManifestHash, Signer, sign_data};
use namely_transport::connection::Outbox;
use namely_transport::publish::{SEGMENT_OCTETS_DEFAULT, Signing};
use namely_transport::serve::Producer;
use namely_wire::rdr::{Metadata, metadata_name};
use namely_wire::{DataBuilder, InterestView, LpHeaders, NackReason, Name, NameRef};
use rustix::fs::{Mode, OFlags, fstat, openat};

use crate::certificates::{Answer, Certificates, IssuedCertificate};
use crate::content::Content;
use crate::published::{Packaging, PublishedObject, Unavailable};
use crate::server::{Facet, Part, Request, ServeCounters, ServeError, segment_octets_max};

/// Octets of the input of `put` that are held in memory.
///
/// [`Input::read`] reads it.
///
/// # Limit
/// Larger input is written to an unnamed temporary file.
/// - Tests: `large_input_goes_to_an_unnamed_file`
pub const MEMORY_OCTETS_MAX: usize = 64 << 20;

/// Content to publish.
#[derive(Debug)]
pub struct Input(Content);

impl Input {
    /// Reads `input` to its end. Input of more than `memory_octets_max` is written to a temporary
    /// file in `spool_directory`. The file has no name, and is removed when the process ends.
    ///
    /// # Errors
    /// The input or the spool file cannot be read or written.
    pub fn read(input: &mut dyn Read, memory_octets_max: usize, spool_directory: &Path) -> io::Result<Self> {
        let mut memory = Vec::new();
        input.take(memory_octets_max as u64 + 1).read_to_end(&mut memory)?;
        if memory.len() <= memory_octets_max {
            return Ok(Input(Content::Memory(memory)));
        }
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let directory = Folder::open(spool_directory)?;
        let mut file = File::from(openat(&directory, ".", flags, Mode::RUSR | Mode::WUSR)?);
        file.write_all(&memory)?;
        drop(memory);
        io::copy(input, &mut file)?;
        let stat = fstat(&file)?;
        Ok(Input(Content::file(file.into(), &stat)))
    }

    /// Returns the octets of the whole content.
    pub fn octets(&self) -> u64 {
        self.0.octets()
    }

    /// Returns true if the content is in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.0, Content::Memory(_))
    }
}

/// Options of publishing an object.
#[derive(Clone, Debug)]
pub struct PutOptions {
    /// The object's name, without version.
    pub name: Name,
    /// The object's version.
    pub version: u64,
    /// Octets of content in each segment but the last.
    pub segment_octets: usize,
    /// The signing of segments.
    pub signing: Signing,
    /// FreshnessPeriod of segments and manifests, ms.
    pub freshness_ms: u64,
    /// FreshnessPeriod of metadata, ms.
    pub metadata_freshness_ms: u64,
}

impl PutOptions {
    /// Creates the default options.
    pub fn new(name: Name, version: u64) -> Self {
        PutOptions {
            name,
            version,
            segment_octets: SEGMENT_OCTETS_DEFAULT,
            signing: Signing::Manifest(ManifestHash::Sha256),
            freshness_ms: 10_000,
            metadata_freshness_ms: 1_000,
        }
    }
}

/// A published object.
#[derive(Debug)]
pub struct Put {
    name: Name,
    object: PublishedObject,
    packaging: Packaging,
    metadata: Vec<u8>,
    certificates: Certificates,
    counters: ServeCounters,
}

impl Put {
    /// Publishes `input`; `signer` signs metadata, and manifests or segments.
    ///
    /// # Errors
    /// [`ServeError::SegmentSize`], or the first packets cannot be signed.
    pub fn new(input: Input, options: PutOptions, signer: Signer) -> Result<Self, ServeError> {
        let octets_max = segment_octets_max(&options.name);
        let packaging = Packaging {
            segment_octets: options.segment_octets,
            freshness_ms: options.freshness_ms,
            signing: options.signing,
            signer,
        };
        let name = options.name.join_version(options.version);
        if options.segment_octets == 0 || options.segment_octets > octets_max {
            return Err(ServeError::SegmentSize { octets: options.segment_octets, octets_max });
        }
        let object = PublishedObject::new(name.clone(), input.0, &packaging);
        let metadata = Metadata {
            last_segment: Some(object.last_segment()),
            segment_size_octets: Some(options.segment_octets as u64),
            size_octets: Some(object.content().octets()),
            manifest_entries: options.signing.manifest_entries(),
            ..Metadata::new(name)
        };
        let packet = metadata_name(options.name.as_name(), options.version);
        let last = Name::new().join_segment(0);
        let mut builder =
            DataBuilder::new(packet.as_name()).freshness_ms(options.metadata_freshness_ms.max(1));
        if let Some(component) = last.as_name().last() {
            builder = builder.final_block_id(component);
        }
        let metadata =
            sign_data(&builder, &metadata.to_vec(), &packaging.signer).map_err(ServeError::Signing)?;
        Ok(Put {
            name: options.name,
            object,
            packaging,
            metadata,
            certificates: Certificates::default(),
            counters: ServeCounters::default(),
        })
    }

    /// Serves `certificates`, too.
    pub fn with_certificates(mut self, certificates: Vec<IssuedCertificate>) -> Self {
        self.certificates.set(certificates);
        self
    }

    /// Replaces the certificates. An Interest for a key's name is answered with the first
    /// certificate of that key.
    pub fn set_certificates(&mut self, certificates: Vec<IssuedCertificate>) {
        self.certificates.set(certificates);
    }

    /// The versioned name.
    pub fn object(&self) -> NameRef<'_> {
        self.object.name()
    }

    /// Returns the counters of answered and unanswered Interests.
    pub fn counters(&self) -> ServeCounters {
        self.counters
    }

    fn answer_request(
        &mut self,
        request: &Request<'_>,
        headers: &LpHeaders,
        outbox: &mut Outbox,
    ) -> Result<(), Unavailable> {
        match request {
            Request::Discovery { facet: Facet::Plain, path, .. } if path.is_empty() => {
                outbox.send(headers, &self.metadata);
                self.counters.metadata += 1;
                Ok(())
            }
            Request::Packet { object, part, .. } if *object == self.object.name() => {
                match part {
                    Part::Segment(segment) => {
                        let octets = self.object.send_segment(*segment, &self.packaging, headers, outbox)?;
                        self.counters.segments += 1;
                        self.counters.octets += octets as u64;
                    }
                    Part::Manifest(index) => {
                        self.object.send_manifest(*index, &self.packaging, headers, outbox)?;
                        self.counters.manifests += 1;
                    }
                }
                Ok(())
            }
            _ => {
                self.counters.gone += 1;
                Ok(())
            }
        }
    }
}

impl Producer for Put {
    fn prefixes(&self) -> Vec<Name> {
        self.certificates.prefixes(&self.name)
    }

    fn answer(&mut self, interest: &InterestView<'_>, headers: &LpHeaders, outbox: &mut Outbox) {
        self.counters.interests += 1;
        match self.certificates.answer(interest, headers, outbox) {
            Answer::Other => {}
            Answer::Sent => return self.counters.certificates += 1,
            Answer::NotKnown => return self.counters.unknown += 1,
        }
        match Request::parse(interest, self.name.as_name()) {
            Some(request) => {
                if let Err(unavailable) = self.answer_request(&request, headers, outbox) {
                    self.counters.count(&unavailable);
                    if unavailable == Unavailable::PastEnd {
                        outbox
                            .send(&LpHeaders { nack: Some(NackReason::NoRoute), ..*headers }, interest.wire);
                    }
                }
            }
            None => self.counters.unknown += 1,
        }
    }
}
